"""``lmeval:`` tasks as texts and as chats, against lm-evaluation-harness: the seam of prompt and option, BOS, the reply so far.

``tests/real_lmeval/lmeval_check.py --record`` writes what lm-eval says; ``make lmeval-check`` compares more with lm-eval itself.
"""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.parity.test_lmeval import check_weights
from tests.real_lmeval.lmeval_check import RECORDED_SEAM_ROWS, RECORDED_SEAM_SHOTS, RECORDED_TOKENIZERS
from tests.real_lmeval.seams import SHAPES, TEMPLATES, TEXT, Tally, build, compare, key, ran

FACTS = json.loads((Path(__file__).parents[1] / "data" / "lmeval_seams.json").read_text(encoding="utf-8"))
pytestmark = pytest.mark.needs("pyyaml", "datasets")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("seams")
    check_weights(build(found, RECORDED_SEAM_ROWS, RECORDED_TOKENIZERS), FACTS["weights"])
    return found


def recorded(number, template):
    return {shape: FACTS["runs"][key(number, template, shape, RECORDED_SEAM_SHOTS)] for shape in SHAPES}


@pytest.mark.parametrize("template", [TEXT, *TEMPLATES])
@pytest.mark.parametrize("number", range(len(RECORDED_TOKENIZERS)))
def test_answers_and_figures_are_those_of_lm_eval(folder, number, template):
    tally = Tally()
    compare(ran(folder, number, template, RECORDED_SEAM_SHOTS), recorded(number, template), tally)
    assert tally.other_answers + tally.other_figures == []
    assert tally.answers > 150


def test_kshots_own_rules_give_other_answers(folder):
    tally = Tally()
    compare(ran(folder, 0, "space", RECORDED_SEAM_SHOTS, own_rules=True), recorded(0, "space"), tally)
    assert len(tally.other_answers) > tally.answers / 3
    assert tally.largest > 1
