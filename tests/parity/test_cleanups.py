"""Clean-ups of config files: every golden case is equal, in the project whose it is."""

import json
import math
from pathlib import Path

import pytest

from kshot.cleanups.config_names import cleanup_function

HERE = Path(__file__).parents[1]
THINNED = json.loads((HERE / "data" / "golden_cleanups.json").read_text(encoding="utf-8"))["entries"]
WHOLE = HERE.parents[1] / "shared" / "data" / "golden" / "cleanups.json"
FRAMEWORKS = {"both": ("opencompass", "ais_bench"), "opencompass": ("opencompass",), "aisbench": ("ais_bench",)}
PACKAGES = {"general_cn_postprocess": "jieba", "TheoremQA_postprocess_v3": "latex2sympy2_extended"}


def given(entry, framework, text):
    """Return what the clean-up gives, as the golden file writes it."""
    try:
        found = cleanup_function(entry["name"], framework)(text, **entry["kwargs"])
    except Exception:  # noqa: BLE001 - which error it is does not matter, that there is one does
        return "error"
    return {"float": str(found)} if isinstance(found, float) and not math.isfinite(found) else found


def differing(entry, cases):
    """Return the cases that are not equal."""
    return [
        (framework, text, wanted, found)
        for framework in FRAMEWORKS[entry["home"]]
        for text, wanted in cases
        if (found := given(entry, framework, text))
        != ("error" if isinstance(wanted, dict) and "error" in wanted else wanted)
    ]


@pytest.mark.parametrize("entry", THINNED, ids=lambda entry: f"{entry['home']}-{entry['name']}")
def test_every_case_is_equal(entry):
    if entry["name"] in PACKAGES:
        pytest.importorskip(PACKAGES[entry["name"]])
    assert entry["cases"]
    assert differing(entry, entry["cases"]) == []


@pytest.mark.skipif(not WHOLE.exists(), reason="the golden cases of ../shared are not here")
def test_every_case_of_the_whole_file_is_equal():
    entries = json.loads(WHOLE.read_text(encoding="utf-8"))["entries"]
    entries = [entry for entry in entries if entry["name"] not in PACKAGES]
    assert len(entries) > 90
    pairs = [(entry, [(case["input"], case["output"]) for case in entry["cases"]]) for entry in entries]
    assert [found for entry, cases in pairs for found in differing(entry, cases)] == []
