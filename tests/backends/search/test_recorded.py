"""Recorded runs: both formats, every way in which a file can be wrong, and runs written for other tools."""

import io
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kshot.backends.search.recorded import RecordedSearchEngine, is_recorded_run, write_trec
from kshot.core.corpus import Corpus, Passage
from kshot.core.errors import BackendError, DataError, UsageError
from kshot.core.records import Failed, Hit, Ranking, Search
from kshot.index.store import Store

FASTBOOK = Path(__file__).parents[3].parent / "shared" / "data" / "fastbook"
PASSAGES = [Passage(f"p{i}", "x", {"book": "ab"[i % 2]}) for i in range(6)]
CORPUS = Corpus(PASSAGES, topics=("q1", "q2"))
BOOK_B = (("book", "b"),)


def answers(spec, *requests, corpus=CORPUS):
    backend = RecordedSearchEngine(spec).over(corpus, Store())
    return [response for _, response in backend.serve(iter(requests))]


def ids(ranking):
    return [hit.id for hit in ranking.hits]


def as_json(path, runs, **others):
    path.write_text(json.dumps({"mine": {"runs": runs}, **others}))
    return path


def test_json_numbers_count_within_the_filter(tmp_path):
    path = as_json(tmp_path / "runs.json", [[2, 0], []])
    found, empty, everything, one = answers(
        path,
        Search("?", 5, BOOK_B, "q1"),
        Search("?", 5, BOOK_B, "q2"),
        Search("?", 5, (), "q1"),
        Search("?", 1, (), "q1"),
    )
    assert ids(found) == ["p5", "p1"]
    assert [hit.score for hit in found.hits] == [1.0, 0.5]
    assert ids(empty) == []
    assert ids(everything) == ["p2", "p0"]
    assert ids(one) == ["p2"]


def test_a_system_is_chosen(tmp_path):
    path = as_json(tmp_path / "runs.json", [[0], [1]], other={"runs": [[5], [4]]}, notes={"by": "me"})
    with pytest.raises(UsageError, match=r"the file holds 2 systems\. Add one of: #mine, #other"):
        RecordedSearchEngine(path)
    assert [ids(found) for found in answers(f"{path}#other", Search("?", 5, (), "q1"))] == [["p5"]]
    with pytest.raises(UsageError, match=r"no system 'best'\. It has: mine, other"):
        RecordedSearchEngine(f"{path}#best")
    assert RecordedSearchEngine(f"{path}#mine").fingerprint != RecordedSearchEngine(f"{path}#other").fingerprint
    odd = tmp_path / "a#b.json"
    as_json(odd, [[0], [1]])
    assert RecordedSearchEngine(str(odd)).name == f"replay:{odd}"


def test_the_fingerprint_is_of_the_content(tmp_path):
    path = as_json(tmp_path / "runs.json", [[0], [1]])
    copy = as_json(tmp_path / "copy.json", [[0], [1]])
    changed = as_json(tmp_path / "changed.json", [[0], [2]])
    assert (
        RecordedSearchEngine(path).fingerprint
        == RecordedSearchEngine(copy).fingerprint
        != RecordedSearchEngine(changed).fingerprint
    )
    assert CORPUS.digest in RecordedSearchEngine(path).over(CORPUS, Store()).fingerprint


def test_trec_lines_are_ordered_as_trec_eval_orders_them(tmp_path):
    path = tmp_path / "run.txt"
    path.write_text(
        "q1 Q0 p3 1 0.5 tag\nq1 Q0 p4 2 0.5 tag\n\nq1\tQ0\tp1\t9\t7e-1\ttag\nq1 Q0 p0 4 -3\r\nzz Q0 none 1 1 t\n"
    )
    backend = RecordedSearchEngine(path).over(CORPUS, Store())
    (_, one), (_, filtered), (_, none) = backend.serve(
        iter([Search("?", 9, (), "q1"), Search("?", 9, BOOK_B, "q1"), Search("?", 9, (), "q2")])
    )
    assert ids(one) == ["p1", "p4", "p3", "p0"]
    assert ids(filtered) == ["p1", "p3"]
    assert ids(none) == []
    with pytest.raises(UsageError, match="holds one system"):
        RecordedSearchEngine(f"{path}#mine")
    with pytest.raises(DataError, match=r"run\.txt:6: there is no passage 'none'"):
        answers(path, Search("?", 9, (), "zz"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"mine": {"runs": [[0]]}}', r"it has 1 lists, and there are 2 questions"),
        ('{"mine": {"runs": [[0], [9]]}}', r"#mine, question 2 \(q2\): it names passage 9, and there are 6"),
        ('{"mine": {"runs": [[0], [-1]]}}', "question 2: this is not a list of passage numbers"),
        ('{"mine": {"runs": [[0], ["1"]]}}', "question 2: this is not a list of passage numbers"),
        ('{"mine": {"runs": [[0], [true]]}}', "question 2: this is not a list of passage numbers"),
        ('{"mine": {"runs": [[0], 1]}}', "question 2: this is not a list of passage numbers"),
        ('{"mine": {"runs": [[0], [1, 1]]}}', "question 2: the list names a passage twice"),
        ('{"mine": {"runs": 3}}', "'runs' is not a list"),
        ('{"mine": {}}', "this is not a recorded run"),
        ('{"mine": {"runs": [[0], [1]}}', "begins as JSON but is not a JSON object"),
        ("[1, 2]", "begins as JSON but is not a JSON object"),
        ("", "the recorded run is empty"),
        ("q1 Q0 p1 1", r"run:1: this is not a line of a TREC run: 'q1 Q0 p1 1'"),
        ("q1 Q0 p1 1 1 t\nq1 Q0 p2 2 high t", r"run:2: the score 'high' is not a number"),
        ("q1 Q0 p1 1 nan t", r"run:1: the score 'nan' is not a number"),
        ("q1 Q0 p1 1 1 t\nq2 Q0 p1 1 1 t\nq1 Q0 p1 2 0 t", r"run:3: topic q1 already has the passage 'p1' in line 1"),
        ("q1 Q0 p1 1 1 t\nq2 Q0 p77 1 1 t", r"run:2: there is no passage 'p77'"),
        ("other Q0 p1 1 1 t", r"none of its topics is a question here: one is 'other', while a question here is 'q1'"),
    ],
)
def test_files_that_are_wrong(tmp_path, text, message):
    path = tmp_path / "run"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        answers(path, Search("?", 9, (), "q2"))


def test_files_that_cannot_be_read_and_uses_that_cannot_be(tmp_path):
    with pytest.raises(BackendError, match="the recorded run cannot be read: No such file"):
        RecordedSearchEngine(tmp_path / "none")
    with pytest.raises(BackendError, match="the recorded run cannot be read: Is a directory"):
        RecordedSearchEngine(tmp_path)
    path = as_json(tmp_path / "runs.json", [[0], [1]])
    with pytest.raises(BackendError, match="cannot be part of another search engine"):
        RecordedSearchEngine(path).open(CORPUS, Store())
    (failed,) = answers(path, Search("?", 9, (), "q3"))
    assert isinstance(failed, Failed)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": {"runs": []}}', True),
        ('\n{\n "a": {"runs": [[1]]},\n "b": {"runs": []}}', True),
        ("q1 Q0 p1 1 0.5 tag\n", True),
        ("\nq1 q0 p1 1 0.5\n", True),
        ('{"prompt": "a", "response": "b"}\n{"prompt": "c", "response": "d"}\n', False),
        ('{"prompt": "a", "response": "b"}\n', False),
        ('{"asked": "0", "response": {"text": ""}}\n', False),
        ("some words that are not a run\n", False),
        ("", False),
        ("{", False),
        ("{}", False),
    ],
)
def test_telling_runs_from_other_recordings(tmp_path, text, expected):
    path = tmp_path / "file"
    path.write_text(text)
    assert is_recorded_run(path) is expected
    assert is_recorded_run(f"{path}#system") is expected


def test_a_folder_or_nothing_is_no_run(tmp_path):
    assert not is_recorded_run(tmp_path)
    assert not is_recorded_run(tmp_path / "none")


scores = st.lists(
    st.sampled_from([3.0, 1.0, 1.0 - 1e-9, 0.1, 0.0, -1e-45, -2.5, 1e300]) | st.floats(-1e6, 1e6),
    min_size=1,
    max_size=12,
)


@settings(max_examples=100)
@given(scores)
def test_what_is_written_is_read_in_the_same_order(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("trec") / "run"
    corpus = Corpus((Passage(f"p{i}", "") for i in range(12)), topics=("q",))
    ranking = Ranking(tuple(Hit(f"p{i}", value) for i, value in enumerate(sorted(values, reverse=True))))
    write_trec(path, "other", Ranking((Hit("p0", 1.0),)), "tag")
    write_trec(path, "q", ranking, "tag")
    (found,) = answers(path, Search("?", 99, (), "q"), corpus=corpus)
    assert ids(found) == ids(ranking)
    # trec_eval reads single precision
    written = [np.float32(hit.score) for hit in found.hits]
    assert all(a > b for a, b in itertools.pairwise(written))
    for hit, value in zip(found.hits, sorted(values, reverse=True), strict=True):
        assert hit.score == pytest.approx(min(value, 3.4028235e38), rel=1e-5, abs=1e-5)


def test_a_topic_may_begin_with_a_bracket(tmp_path):
    path = tmp_path / "run.txt"
    write_trec(path, "{q}", Ranking((Hit("d1", 1.0),)))
    write_trec(path, "[1]", Ranking((Hit("d2", 1.0),)))
    assert is_recorded_run(path)
    assert {topic: run[0].passage for topic, run in RecordedSearchEngine(path).runs.items()} == {
        "{q}": "d1",
        "[1]": "d2",
    }


def test_scores_below_those_of_single_precision_keep_their_order(tmp_path):
    hits = tuple(Hit(f"d{n}", -1e300 - n * 1e290) for n in range(4))
    write_trec(tmp_path / "run.txt", "q", Ranking(hits))
    assert [line.passage for line in RecordedSearchEngine(tmp_path / "run.txt").runs["q"]] == ["d0", "d1", "d2", "d3"]


def test_trec_eval_sees_the_same_order():
    pytrec_eval = pytest.importorskip("pytrec_eval")
    file = io.StringIO()
    tied = Ranking(tuple(Hit(f"p{i}", 1.0) for i in range(5)))
    write_trec(file, "q", tied)
    file.seek(0)
    run = pytrec_eval.parse_run(file)
    for rank in range(5):
        judged = pytrec_eval.RelevanceEvaluator({"q": {f"p{rank}": 1}}, {"recip_rank"})
        assert judged.evaluate(run)["q"]["recip_rank"] == pytest.approx(1 / (rank + 1))


def test_what_a_trec_run_cannot_hold():
    for topic, hit in (("a b", Hit("p", 1)), ("", Hit("p", 1)), ("q", Hit("a\tb", 1)), ("q", Hit("", 1))):
        with pytest.raises(DataError, match="a TREC file cannot hold"):
            write_trec(io.StringIO(), topic, Ranking((hit,)))
    with pytest.raises(DataError, match="the score of passage 'p' is nan"):
        write_trec(io.StringIO(), "q", Ranking((Hit("p", float("nan")),)))


@pytest.mark.skipif(not FASTBOOK.exists(), reason="the fastbook benchmark is not beside the checkout")
def test_the_published_runs():
    path = FASTBOOK / "published_runs.json"
    assert is_recorded_run(path)
    runs = json.loads(path.read_text())
    corpus = Corpus((Passage(str(i), "") for i in range(100)), topics=map(str, range(191)))
    for system, entry in runs.items():
        got = answers(f"{path}#{system}", *(Search("?", 10, (), str(i)) for i in range(191)), corpus=corpus)
        assert [[int(hit) for hit in ids(found)] for found in got] == [run[:10] for run in entry["runs"]]
