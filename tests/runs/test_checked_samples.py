"""Samples that are not those of the figures are refused."""

import json

import pytest

from kshot.core.errors import RunError
from kshot.runs.compared_run import checked_samples
from kshot.runs.record import read_record
from tests.finished_runs import Item, Points, Right, finished, task


@pytest.fixture
def run(tmp_path):
    quiz = {str(at): Item((at * 37) % 100 if at % 7 else None, f"{at}?", "red") for at in range(30)}
    return finished(tmp_path / "run", task("quiz", quiz, Points(), Right()), task("none", {"a": Item(None)}))


def rows_of(run):
    return [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]


def write_rows(run, rows):
    (run / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_the_samples_of_a_run_are_those_of_its_figures(run):
    assert list(checked_samples(read_record(run))) == rows_of(run)


def test_a_run_in_memory_is_checked_too():
    result = finished(None, task("quiz", {"a": Item(100), "b": Item(0)}))
    assert len(list(checked_samples(result))) == 2
    result.results[0]["value"] = 51.0
    with pytest.raises(RunError, match="disagree about Right of quiz"):
        list(checked_samples(result))


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_large_scores_do_not_overflow(tmp_path):
    class Far(Points):
        name, bounds = "Far", None

    large = {str(at): Item(1e308 * (at % 2)) for at in range(8)}
    assert len(list(checked_samples(read_record(finished(tmp_path / "far", task("quiz", large, Far())))))) == 8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[:20], "disagree about Points of quiz on model"),
        (lambda rows: rows[:-1], "disagree about Right of none on model"),
        (lambda rows: [], "disagree about Points of quiz"),
        (lambda rows: [*rows, rows[1]], "disagree about Points of quiz"),
        (lambda rows: [rows[1] | {"scores": rows[1]["scores"] | {"Points": 1.0}}, *rows[:1], *rows[2:]], "Points of"),
        (lambda rows: [rows[1] | {"scores": rows[1]["scores"] | {"Right": "1"}}, *rows[:1], *rows[2:]], "Right of"),
        (lambda rows: [rows[1] | {"scores": []}, *rows[:1], *rows[2:]], "disagree about Points of quiz"),
        (lambda rows: [rows[1] | {"failed": "timeout"}, *rows[:1], *rows[2:]], "disagree about Points of quiz"),
        (lambda rows: [*rows, rows[1] | {"task": "other"}], "no figure of 'other' on 'model'"),
        (lambda rows: [*rows, rows[1] | {"model": ["m"]}], "no figure of 'quiz' on"),
    ],
)
def test_other_samples_are_refused(run, change, message):
    write_rows(run, change(rows_of(run)))
    with pytest.raises(RunError, match=message):
        list(checked_samples(read_record(run)))
