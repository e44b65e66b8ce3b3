"""Evaluators of configs: the figures of every golden set, through an entry, its task and a run.

``tests/data/golden_evaluators.json`` holds some sets of each evaluator, ``../shared`` all of them, which ``make configs-check`` takes.
"""

import json
from pathlib import Path

import pytest

from kshot.core.errors import KshotError
from tests.cases import ALL
from tests.configs.scored import figures, judge_template

HERE = Path(__file__).parents[1]
WHOLE = HERE.parents[1] / "shared" / "data" / "golden" / "evaluators.json"
THINNED = HERE / "data" / "golden_evaluators.json"
ENTRIES = json.loads((WHOLE if ALL and WHOLE.exists() else THINNED).read_text(encoding="utf-8"))["entries"]
HOMES = {"opencompass": "opencompass", "aisbench": "ais_bench", "both": "opencompass"}
FEW = 3 if ALL else 1
"""Sets that are run for each further name of an evaluator."""
CASES = [(entry, kind) for entry in ENTRIES for kind in entry["types"]]


@pytest.fixture(autouse=True)
def _short_intervals(monkeypatch):
    """Draw few resamples: intervals take most of the time, and figures are what is compared."""
    for name in ("RESAMPLES", "MIN_RESAMPLES"):
        monkeypatch.setattr(f"kshot.statistics.resampling.{name}", 20)


def evaluator_of(entry, kind):
    body = {"type": kind, **entry["kwargs"]}
    if "judge" in entry["sets"][0]:
        asking = {"prompt_template": judge_template()}
        body |= {"llm_evaluator": {"type": "GenericLLMEvaluator", **asking}} if "rule_evaluator" in body else asking
    return body


def judging(case):
    return (lambda number, _: case["judge"][number]) if "judge" in case else None


@pytest.mark.parametrize(("entry", "kind"), CASES, ids=[f"{number}-{kind}" for number, (_, kind) in enumerate(CASES)])
def test_figures(entry, kind):
    framework = kind.partition(".")[0] if "." in kind else HOMES[entry["home"]]
    first = kind == entry["types"][0]
    for case in entry["sets"] if first else entry["sets"][:FEW]:
        given = evaluator_of(entry, kind), case["predictions"], case["references"]
        more = {"rows": case.get("rows"), "judge": judging(case), "framework": framework}
        if "error" in case:
            with pytest.raises(KshotError):
                figures(*given, **more)
            continue
        found, wanted = figures(*given, **more), case["scores"]
        for name in set(entry["figures"]) & set(wanted):
            assert found.get(name) == pytest.approx(wanted[name], rel=1e-9, abs=1e-9), f"{name} of {case}"
