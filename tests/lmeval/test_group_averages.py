"""Averages of groups over the tasks below them."""

from pathlib import Path

import pytest

from kshot.core.metric import Measure
from kshot.core.records import Sample
from kshot.core.task import Task, TaskResult
from kshot.lmeval.figures import MeanFigure
from kshot.lmeval.source import group_rows
from kshot.lmeval.tree import Group, GroupAggregate, Leaf


def result(name, values, model="m", metric="acc", pipelines=("none",), share=True):
    """Return the result of a task whose documents have these values, by each filter."""
    names = [metric if len(pipelines) == 1 else f"{metric},{each}" for each in pipelines]
    figures = [MeanFigure(Measure(each), share=share) for each in names]
    labels = {
        figure.measure.name: {"lmeval_metric": metric, "filter": pipeline, "scale": figure.scale}
        for figure, pipeline in zip(figures, pipelines, strict=True)
    }
    samples = [Sample(str(place), {}) for place in range(len(values))]
    task = Task(name, samples, lambda *_: "", lambda *_: iter(()), tuple(figures), metric_labels=labels)
    made = TaskResult(task, model)
    for place, (sample, value) in enumerate(zip(samples, values, strict=True)):
        made.add(place, sample, {figure.measure.name: figure.value(value) for figure in figures})
    return made


def group(*aggregates, tasks=("a", "b"), name="birds"):
    leaves = tuple(Leaf(task, Path(f"{task}.yaml"), None) for task in tasks)
    return Group(name, None, leaves, aggregates)


def figures(rows):
    return {(row["task"], row["metric"]): row["value"] for row in rows}


RESULTS = [result("a", [1, 1, 0, 1]), result("b", [0]), result("elsewhere", [1])]


def test_tasks_count_by_their_documents():
    (row,) = group_rows([group(GroupAggregate("acc"))], RESULTS)
    assert row["value"] == pytest.approx(60)
    assert (row["n"], row["tasks"], row["filter"], row["scale"]) == (5, ["a", "b"], "none", 100.0)
    assert row["average"] == "weighted"
    assert row["ci95"][0] < 60 < row["ci95"][1]


def test_tasks_may_count_alike():
    (row,) = group_rows([group(GroupAggregate("acc", weighted=False))], RESULTS)
    assert row["value"] == pytest.approx(37.5)
    assert row["average"] == "macro"


def test_tasks_without_the_metric_are_left_out_and_a_group_of_none_has_no_figure():
    other = result("b", [0, 0], metric="exact_match")
    assert figures(group_rows([group(GroupAggregate("acc"))], [RESULTS[0], other])) == {("birds", "acc"): 75.0}
    assert list(group_rows([group(GroupAggregate("f1"))], RESULTS)) == []
    assert list(group_rows([group(GroupAggregate("acc"), tasks=("x",))], RESULTS)) == []


def test_every_filter_has_a_figure_unless_the_group_names_some():
    both = [result("a", [1, 0], pipelines=("strict", "loose")), result("b", [1], pipelines=("strict", "loose"))]
    found = figures(group_rows([group(GroupAggregate("acc"))], both))
    assert found == {("birds", "acc,loose"): pytest.approx(200 / 3), ("birds", "acc,strict"): pytest.approx(200 / 3)}
    (one,) = group_rows([group(GroupAggregate("acc", ("strict",)))], both)
    assert (one["metric"], one["average"]) == ("acc", "group")  # the tasks call it acc,strict


def test_each_model_has_its_own():
    rows = list(group_rows([group(GroupAggregate("acc"))], [*RESULTS, result("a", [0], model="other")]))
    assert {row["model"]: row["value"] for row in rows} == {"m": pytest.approx(60), "other": 0.0}


def test_groups_count_the_tasks_of_groups_below_them_once():
    inner = group(GroupAggregate("acc"), name="inner")
    outer = Group("outer", None, (inner, Leaf("a", Path("a.yaml"), None)), (GroupAggregate("acc"),))
    found = figures(group_rows([outer, inner], RESULTS))
    assert found == {("outer", "acc"): pytest.approx(60), ("inner", "acc"): pytest.approx(60)}


def test_figures_of_two_scales_are_averaged_on_that_of_lm_eval():
    (row,) = group_rows([group(GroupAggregate("acc"))], [result("a", [1]), result("b", [5], share=False)])
    assert (row["value"], row["scale"], row["ci95"]) == (3.0, 1.0, None)


def failing(made, failed):
    made.failed_categories += [None] * failed
    return made


def test_a_task_of_which_most_documents_failed_is_left_out():
    results = [result("a", [1, 1, 0, 1]), failing(result("b", [0]), 4), failing(result("c", [0] * 9), 1)]
    (row,) = group_rows([group(GroupAggregate("acc", weighted=False), tasks=("a", "b", "c"))], results)
    assert row["value"] == pytest.approx(37.5)
    assert (row["tasks"], row["left_out"], row["partly_failed"]) == (["a", "c"], ["b"], ["c"])
    assert (row["n"], row["failed"]) == (13, 5)


def test_a_task_of_which_every_document_failed_is_named():
    results = [failing(result("b", []), 2), result("a", [1, 1, 0, 1])]
    (row,) = group_rows([group(GroupAggregate("acc"))], results)
    assert (row["value"], row["left_out"]) == (75.0, ["b"])
