"""kshot against numbers that lm-evaluation-harness computed for a model that is built from a seed.

``tests/real_lmeval/lmeval_check.py --record`` writes them; ``make lmeval-check`` compares with lm-eval itself.
"""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import kshot
from tests.real_lmeval.comparison import FIGURES, SHOTS, TASK_OF, compare, options_of
from tests.real_lmeval.lmeval_check import RECORDED_ROWS
from tests.real_lmeval.models import random_model, weights_digest
from tests.real_lmeval.rows import write_rows

ROOT = Path(__file__).parents[1]
FACTS = json.loads((ROOT / "data" / "lmeval_facts.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("lmeval")
    write_rows(found, RECORDED_ROWS)
    check_weights([random_model(found / "model")], [FACTS["weights"]])
    return found


def check_weights(folders, recorded):
    """Skip, or fail, where models are not those of which lm-eval was asked."""
    if [weights_digest(folder) for folder in folders] != recorded:
        message = "these versions of torch, transformers and tokenizers build another model from the seed"
        if is_pinned(installed()):
            pytest.fail(f"{message}: record lm-eval's numbers anew")
        pytest.skip(message)


def installed():
    """Return the versions of the packages that build the model."""
    return {name: metadata.version(name) for name in ("torch", "transformers")}


def is_pinned(versions):
    """Whether these are the versions of constraints.txt, for which the numbers were recorded."""
    lines = (ROOT.parent / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line)
    return all(pinned[name] == version.partition("+")[0] for name, version in versions.items())


def test_which_versions_are_pinned():
    assert is_pinned({"torch": "2.13.0+cpu", "transformers": "5.22.2"})
    assert not is_pinned({"torch": "2.13.1", "transformers": "5.22.2"})


@pytest.mark.parametrize("shots", SHOTS)
@pytest.mark.parametrize("shape", FIGURES)
def test_prompts_log_probabilities_and_figures_are_those_of_lm_eval(folder, shape, shots):
    numbers = {"num_shots": shots} if shape != "rolling" else {}
    options = options_of(shape, folder, shots) | numbers
    spec = f"{ROOT / 'real_lmeval' / 'shapes.py'}:{shape.capitalize()}"
    result = kshot.evaluate(f"hf:{folder / 'model'}", spec, device="cpu", truncate="left", **options)
    figures = {row["metric"]: row["value"] for row in result.results}
    tally = compare(shape, result.samples, figures, FACTS["runs"][f"0 {TASK_OF.get(shape, shape)} {shots}"])
    assert tally.differences == []
    assert tally.prompts >= RECORDED_ROWS


def test_a_difference_is_found(folder):
    """The comparison itself: one changed byte, log-probability, flag or figure shows."""
    spec = f"{ROOT / 'real_lmeval' / 'shapes.py'}:Lastword"
    result = kshot.evaluate(f"hf:{folder / 'model'}", spec, device="cpu", **options_of("lastword", folder, 0))
    figures = {row["metric"]: row["value"] for row in result.results}

    def differences(change):
        expected = json.loads(json.dumps(FACTS["runs"]["0 lastword 0"]))
        change(expected["samples"][1], expected["metrics"])
        return compare("lastword", result.samples, figures, expected).differences

    def changed(name, value):
        return lambda sample, metrics: sample[name][0].__setitem__(0, value(sample[name][0][0]))

    assert differences(lambda sample, metrics: None) == []
    for change, message in (
        (changed("arguments", lambda context: context + " "), "document 1: asked"),
        (changed("resps", lambda answer: [answer[0] + 2e-4, answer[1]]), "document 1: log-probability of"),
        (changed("resps", lambda answer: [answer[0], not answer[1]]), "document 1: greedy of"),
        (lambda sample, metrics: metrics.update({"acc,none": 0.2}), "acc: kshot 0.0, lm-eval 20.0"),
        (lambda sample, metrics: metrics.update({"perplexity,none": 1.0}), "perplexity: kshot"),
    ):
        (found,) = differences(change)
        assert found.startswith(message)
