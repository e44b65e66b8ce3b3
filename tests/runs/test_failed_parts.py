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
    notes = [
        "fake: more than 5 % of the samples failed, and are in no figure, of towns:easy (16 of 20), towns:mid (2 of 20)",
        "towns[Macro Average] on fake is an average without towns:easy: more than half of the samples failed",
        "towns[Macro Average] on fake contains towns:mid, of which more than 5 % of the samples failed",
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
