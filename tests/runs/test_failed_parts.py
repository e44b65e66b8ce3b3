"""Averages over subsets of which many samples failed, in what a run gives and writes."""

import json

import pytest

import kshot
from tests.failing_runs import averages, evaluated


def test_an_average_is_without_a_subset_that_hardly_exists_and_says_so(tmp_path):
    result = evaluated({"easy": 16, "mid": 2}, out=tmp_path / "run", fsync="never")
    row = averages(result)["EM"]
    assert (row["value"], row["n"], row["failed"]) == (0.0, 38, 18)
    assert (row["tasks"], row["left_out"], row["partly_failed"]) == (
        ["towns:mid", "towns:hard"],
        ["towns:easy"],
        ["towns:mid"],
    )
    parts = "towns:easy (16 of 20), towns:mid (2 of 20)"
    without = "without towns:easy, of which more than half of the samples failed"
    notes = [
        f"fake: more than 5 % of the samples failed, and are in no figure, of {parts}",
        f"towns[Macro Average] on fake: {without}; with towns:mid, of which more than 5 % of the samples failed",
    ]
    assert [note for note in result.notes if "failed" in note] == notes
    written = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert set(notes) <= set(written["notes"])
    assert row in written["results"]
    assert averages(kshot.load(tmp_path / "run"))["EM"] == row
    assert averages(kshot.score(tmp_path / "run"))["EM"] == row


def test_few_failures_say_nothing():
    result = evaluated({"easy": 1})
    assert averages(result)["EM"]["value"] == pytest.approx(100 / 3)
    assert not {"left_out", "partly_failed"} & averages(result)["EM"].keys()
    assert not [note for note in result.notes if "failed" in note]


def test_every_draw_and_every_point_of_a_sweep_says_so():
    swept = evaluated({"easy": 16}, num_shots=[0, 1])
    rows = [row for row in swept.results if "average" in row]
    assert [row["value"] for row in rows] == [0.0, 0.0]
    assert [row["left_out"] for row in rows] == [["towns:easy,num_shots=0"], ["towns:easy,num_shots=1"]]
    assert all(set(row["left_out"]) <= {each["task"] for each in swept.results} for row in rows)
    drawn = evaluated({"easy": 2}, subsets=("easy",), num_shots=1, retriever="random", retriever_seeds="0..2")
    (row,) = [row for row in drawn.results if "sd" in row]
    assert (row["value"], row["n"], len(row["partly_failed"])) == (100.0, 18, 3)


# ---- comparisons and gates ----


def compared(tmp_path, before, after):
    """The comparison of the averages of two runs, of which so many samples failed, and its notes."""
    for name, failed in (("before", before), ("after", after)):
        evaluated(failed, out=tmp_path / name, fsync="never")
    found = kshot.compare(tmp_path / "before", tmp_path / "after")
    return next((row for row in found.rows if "average" in row), None), found.notes


@pytest.mark.parametrize("sides", [({}, {"easy": 16}), ({"easy": 16}, {}), ({"easy": 16}, {"easy": 16})])
def test_averages_over_other_parts_are_compared_without_them(tmp_path, sides):
    row, notes = compared(tmp_path, *sides)
    assert (row["left_out"], row["baseline_value"], row["run_value"], row["n"]) == (["towns:easy"], 0.0, 0.0, 40)
    why = "more than half of the samples failed in one of the runs"
    assert f"towns[Macro Average] is compared without towns:easy: {why}" in notes


def test_a_part_that_both_runs_answered_by_halves_is_left_out_of_their_comparison(tmp_path):
    evaluated({"easy": 6}, out=tmp_path / "before", fsync="never")
    evaluated({"easy": 6}, out=tmp_path / "after", fsync="never", first=9)
    found = kshot.compare(tmp_path / "before", tmp_path / "after")
    rows = {row["task"]: row for row in found.rows}
    assert (rows["towns:easy"]["n"], rows["towns:easy"]["failed"]) == (8, 12)
    assert rows["towns[Macro Average]"]["left_out"] == ["towns:easy"]


def test_a_part_with_some_failures_is_named_in_the_comparison(tmp_path):
    row, _ = compared(tmp_path, {}, {"easy": 2})
    assert (row["partly_failed"], row["failed"], row["n"]) == (["towns:easy"], 2, 58)
    assert "left_out" not in row


def test_averages_without_a_part_in_common_are_not_compared(tmp_path):
    row, notes = compared(tmp_path, {"easy": 20, "mid": 11}, {"hard": 11})
    assert row is None
    why = "more than half of the samples of each subset failed in one of the runs"
    assert f"towns[Macro Average]: {why}, so it is not compared" in notes


def test_gates_say_of_which_parts_their_average_is(tmp_path):
    compared(tmp_path, {}, {"easy": 16, "mid": 2})
    rows = kshot.load(tmp_path / "after").check(fail_under="EM=0", fail_if_worse=tmp_path / "before")
    told = {(row["gate"], row["task"]): row for row in rows}
    under, worse = (told[gate, "towns[Macro Average]"] for gate in ("fail_under", "fail_if_worse"))
    for row in (under, worse):
        assert "without towns:easy, of which more than half of the samples failed" in row["reason"]
        assert "with towns:mid, of which more than 5 % of the samples failed" in row["reason"]
        assert (row["left_out"], row["partly_failed"]) == (["towns:easy"], ["towns:mid"])
    assert "(16 of 20 samples failed)" in told["fail_under", "towns:easy"]["reason"]


def test_points_and_models_are_compared_by_the_parts_that_they_share():
    swept = evaluated({"easy": 16}, num_shots=[0, 1])
    (row,) = [row for row in swept.comparisons if "average" in row]
    assert (row["left_out"], row["n"]) == (["towns:easy,num_shots=0"], 40)
    both = evaluated({}, others=({"easy": 16, "mid": 3},))
    (row,) = [row for row in both.comparisons if "average" in row]
    assert (row["left_out"], row["partly_failed"], row["n"]) == (["towns:easy"], ["towns:mid"], 37)
