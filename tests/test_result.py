"""What evaluate, score and load return."""

import re

import numpy as np
import pytest

import kshot
from kshot.core.errors import UsageError
from tests.datasets.fakes import generation, says

ROWS = [{"q": "one", "target": "1"}, {"q": "two", "target": "2"}]


@pytest.fixture
def result(tmp_path):
    return kshot.evaluate(says("1"), generation(ROWS), out=tmp_path / "run")


@pytest.mark.parametrize("tool", ["pandas", "polars"])
@pytest.mark.parametrize(
    ("part", "column", "values"), [("results", "value", [50.0]), ("samples", "score_EM", [100.0, 0.0])]
)
def test_frames_hold_the_rows_of_a_part(result, tool, part, column, values):
    pytest.importorskip(tool)
    for each in (result, kshot.load(result.path), kshot.score(result.path, generation(ROWS))):
        frame = getattr(each, f"to_{tool}")(part)
        assert list(frame[column]) == values
    assert len(getattr(result, f"to_{tool}")("comparisons")) == 0


def test_an_unknown_part_lists_the_known_ones(result):
    with pytest.raises(UsageError, match=r"a run has no part 'rows'. Its parts: results, comparisons, usage, samples"):
        result.to_pandas("rows")


def test_a_notebook_shows_the_figures_and_the_folder(result):
    text = result._repr_html_()
    assert "50.00" in text
    assert str(result.path) in text


def test_samples_are_found_by_what_they_are(result):
    assert [row["id"] for row in result.find(wrong=True)] == ["1"]
    assert [row["id"] for row in kshot.load(result.path).find(right=True, id=["0", "1"])] == ["0"]
    assert list(result.find(contains="two", right=True)) == []
    with pytest.raises(UsageError, match="no task"):
        list(result.find(task="nowhere"))


def test_samples_are_found_that_another_run_answers_differently(result):
    other = kshot.evaluate(says("2"), generation(ROWS))
    for run in (result, kshot.load(result.path), kshot.evaluate(says("1"), generation(ROWS))):
        assert [row["id"] for row in run.find(flipped=other)] == ["0", "1"]
        assert [row["id"] for row in run.find(flipped=other, wrong=True)] == ["1"]
        assert list(run.find(flipped=result.path)) == list(run.find(flipped=str(result.path))) == []
    with pytest.raises(UsageError, match="is not a run"):
        result.find(flipped=3)


@pytest.mark.parametrize(
    ("criteria", "said"),
    [
        ({"task": 5}, "task is 5; it must be a text, or several in a list"),
        ({"id": None}, "id is None; it must be a text, or several in a list"),
        ({"category": [1]}, "one category is 1; it must be a text"),
        ({"model": b"m"}, "one model is 109; it must be a text"),
        ({"contains": 5}, "contains is 5; it must be a text"),
        ({"contains": ""}, "contains is empty"),
        ({"metric": ["EM"]}, "metric is ['EM']; it must be a text"),
        ({"below": "x"}, "below is 'x'; it must be a number"),
        ({"above": float("nan")}, "above is nan; it must be a number"),
        ({"below": True}, "below is True; it must be a number"),
        ({"wrong": "no"}, "wrong is 'no'; it must be True or False"),
        ({"flipped": 5}, "5 is not a run"),
    ],
)
def test_a_criterion_of_a_wrong_type_is_one_message(result, criteria, said):
    with pytest.raises(UsageError, match=re.escape(said)):
        result.find(**criteria)


def test_names_may_come_in_any_collection_and_numbers_from_numpy(result):
    assert [row["id"] for row in result.find(id={"1"})] == ["1"]
    assert [row["id"] for row in result.find(below=np.float32(50))] == ["1"]


@pytest.mark.parametrize("read", [kshot.load, kshot.list_runs, kshot.score])
@pytest.mark.parametrize("folder", [None, 1, b"run", ["run"], "a\0b", "~nobody-of-this-name/run"])
def test_what_is_no_folder_is_one_message(read, folder):
    with pytest.raises(UsageError, match=r"it must be a folder|there is no such home folder"):
        read(folder)


def test_a_text_does_not_switch_a_gate_on(result):
    with pytest.raises(UsageError, match="fail_on_failed is 'no'; it must be True or False"):
        result.check(fail_on_failed="no")
    with pytest.raises(UsageError, match=r"a run has no part \[1\]"):
        result.to_pandas([1])
