"""Averages over the subsets of a dataset."""

from __future__ import annotations

import pytest

from kshot.core.records import Prompt, Sample
from kshot.core.task import Task, TaskResult
from kshot.metrics import Accuracy, Perplexity
from kshot.metrics.aggregates import SHARE
from kshot.statistics.averages import average_rows
from tests.measures import measure


def result(values, metric=None, failed=0):
    metric = metric or Accuracy()
    task = Task("quiz", (), lambda s, _: Prompt(""), lambda s, p: iter(()), (metric,))
    made = TaskResult(task, "model", failed_categories=[None] * failed)
    for position, value in enumerate(values):
        made.add(position, Sample(str(position), {}), {measure(metric).name: value})
    return made


def test_subsets_count_the_same_whatever_their_size():
    (row,) = average_rows("quiz", {"a": result([100.0]), "b": result([0.0] * 9, failed=2)}, None)
    assert (row["task"], row["model"], row["metric"]) == ("quiz[Macro Average]", "model", "Accuracy")
    assert (row["value"], row["n"], row["failed"]) == (50.0, 10, 2)


def test_a_category_is_averaged_when_all_its_subsets_ran():
    results = {name: result([value]) for name, value in {"a": 100.0, "b": 0.0, "c": 0.0}.items()}
    categories = {"hard_sciences": ["a", "b"], "single": ["c"], "not_run": ["c", "d"]}
    rows = list(average_rows("quiz", results, categories))
    assert [(row["task"], row["value"]) for row in rows] == [
        ("quiz[Hard Sciences Macro Average]", 50.0),
        ("quiz[Macro Average]", pytest.approx(100 / 3)),
    ]


def test_one_subset_and_unscored_subsets_have_no_average():
    assert list(average_rows("quiz", {"a": result([100.0])}, None)) == []
    assert list(average_rows("quiz", {"a": result([100.0]), "b": result([])}, None)) == []


def test_figures_of_sums():
    results = {"a": result([(1.0, 1.0)] * 3, Perplexity()), "b": result([(2.0, 1.0)] * 3, Perplexity())}
    (row,) = average_rows("quiz", results, None)
    assert row["value"] == pytest.approx((2.718281828 + 7.389056099) / 2)
    assert row["ci95"] == pytest.approx([row["value"]] * 2)


class OfGroup(Accuracy):
    """The share of right answers in a group, which has none where all of its samples failed."""

    def reduce(self, name, values):
        return SHARE(values)


def test_a_subset_without_a_figure_is_in_no_average():
    results = {"a": result([(1.0, 1.0)], OfGroup()), "b": result([(0.0, 0.0)] * 2, OfGroup())}
    assert list(average_rows("quiz", results, None)) == []
    results["b"] = result([(0.0, 0.0), (1.0, 2.0)], OfGroup())
    (row,) = average_rows("quiz", results, None)
    assert row["value"] == 75.0


def average(**results):
    return next(average_rows("quiz", results, None), None)


def test_a_part_of_which_most_samples_failed_is_left_out():
    row = average(a=result([0.0, 100.0]), b=result([0.0]), c=result([100.0], failed=4))
    assert (row["value"], row["n"], row["failed"]) == (25.0, 3, 4)
    assert row["left_out"] == ["quiz"]  # the tasks of this page all have this name
    assert len(row["tasks"]) == 2
    assert "partly_failed" not in row
    assert row["ci95"] == average(a=result([0.0, 100.0]), b=result([0.0]))["ci95"]


@pytest.mark.parametrize(
    ("answered", "failed", "lists"),
    [
        (19, 1, set()),
        (18, 1, {"partly_failed"}),
        (5, 5, {"partly_failed"}),
        (4, 5, {"left_out"}),
        (0, 5, {"left_out"}),
    ],
)
@pytest.mark.parametrize("kind", ["macro", "weighted"])
def test_parts_are_named_above_a_twentieth_and_left_out_above_a_half(answered, failed, lists, kind):
    results = {"a": result([0.0]), "b": result([0.0]), "c": result([100.0] * answered, failed=failed)}
    (row,) = average_rows("quiz", results, None, average=kind)
    assert {"left_out", "partly_failed"} & row.keys() == lists
    assert (row["value"] == 0) == ("left_out" in lists)


def test_the_average_of_a_category_is_without_its_lost_subsets_too():
    results = {"a": result([0.0]), "b": result([100.0], failed=2), "c": result([50.0])}
    rows = list(average_rows("quiz", results, {"some": ["a", "b"], "others": ["a", "c"]}))
    assert [(row["value"], "left_out" in row) for row in rows] == [(0.0, True), (25.0, False), (25.0, True)]


def test_an_average_of_lost_parts_has_no_value():
    row = average(a=result([100.0], failed=2), b=result([100.0], failed=2))
    assert (row["value"], row["ci95"], row["n"], row["failed"]) == (None, None, 0, 4)
    assert (row["tasks"], len(row["left_out"])) == ([], 1)
    assert average(a=result([100.0]), b=result([], failed=2)) is None
