"""Figures of which many samples failed: their marks, and what is said of them."""

import pytest

from kshot.core.failed_parts import failure_mark, failure_notes, mark_legend, side_mark
from tests.run_folders import figure


@pytest.mark.parametrize(
    ("row", "mark"),
    [
        (figure(n=95, failed=5), ""),
        (figure(n=94, failed=6), "†"),
        (figure(None, n=0, failed=3, ci95=None), ""),
        (figure(partly_failed=["a"]), "†"),
        (figure(partly_failed=["a"], left_out=["b"]), "‡"),
        (figure(n=10, failed=10, sd=1.0), ""),  # a mean of draws has the samples of one
    ],
)
def test_marks(row, mark):
    assert failure_mark(row) == mark


def test_a_side_of_a_comparison_is_marked_where_its_samples_failed():
    row = {"n": 90, "failed": 10, "failed_baseline": 0, "failed_run": 10}
    assert (side_mark(row, "baseline"), side_mark(row, "run")) == ("", "†")
    assert side_mark({**row, "left_out": ["a"]}, "baseline") == "‡"
    assert side_mark({**row, "n": 990}, "run") == ""


def test_a_legend_has_a_line_for_each_mark():
    assert mark_legend([figure(), figure(failed=3)]) == []
    assert mark_legend([figure(n=9, failed=1)]) == ["† more than 5 % of the samples failed"]
    both = figure(average="macro", partly_failed=["a"], left_out=["b", "c"])
    assert mark_legend([both, both]) == [
        "† more than 5 % of the samples, or of those of a part (a), failed",
        "‡ an average without b, c: more than half of the samples failed",
    ]
    many = figure(left_out=[f"s{at}" for at in range(57)])
    assert mark_legend([many]) == [
        "‡ an average without s0, s1, s2, s3, s4, s5, s6, s7 and 49 more: more than half of the samples failed"
    ]


def test_notes_name_parts_and_averages_once():
    rows = [
        figure(task="mmlu:a[sums]", n=0, failed=2, category="sums"),
        figure(task="mmlu:a", n=3, failed=2),
        figure(task="mmlu:a", n=3, failed=2, metric="F1"),
        figure(task="mmlu:c", failed=1),
        *(
            figure(task="mmlu[A]", average="macro", metric=each, left_out=["mmlu:b"], partly_failed=["mmlu:a"])
            for each in ("Accuracy", "F1")
        ),
        figure(None, task="mmlu[B]", average="macro", left_out=["mmlu:b"]),
    ]
    first, *averages = failure_notes(rows)
    assert first == (
        "embedded: more than 5 % of the samples failed, and are in no figure, of mmlu:a (2 of 5), mmlu:a[sums] (2 of 2)"
    )
    without = "without mmlu:b, of which more than half of the samples failed"
    assert averages == [
        f"mmlu[A] on embedded: {without}; with mmlu:a, of which more than 5 % of the samples failed",
        f"mmlu[B] on embedded, which has no value: {without}",
    ]
    assert list(failure_notes([figure(), figure(n=0, failed=0)])) == []
