"""Group averages of a config's summarizer."""

import math
import re
from dataclasses import replace

import pytest

from kshot.configs.summary_groups import group_notes, group_rows, summary_groups
from kshot.core.errors import DataError
from kshot.core.records import Gold, Sample
from kshot.core.task import Task, TaskResult
from kshot.metrics import Metric


class Points(Metric):
    bounds = (0.0, 100.0)

    def __init__(self, *names):
        self._names = names

    @property
    def names(self):
        return self._names


def result(name, model="m", **values):
    task = Task(name, [], lambda *_: None, lambda *_: None, (Points(*values),))
    found = TaskResult(task, model)
    for position in range(len(next(iter(values.values())))):
        sample = Sample(str(position), {}, Gold("x"), position=position)
        found.add(position, sample, {metric: float(each[position]) for metric, each in values.items()})
    return found


RESULTS = [
    result("a", accuracy=[100, 0]),  # 50
    result("b", accuracy=[100, 100, 100, 0]),  # 75
    result("c", score=[10, 30], accuracy=[0, 0]),  # 20 and 0
]


def figures(*groups):
    rows = list(group_rows(groups, RESULTS, "config.py"))
    return {(row["task"], row["metric"]): row["value"] for row in rows}


def test_a_group_is_the_average_of_its_parts():
    assert figures({"name": "ab", "subsets": ["a", "b"]}) == {("ab", "accuracy"): 62.5}
    (row,) = group_rows([{"name": "ab", "subsets": ["a", "b"]}], RESULTS, "")
    assert (row["n"], row["failed"], row["average"], row["higher_is_better"]) == (6, 0, "group", True)
    assert row["ci95"][0] < 62.5 < row["ci95"][1]


def test_weights():
    found = figures({"name": "ab", "subsets": ["a", "b"], "weights": {"a": 1, "b": 3}})
    assert found == {("ab", "accuracy"): 68.75, ("ab", "weighted_average"): 68.75}


def test_parts_with_different_first_figures():
    found = figures({"name": "ac", "subsets": ["a", "c"]})
    assert found == {("ac", "accuracy"): 25.0, ("ac", "naive_average"): 35.0}


def test_parts_with_named_figures():
    assert figures({"name": "ac", "subsets": [["a", "accuracy"], ["c", "score"]]}) == {("ac", "naive_average"): 35.0}


@pytest.mark.parametrize(
    ("option", "name", "value"),
    [
        ("std", "standard_deviation", 12.5),
        ("sum", "sum", 125.0),
        ("harmonic_mean", "harmonic_mean", 2 / (1 / 50 + 1 / 75)),
    ],
)
def test_other_summaries(option, name, value):
    found = figures({"name": "ab", "subsets": ["a", "b"], option: True})
    assert math.isclose(found["ab", name], value)


def test_groups_of_groups():
    found = figures({"name": "ab", "subsets": ["a", "b"]}, {"name": "all", "subsets": ["ab", "c"], "metric": "total"})
    assert found["all", "accuracy"] == 31.25
    assert found["all", "total"] == (62.5 + 20) / 2


def test_a_group_that_did_not_run_whole_has_no_row():
    assert figures({"name": "ad", "subsets": ["a", "d"]}, {"name": "none", "subsets": []}) == {}
    assert figures({"name": "ad", "subsets": [["a", "rouge"]]}) == {}


def test_weights_that_cannot_be_used_are_told():
    with pytest.raises(DataError, match=r"weights of the group 'ab'"):
        figures({"name": "ab", "subsets": ["a", "b"], "weights": {"x": 1}})


@pytest.mark.parametrize(
    ("group", "note"),
    [
        (7, "left out: it is 7, not dict"),
        ({}, "left out: its name is None; it must be text"),
        ({"name": 5, "subsets": ["a"]}, "its name is 5"),
        ({"name": "g", "subsets": "x"}, "the subsets of 'g' are 'x'; they must be a list"),
        ({"name": "g", "subsets": ["a", [1, 2, 3]]}, r"a part of 'g' is \[1, 2, 3\]"),
        ({"name": "g", "subsets": ["a"], "weights": {"a": "x"}}, "the weights of the group 'g' cannot be used"),
        ({"name": "g", "subsets": ["a"], "weights": {"a": math.inf}}, "the weights of the group 'g' cannot be used"),
        ({"name": "g", "subsets": ["a"], "weights": 3}, "the weights of the group 'g' are 3, not a dict"),
    ],
)
def test_groups_that_are_written_wrongly_are_told_and_left_out(group, note):
    good = {"name": "ab", "subsets": ["a", "b"]}
    variables = {"summarizer": {"summary_groups": [group, good]}}
    assert summary_groups(variables) == [good]
    (told,) = group_notes(variables, {"a", "b"})
    assert re.search(note, told)


def test_groups_that_refer_to_each_other_are_told():
    groups = [("g", ["g"]), ("h", ["k", "a"]), ("k", ["h"]), ("a", ["a", "b"]), ("all", ["a", "b"])]
    listed = [{"name": name, "subsets": subsets} for name, subsets in groups]
    told = list(group_notes({"summary_groups": listed}, {"a", "b"}))
    assert [re.findall("'(.*?)'", each)[0] for each in told] == ["h", "k"]  # g is the name of a task, too
    assert all("it is a part of one of its parts" in each for each in told)


def test_a_part_that_is_named_twice_counts_twice_and_its_samples_once():
    group = {"name": "aab", "subsets": ["a", "a", "b"]}
    (row,) = group_rows([group], RESULTS, "")
    assert (row["value"], row["n"], row["ci95"]) == (pytest.approx(175 / 3), 6, None)
    *_, row = group_rows([{"name": "ab", "subsets": ["a", "b"]}, {"name": "x", "subsets": ["ab", "a"]}], RESULTS, "")
    assert (row["value"], row["n"], row["ci95"]) == (56.25, 6, None)
    assert list(group_notes({"summary_groups": [group]}, {"a"})) == [
        "the summary group 'aab' names 'a' more than once, and counts it as often"
    ]


def test_where_groups_are_found():
    group = {"name": "g", "subsets": ["a"]}
    assert summary_groups({"summarizer": {"summary_groups": [group]}, "x_summary_groups": []}) == [group]
    assert summary_groups({"mmlu_summary_groups": [group], "other": [{}]}) == [group]
    assert summary_groups({"summarizer": None, "summary_groups": "text"}) == []


class Shares(Points):
    """Points of a group of samples, which has no figure where they all failed."""

    def reduce(self, name, values):
        return 100.0 * values[0][0] if values[0][0] else None


def test_a_part_without_a_figure_is_in_no_group():
    parts = []
    for name, right in {"a": 1.0, "b": 0.0}.items():
        parts.append(TaskResult(replace(RESULTS[0].task, name=name, metrics=(Shares("accuracy"),)), "m"))
        parts[-1].add(0, Sample("0", {}, Gold("x")), {"accuracy": (right, right)})
    group = {"name": "ab", "subsets": ["a", "b"]}
    assert list(group_rows([group], parts, "")) == []
    (row,) = group_rows([{"name": "aa", "subsets": ["a"]}], parts, "")
    assert row["value"] == 100.0


def test_a_part_of_which_every_sample_failed_is_in_no_group():
    parts = [result("a", accuracy=[100]), TaskResult(RESULTS[0].task, "m", failed_categories=[None])]
    parts[1].task = replace(parts[1].task, name="b")
    assert list(group_rows([{"name": "ab", "subsets": ["a", "b"]}], parts, "")) == []


def lossy(name, failed, **values):
    found = result(name, **values)
    found.failed_categories += [None] * failed
    return found


LOSSY = [*RESULTS[:2], lossy("c", 4, accuracy=[100]), lossy("d", 1, accuracy=[100] * 9)]


def groups_of_lossy(*groups):
    return {(row["task"], row["metric"]): row for row in group_rows(groups, LOSSY, "config.py")}


def test_a_part_of_which_most_samples_failed_is_in_no_average():
    row = groups_of_lossy({"name": "abc", "subsets": ["a", "b", "c"]})["abc", "accuracy"]
    assert (row["value"], row["left_out"], row["n"], row["failed"]) == (62.5, ["c"], 6, 4)
    assert row["ci95"][0] < 62.5 < row["ci95"][1]
    weighted = {"name": "abc", "subsets": ["a", "b", "c"], "weights": {"a": 1, "b": 3, "c": 6}}
    assert groups_of_lossy(weighted)["abc", "weighted_average"]["value"] == 68.75


def test_groups_of_groups_say_what_their_parts_are_without():
    inner, outer = {"name": "ac", "subsets": ["a", "c", "d"]}, {"name": "all", "subsets": ["ac", "b"]}
    row = groups_of_lossy(inner, outer)["all", "accuracy"]
    assert (row["value"], row["left_out"], row["partly_failed"]) == (75.0, ["c"], ["d"])
    lost = {"name": "only", "subsets": ["c", "c"]}
    row = groups_of_lossy(lost, {"name": "all", "subsets": ["only", "a", "b"]})["all", "accuracy"]
    assert (row["value"], row["left_out"]) == (62.5, ["only"])


def test_a_sum_counts_every_part_and_says_so():
    row = groups_of_lossy({"name": "ac", "subsets": ["a", "c"], "sum": True})["ac", "sum"]
    assert (row["value"], row["partly_failed"]) == (150.0, ["c"])
    assert "left_out" not in row


def test_a_group_whose_weights_are_those_of_lost_parts_has_no_figure():
    group = {"name": "ac", "subsets": ["a", "c"], "weights": {"a": 0, "c": 1}}
    assert groups_of_lossy(group) == {}
