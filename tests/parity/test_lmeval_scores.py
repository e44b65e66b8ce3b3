"""Scores of lm-eval's task files: every recorded round, by themselves and through a whole run."""

import math

import pytest

from tests.lmeval.replayed import lmeval_figures, ran
from tests.parity.lmeval_recordings import MARKS, RECORDED, RecordedTree

pytestmark = MARKS


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    tree = RecordedTree(tmp_path_factory.mktemp("tasks"))
    yield tree
    tree.functions.close()


def is_same(found, recorded):
    """Whether two values are the same, but for the nine digits that were recorded."""
    if recorded == "nan":
        return isinstance(found, float) and math.isnan(found)
    if isinstance(recorded, dict):
        return found.keys() == recorded.keys() and all(is_same(found[key], recorded[key]) for key in recorded)
    if isinstance(recorded, list):
        return len(found) == len(recorded) and all(map(is_same, found, recorded))
    if isinstance(recorded, float):
        return math.isclose(found, recorded, rel_tol=1e-8, abs_tol=2e-9)
    return found == recorded


@pytest.mark.parametrize("name", RECORDED)
def test_scores_are_those_of_lm_eval(name, tree):
    recorded = RECORDED[name]
    task = tree.task(name)
    for given in recorded["scores"]:
        found = task.score(recorded["rows"], given["responses"])
        assert is_same(found["metrics"], given["metrics"]), (found["metrics"], given["metrics"])
        assert is_same(found["docs"], given["docs"]), (found["docs"], given["docs"])
    first = recorded["scores"][0]
    result = ran(task, recorded["rows"], first["responses"])
    assert all(row["failed"] == 0 for row in result.results)
    assert is_same(lmeval_figures(result), first["metrics"])


def test_the_comparison_sees_a_difference():
    assert not is_same({"acc,none": 0.5}, {"acc,none": 0.25})
    assert not is_same([1, 0.1], [1, 0.1000001])
    assert not is_same({"a": 1}, {"a": 1, "b": 2})
