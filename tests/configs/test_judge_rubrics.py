"""Judges' replies with a score, a number or a list of checks: by OpenCompass's own code on made-up replies."""

import pytest

from kshot.configs.evaluators.judge_rubrics import answer_score, in_double_brackets
from kshot.core.errors import DataError
from tests.configs.test_judges import judged


def test_numbers_that_a_judge_reads():
    found = judged(
        "opencompass.datasets.matbench.post_process.numerical_llmjudge_postprocess", ["2.5 eV", "no"], [2, 1]
    )
    assert found == {"mae": 0.75}
    with pytest.raises(DataError, match="wants a number"):
        judged("numerical_llmjudge_postprocess", ["2"], ["two"])


def test_overall_scores():
    replies = ['```json\n{"Overall Score": "1"}\n```', "Overall Score: 0", "1 point", "none"]
    found = judged("clbench_llmjudge_postprocess", replies, ["g"] * 4)
    assert found == {"accuracy": 50.0, "solving_rate": 0.5, "correct_count": 2, "total_count": 4}


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ('so {"why": "x", "answer_score": "1"}', 1),
        ('```json\n{"answer_score": 0}\n```', 0),
        ("answer_score: 1", 1),
        ("【评分】：0 分", 0),
        ('{"answer_score": 2}', None),
        ("none", None),
    ],
)
def test_the_score_of_an_answer(reply, score):
    assert answer_score(reply) == score


def test_instructions_against_habit_by_language_and_kind():
    kinds = ["Question Correction", "Question Correction", "New Kind"]
    rows = [{"language": lang, "instruction_types": kind} for lang, kind in zip(("en", "zh", "en"), kinds, strict=True)]
    found = judged("inverse_ifeval_judge_postprocess", ["answer_score: 1", "answer_score: 0", "?"], ["g"] * 3, rows)
    assert found["accuracy"] == pytest.approx(100 / 3)
    assert (found["en_accuracy"], found["en_count"], found["QC_accuracy"], found["en_QC_accuracy"]) == (50, 2, 50, 100)
    assert (found["New Kind_accuracy"], found["parse_error_count"]) == (0, 1)


def test_scores_in_double_brackets():
    assert in_double_brackets("[[7]] then [[ 12 ]]", 1, 10) == 7
    golds = [{"task": "安全回答"}, {"task": "拒答"}, {"task": "拒答"}]
    assert judged("elbench_safety_postprocess", ["[[1]]", "score: 0", "none"], golds) == {
        "overall": 50.0,
        "应回答": 100.0,
        "拒答": 0.0,
    }
    assert judged("elbench_highlevel_edu", ["[[8]]", "none", "[[5]]"], [{}] * 3) == {"score": 65.0}


def test_checks_of_a_rubric():
    replies = [
        '{"rubrics_check": {"a": "Yes", "b": "no"}, "SATISFIED_ALL_REQUIREMENTS": "NO"}',
        'broken { "SATISFIED_ALL_REQUIREMENTS": "yes", }',
        "none",
    ]
    assert judged("advancedif_rubric_postprocess", replies, ["g"] * 3) == {
        "accuracy": pytest.approx(100 / 3),
        "micro_pass_rate": 50.0,
        "correct_count": 1,
        "total": 3,
        "total_rubrics": 2,
        "passed_rubrics": 1,
        "parse_error_count": 1,
        "parse_error_rate": pytest.approx(100 / 3),
    }
