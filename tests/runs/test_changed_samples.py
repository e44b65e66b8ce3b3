"""The samples that changed between runs: which row they belong to, and what they say of themselves."""

import pytest

import kshot
from tests.finished_runs import Item, Points, finished, task


def items(scores):
    return {
        f"q{at}": Item(score, f"question {at}", category="odd" if at % 2 else "even") for at, score in enumerate(scores)
    }


@pytest.fixture(scope="module")
def draws(tmp_path_factory):
    """One task, and three that ask the same: as a task without examples and its draws of examples."""
    folder = tmp_path_factory.mktemp("draws")
    zero = finished(folder / "zero", task("quiz", items([100, 0, 0, 0])), task("other", items([0, 0]), Points()))
    many = finished(
        folder / "many",
        task("quiz@0", items([100, 100, 0, 0])),
        task("quiz@1", items([100, 0, 100, 0])),
        task("quiz@2", items([0, 0, 0, 100])),
        task("other", items([5, 10]), Points()),
    )
    return kshot.compare(zero, many)


def test_each_draw_has_its_own_flips(draws):
    rows = [row for row in draws.rows if row["task"] == "quiz"]
    assert [row["run_task"] for row in rows] == ["quiz@0", "quiz@1", "quiz@2"]
    found = [[flip["id"] for flip, _, _ in draws.flips_of(row)] for row in rows]
    assert found == [["q1"], ["q2"], ["q0", "q3"]]
    assert [(flip["run_task"], flip["id"], flip["won"]) for flip in draws.flips("quiz")] == [
        ("quiz@0", "q1", True),
        ("quiz@1", "q2", True),
        ("quiz@2", "q0", False),
        ("quiz@2", "q3", True),
    ]
    for row in rows:
        assert len(list(draws.flips_of(row))) == row["won"] + row["lost"]


def test_flips_are_chosen_by_the_task_of_the_run_too(draws):
    assert [flip["id"] for flip in draws.flips(run_task="quiz@2")] == ["q0", "q3"]
    assert [flip["id"] for flip in draws.flips(run_task="quiz@2", won=False)] == ["q0"]
    assert [flip["id"] for flip in draws.flips(run_task="other")] == ["q1", "q0"]  # the same name in both
    assert "run_task" not in next(draws.flips("other"))
    assert not list(draws.flips(run_task="quiz"))


def test_a_category_has_flips_of_its_own(draws):
    rows = {(row.get("run_task"), row["category"]): row for row in draws.categories}
    assert [flip["id"] for flip, _, _ in draws.flips_of(rows["quiz@2", "odd"])] == ["q3"]
    assert [flip["id"] for flip, _, _ in draws.flips_of(rows["quiz@2", "even"], won=False)] == ["q0"]
    assert [flip["id"] for flip in draws.flips("quiz", category="odd")] == ["q1", "q3"]


@pytest.mark.needs("pandas")
def test_a_frame_tells_the_draws_apart(draws):
    frame = draws.to_pandas("flips")
    assert not frame.duplicated(["task", "run_task", "metric", "id", "baseline", "run"]).any()
    assert frame[frame["task"] == "quiz"]["run_task"].tolist() == ["quiz@0", "quiz@1", "quiz@2", "quiz@2"]
