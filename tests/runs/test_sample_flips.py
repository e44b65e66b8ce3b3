"""Samples that flipped between two runs are only those of one measure, and those of the figures."""

import json

import pytest

import kshot
from kshot.core.errors import RunError
from tests.finished_runs import Item, Points, Right, finished, task


def run(scores, metric=None, name="quiz", folder=None):
    items = {f"q{at}": Item(score) for at, score in enumerate(scores)}
    return finished(folder, task(name, items, metric or Right()))


def scaled(*bounds, **more):
    """The metric Points, on another scale."""
    return type("Scaled", (Points,), {"bounds": bounds or None, **more})()


def flips(one, other, **criteria):
    return [row["id"] for row in one.find(flipped=other, **criteria)]


def test_flips_are_the_same_from_both_sides():
    one, other = run([100, 0, None, 100, 0]), run([100, 100, 100, 0, None])
    assert flips(one, other) == flips(other, one) == ["q1", "q3"]


@pytest.mark.parametrize(
    ("mine", "yours", "said"),
    [
        (scaled(0, 100), scaled(0, 1), "the scales of Points differ: 0 to 100 in run 1 and 0 to 1 in run 2"),
        (scaled(1, 10), scaled(1, 5), "the scales of Points differ: 1 to 10 in run 1 and 1 to 5 in run 2"),
        (scaled(), scaled(0, 1), "only one of run 1 and run 2 says the scale of Points"),
        (scaled(0, 1), scaled(), "only one of run 1 and run 2 says the scale of Points"),
        (scaled(0, 1), scaled(0, 1, higher_is_better=False), "the runs disagree whether a higher Points is better"),
    ],
)
def test_another_measure_of_the_same_name_is_refused(mine, yours, said):
    one, other = run([1, 0, 1], mine), run([0, 0, 1], yours)
    with pytest.raises(RunError, match=said):
        flips(one, other)


@pytest.mark.parametrize(
    ("label", "said"),
    [("aggregate", "by different rules"), ("chunks", "the passages of run 1 and run 2 differ in size")],
)
def test_another_rule_or_other_passages_are_refused(label, said):
    one, other = run([100, 0]), run([0, 0])
    assert flips(one, other) == ["q0"]
    for row in other.results:
        row[label] = "other"
    with pytest.raises(RunError, match=said):
        flips(one, other)
    if label == "chunks":
        for row in (*one.results, *other.results):
            row["token_budget"] = True
        assert flips(one, other) == ["q0"]


def test_a_task_that_can_be_compared_can_be_chosen():
    def both(points, best):
        items = {"q0": Item(100), "q1": Item(points)}
        return [task("quiz", items), task("essay", items, scaled(0, best))]

    one, other = finished(None, *both(0, 100)), finished(None, *both(100, 200))
    with pytest.raises(RunError, match="essay: the scales of Points differ"):
        flips(one, other)
    assert flips(one, other, task="quiz") == ["q1"]


def test_samples_that_are_not_those_of_the_figures_are_refused(tmp_path):
    one, other = (
        kshot.load(run(scores, folder=tmp_path / name)) for name, scores in (("a", [100, 0]), ("b", [100, 0]))
    )
    assert flips(one, other) == []
    file = tmp_path / "b" / "samples.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[1]["scores"]["Right"] = 100.0
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for pair in ((one, other), (other, one)):
        with pytest.raises(RunError, match=r"samples\.jsonl and summary\.json disagree about Right of quiz"):
            flips(*pair)
        with pytest.raises(RunError, match=r"samples\.jsonl and summary\.json disagree about Right of quiz"):
            kshot.compare(*pair)


def test_samples_that_were_cut_are_refused(tmp_path):
    one, other = (kshot.load(run([100, 100], folder=tmp_path / name)) for name in "ab")
    file = tmp_path / "b" / "samples.jsonl"
    file.write_text(file.read_text().splitlines()[0] + "\n")  # the mean is the same
    with pytest.raises(RunError, match="disagree about Right"):
        flips(one, other)
