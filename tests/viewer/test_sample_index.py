"""The index of a run's samples: filters, orders and counts are those of the command line; rows are those of the file."""

import json
import os
import sqlite3
import threading

import pytest
from hypothesis import given, settings, strategies as st

from kshot.core.errors import RunError, UsageError
from kshot.runs.record import read_record
from kshot.runs.sample_filters import SampleFilter, metric_scales
from kshot.runs.sample_selection import natural_key, sorted_places
from kshot.runs.samples_file import placed_rows
from kshot.viewer import opened_index, sample_index
from kshot.viewer.index_file import natural_bytes
from kshot.viewer.opened_index import OpenedIndex, sample_query
from kshot.viewer.sample_index import SampleIndex
from tests.viewer.made_runs import figure, ids, opened, page, sample, state, waited, write_run


@pytest.fixture(scope="module")
def quiz(tmp_path_factory):
    rows = [
        sample("q1", 100.0, category="b"),
        sample("q2", 0.0, category="a"),
        sample("q10", 50.0),
        sample("q9", None, category="b"),
        sample("x", 100.0, task="other", answer="q1"),
    ]
    index = opened(write_run(tmp_path_factory.mktemp("quiz"), rows))
    yield index
    index.close()


def test_a_page_is_a_part_of_the_list(quiz):
    found = page(quiz, offset=1, limit=2)
    assert {name: found[name] for name in ("state", "total", "matching")} == {
        "state": "ready",
        "total": 5,
        "matching": 5,
    }
    assert [row["n"] for row in found["rows"]] == [1, 2]
    assert page(quiz, offset=5)["rows"] == []


def test_a_line_says_what_a_list_shows(quiz):
    (row,) = page(quiz, answer="q2")["rows"]
    named = {"n": 1, "task": "quiz", "model": "m", "id": "q2", "category": "a", "verdict": "wrong", "score": 0.0}
    assert row == named | {"answer": "q2", "target": "x", "text": "What is q2?"}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"verdict": "right"}, ["q1", "x"]),
        ({"verdict": "wrong"}, ["q2"]),
        ({"verdict": "wrong,partly"}, ["q2", "q10"]),
        ({"verdict": "failed,partly"}, ["q10", "q9"]),
        ({"task": "other"}, ["x"]),
        ({"task": "oth"}, []),
        ({"model": "m", "category": "b"}, ["q1", "q9"]),
        ({"answer": "q1"}, ["q1", "x"]),
        ({"sort": "id"}, ["q1", "q2", "q9", "q10", "x"]),
        ({"sort": "id", "reverse": "1"}, ["x", "q10", "q9", "q2", "q1"]),
        ({"sort": "score"}, ["q2", "q10", "q1", "x", "q9"]),
        ({"sort": "score", "reverse": "1"}, ["q1", "x", "q10", "q2", "q9"]),
        ({"sort": "category"}, ["q2", "q1", "q9", "q10", "x"]),
        ({"sort": "task", "reverse": "1"}, ["q1", "q2", "q10", "q9", "x"]),
        ({"sort": "answer"}, ["q1", "x", "q2", "q9", "q10"]),
        ({"reverse": "1"}, ["x", "q9", "q10", "q2", "q1"]),
    ],
)
def test_filters_and_orders(quiz, query, found):
    assert ids(quiz, **query) == found


def test_facets_count_names_answers_and_verdicts(quiz):
    found = quiz.facets()
    assert found["state"] == "ready"
    assert found["total"] == 5
    assert found["metrics"] == ["headline", "Right"]
    assert found["tasks"] == [{"name": "quiz", "count": 4}, {"name": "other", "count": 1}]
    assert found["categories"] == [{"name": "b", "count": 2}, {"name": "a", "count": 1}]
    assert found["answers"][0] == {"name": "q1", "count": 2}
    assert found["verdicts"] == {"right": 2, "partly": 1, "wrong": 1, "failed": 1, "unrated": 0}


def test_rows_are_read_by_their_line_number(quiz):
    assert [quiz.row(n)["id"] for n in (4, 0)] == ["x", "q1"]
    assert quiz.scale(4).metric == "Right"
    for n in (-1, 5):
        with pytest.raises(UsageError, match=f"this run has no sample {n}. It has 5, numbered from 0"):
            quiz.row(n)


def test_an_unknown_metric_is_named(quiz):
    with pytest.raises(UsageError, match=r"this run has no metric 'F1'\. It has: Right"):
        quiz.facets("F1")


def test_samples_are_judged_by_another_metric(tmp_path):
    results = [figure("quiz"), figure("quiz", "Errors", bounds=[0, None], higher_is_better=False)]
    rows = [
        sample("a", 0.0, scores={"Right": 100.0, "Errors": 3}),
        sample("b", 0.0, scores={"Right": 0.0, "Errors": 0}),
    ]
    index = opened(write_run(tmp_path / "run", rows, results))
    assert ids(index, verdict="right") == ["a"]
    assert ids(index, verdict="right", metric="Errors") == ["b"]
    assert ids(index, sort="score", metric="Errors") == ["a", "b"]  # the worst first
    assert index.facets("Errors")["verdicts"]["wrong"] == 1
    assert index.scale(0, "Errors").upwards is False


def test_the_answer_is_that_of_the_rule_that_the_metric_scores(tmp_path):
    response = [{"text": f" {name}", "logprob": -1.0} for name in ("Mars", "Venus")]
    scores = {"acc": 0.0, "norm": 100.0}
    rows = [sample("a", 0.0, response=response, answer=0, answers={"acc": 0, "norm": 1}, target=1, scores=scores)]
    results = [figure("quiz", "acc"), figure("quiz", "norm", detail=True)]
    index = opened(write_run(tmp_path / "run", rows, results))
    assert page(index)["rows"][0]["answer"] == "A. Mars"
    assert page(index, metric="norm", answer="B. Venus")["rows"][0]["target"] == "B. Venus"
    assert index.facets("norm")["answers"] == [{"name": "B. Venus", "count": 1}]


# ---- the law: a list is what SampleFilter lets pass, in the order of sorted_places ----

NAMES = st.sampled_from(["a", "B", "b2", "b10", "é", "\x1b[31m", "\ud800", "名"])
ROWS = st.lists(
    st.fixed_dictionaries(
        {"task": st.sampled_from(["t", "u"]), "score": st.sampled_from([0.0, 30.0, 100.0, None]), "answer": NAMES},
        optional={"category": NAMES},
    ),
    max_size=12,
)
VERDICTS = st.sets(st.sampled_from(["right", "partly", "wrong", "failed"]))


@settings(max_examples=60)
@given(ROWS, VERDICTS, st.none() | NAMES, st.sampled_from(["run", "score", "id", "task", "category"]), st.booleans())
def test_lists_are_those_of_the_command_line(tmp_path_factory, rows, verdicts, category, order, reverse):
    made = [
        sample(f"q{7 * at % 12}", row.pop("score"), **row) for at, row in enumerate(map(dict, rows))
    ]  # ids that are not in order
    folder = write_run(tmp_path_factory.mktemp("law"), made, [figure("t"), figure("u")])
    wanted = SampleFilter(
        metric_scales(read_record(folder).results),
        frozenset(verdicts) or None,
        categories=None if category is None else {category},
    )
    matching = [placed for placed in placed_rows(folder) if wanted(placed.row)]
    places = sorted_places(matching, None if order == "run" else order, wanted, reverse=reverse)
    numbers = {placed.place: n for n, placed in enumerate(placed_rows(folder))}
    index = opened(folder)
    query = {"verdict": ",".join(verdicts), "category": category or "", "sort": order, "reverse": str(int(reverse))}
    found = page(index, **query)
    assert [row["n"] for row in found["rows"]] == [numbers[place] for place in places]
    assert found["matching"] == len(places)
    index.close()


@given(
    st.lists(
        st.text(st.characters(), max_size=8) | st.sampled_from(["a9", "a10", "A09", "a\0", "a\x01", "٣", "1" * 300])
    )
)
def test_the_bytes_of_names_sort_as_their_natural_keys(names):
    assert sorted(names, key=natural_bytes) == sorted(names, key=natural_key)


# ---- states ----


def test_a_page_says_that_the_run_is_being_read(tmp_path, monkeypatch):
    going_on = threading.Event()
    build = sample_index.index_file.build_index
    monkeypatch.setattr(
        sample_index.index_file, "build_index", lambda *given: (given[3](0.4), going_on.wait(), build(*given))[2]
    )
    index = SampleIndex(write_run(tmp_path / "run", [sample("a", 100.0)]))
    assert state(index).state == "new"
    assert index.page(sample_query({}))["state"] == "indexing"
    assert index.facets()["state"] == "indexing"
    assert state(index).state == "indexing"
    going_on.set()
    assert waited(index).state == "ready"
    assert ids(index) == ["a"]


def test_a_run_without_samples_that_can_be_read_says_why(tmp_path):
    folder = write_run(tmp_path / "run", [sample("a", 100.0)])
    (folder / "samples.jsonl").write_text("{broken\n")
    index = SampleIndex(folder)
    found = waited(index)
    assert (found.state, "samples.jsonl:1: this line is damaged" in found.error) == ("failed", True)
    with pytest.raises(RunError, match="this line is damaged"):
        index.page(sample_query({}))
    (folder / "samples.jsonl").write_text(json.dumps(sample("b", 0.0)) + "\n")
    waited(index)
    assert ids(index) == ["b"]


def test_a_run_that_has_no_samples_says_when_it_will(tmp_path):
    folder = write_run(tmp_path / "run", [])
    (folder / "samples.jsonl").unlink()
    found = waited(SampleIndex(folder))
    assert found.error.startswith(f"{folder}: this run has no samples yet. samples.jsonl is written when a run ends")


def test_a_run_that_changes_is_read_again(tmp_path):
    folder = write_run(tmp_path / "run", [sample("a", 100.0)])
    index = opened(folder)
    assert ids(index, q="a") == ["a"]
    write_run(folder, [sample("a", 100.0), sample("b", 0.0)])
    waited(index)
    assert ids(index) == ["a", "b"]
    assert ids(index, q="b") == ["b"]


def test_many_threads_may_ask_at_once(tmp_path):
    index = SampleIndex(write_run(tmp_path / "run", [sample(f"q{at}", 100.0 * (at % 2)) for at in range(300)]))
    found = []
    threads = [
        threading.Thread(
            target=lambda at=at: found.append(page(index, sort="score", q="what", offset=at)["rows"][0]["n"])
        )
        for at in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(found) == [0, 2, 4, 6, 8, 10, 12, 14]


def test_a_closed_index_says_so(tmp_path):
    index = opened(write_run(tmp_path / "run", [sample("a", 100.0)]))
    index.close()
    with pytest.raises(RunError, match="the viewer has been closed"):
        index.page(sample_query({}))


def test_an_index_that_is_put_to_rest_wakes_and_is_not_made_again(tmp_path, monkeypatch):
    index = opened(write_run(tmp_path / "run", [sample("a", 100.0), sample("b", 0.0)]))
    assert ids(index, q="b") == ["b"]
    monkeypatch.setattr(sample_index.index_file, "build_index", lambda *_: pytest.fail("it is there already"))
    index.rest()
    assert index.row(1)["id"] == "b"
    index.rest()
    assert index.page(sample_query({}))["state"] in {"ready", "indexing"}
    assert ids(index, q="b") == ["b"]


@pytest.mark.parametrize("asked", [lambda index: index.row(1)["id"], lambda index: ids(index)[1]], ids=["row", "page"])
def test_an_index_that_is_put_to_rest_while_it_is_read_is_opened_again(tmp_path, monkeypatch, asked):
    index = opened(write_run(tmp_path / "run", [sample("a", 100.0), sample("b", 0.0)]))
    monkeypatch.setattr(sample_index.index_file, "build_index", lambda *_: pytest.fail("it is there already"))
    plain, rests = OpenedIndex._held, [index.rest]

    def held(self):
        while rests:
            rests.pop()()  # another thread was quicker
        return plain(self)

    monkeypatch.setattr(OpenedIndex, "_held", held)
    assert asked(index) == "b"
    assert rests == []


def test_an_index_that_is_damaged_again_is_an_error(tmp_path, monkeypatch):
    index = opened(write_run(tmp_path / "run", [sample("a", 100.0)]))

    def damaged(*_):
        raise sqlite3.DatabaseError("malformed")

    monkeypatch.setattr(OpenedIndex, "lines", damaged)
    assert index.page(sample_query({}))["state"] == "indexing"
    waited(index)
    with pytest.raises(RunError, match="the index beside it cannot be read"):
        index.page(sample_query({}))


def test_an_index_that_cannot_be_written_says_what_to_do(tmp_path, monkeypatch):
    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(sample_index.index_file, "build_index", full)
    index = SampleIndex(write_run(tmp_path / "run", [sample("a", 100.0)]))
    assert "cannot be written: database or disk is full" in waited(index).error
    with pytest.raises(RunError, match="KSHOT_CACHE"):
        index.row(0)


def test_more_metrics_than_tables_are_judged_right(tmp_path, monkeypatch):
    monkeypatch.setattr(opened_index, "_MOST_TABLES", 2)
    names = [f"m{at}" for at in range(4)]
    rows = [{**sample(name, 0.0), "scores": {each: 100.0 * (each == name) for each in names}} for name in names]
    index = opened(write_run(tmp_path / "run", rows, [figure("quiz", name) for name in names]))
    for name in (*names, *names):
        assert ids(index, metric=name, verdict="right") == [name]


def test_a_table_that_cannot_be_made_leaves_nothing_behind(tmp_path, monkeypatch):
    rows = [{**sample("a", 0.0), "scores": {"x": 100.0, "y": 0.0}}]
    index = opened(write_run(tmp_path / "run", rows, [figure("quiz", "x"), figure("quiz", "y")]))
    plain, fails = opened_index.judged_row, [ValueError("a fault")]

    def failing(*given):
        if fails:
            raise fails.pop()
        return plain(*given)

    monkeypatch.setattr(opened_index, "judged_row", failing)
    with pytest.raises(ValueError, match="a fault"):
        index.page(sample_query({"metric": "y"}))
    assert ids(index, metric="y", verdict="wrong") == ["a"]


def test_many_categories_are_counted_in_one_pass(tmp_path):
    rows = [sample(f"q{at}", 100.0, category=f"c{at}") for at in range(3000)]
    index = opened(write_run(tmp_path / "run", rows))
    steps = []
    index.start().result()._connection.set_progress_handler(lambda: steps.append(1), 1000)
    found = index.facets()
    assert [each["name"] for each in found["categories"]] == [f"c{at}" for at in range(3000)]
    assert found["tasks"] == [{"name": "quiz", "count": 3000}]
    assert len(steps) < 1000  # a million steps of SQLite; each name beside each sample would be nine and more
    index.close()


def test_an_index_that_failed_is_tried_again_after_a_while(tmp_path, monkeypatch):
    index = SampleIndex(write_run(tmp_path / "run", [sample("a", 100.0)]))
    with monkeypatch.context() as patch:
        patch.setattr(sample_index.index_file, "build_index", lambda *_: 1 / 0)
        assert waited(index).state == "failed"
    with pytest.raises(RunError):
        index.row(0)
    monkeypatch.setattr(sample_index, "_RETRY_SECONDS", -1.0)
    assert index.row(0)["id"] == "a"


def test_the_path_of_a_run_need_not_be_utf8(tmp_path):
    folder = write_run(tmp_path / os.fsdecode(b"bytes\xff\xfe"), [sample("a", 100.0)])
    index = opened(folder)
    assert ids(index, q="what") == ["a"]
    index.rest()
    assert ids(index) == ["a"]
    index.close()
