"""Sentences on systems that cannot be told apart."""

import pytest

from kshot.report.verdicts import model_verdicts


def pair(ci95, ahead=None, **more):
    found = {"task": "quiz", "metric": "PPL", "a": "a", "b": "b", "a_model": "a", "b_model": "b", "difference": 426.7}
    tested = {"higher_is_better": False, "p": 0.02, "p_corrected": 0.01 if ahead else 0.25, "family": 1}
    return found | tested | {"ahead": ahead, "ci95": ci95} | more


@pytest.mark.parametrize(
    ("ci95", "ahead", "said"),
    [
        ([269.3, 628.8], None, "a cannot be told from b (+426.7, p 0.25)."),
        ([-12.0, 628.8], None, "a cannot be told from b (+426.7, 95 %: -12.0 to +628.8, p 0.25)."),
        ([-0.0, 628.8], None, "a cannot be told from b (+426.7, 95 %: +0.0 to +628.8, p 0.25)."),
        ([269.3, 628.8], "a", "a is ahead of b (+426.7, 95 %: +269.3 to +628.8, p 0.01)."),
        (None, None, "a cannot be told from b (+426.7, p 0.25)."),
    ],
)
def test_no_interval_contradicts_its_verdict(ci95, ahead, said):
    assert list(model_verdicts([pair(ci95, ahead)])) == [f"quiz PPL: {said}"]


def test_averages_come_first():
    subsets = [pair(None, "a", task=f"quiz[{i}]", p_corrected=0.001 * i) for i in range(9)]
    lines = list(model_verdicts([*subsets, pair(None, task="quiz[Macro Average]", average="macro", p_corrected=0.9)]))
    assert lines[0].startswith("quiz[Macro Average] PPL: a cannot be told from b")
    assert lines[1].startswith("quiz[0] PPL: a is ahead")
