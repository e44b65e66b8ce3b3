"""BEIR folders and TREC files."""

import json
import os
from contextlib import suppress

import pytest

from kshot.core.errors import DataError, UsageError
from kshot.core.records import Graded
from kshot.passages.graded import beir, read_qrels, trec, write_qrels
from tests.fuzz.harness import watched


def beir_folder(path, qrels="query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t0\nq2\td3\t2\n"):
    (path / "qrels").mkdir(parents=True)
    docs = [
        {"_id": "d1", "title": "Herons", "text": "wade"},
        {"_id": "d2", "text": "x"},
        {"_id": "d3", "title": "", "text": "y"},
    ]
    (path / "corpus.jsonl").write_text("".join(json.dumps(d) + "\n" for d in docs), encoding="utf-8")
    queries = [{"_id": "q1", "text": "heron"}, {"_id": "q2", "text": "why"}, {"_id": "q3", "text": "unjudged"}]
    (path / "queries.jsonl").write_text("".join(json.dumps(q) + "\n" for q in queries), encoding="utf-8")
    (path / "qrels" / "test.tsv").write_text(qrels, encoding="utf-8")
    return path


def test_a_beir_folder(tmp_path):
    found = beir([str(beir_folder(tmp_path / "birds"))])
    assert found.name == "beir/birds"
    assert [p.text for p in found.passages] == ["Herons wade", "x", "y"]
    assert [(s.id, s.fields["question"], s.target) for s in found.samples] == [
        ("q1", "heron", Graded({"d1": 1, "d2": 0})),
        ("q2", "why", Graded({"d3": 2})),
    ]
    assert found.notes == ("1 queries have no judgements: left out",)


def test_what_cannot_be_found_counts_and_is_noted(tmp_path):
    found = beir([str(beir_folder(tmp_path / "b", "query-id\tcorpus-id\tscore\nq1\tgone\t1\nq2\td1\t0\n"))])
    assert "1 relevant documents of the judgements are not in the corpus" in found.notes[0]
    assert "1 queries have no relevant document" in found.notes[1]
    assert len(found.samples) == 2


def test_trec_files(tmp_path):
    (tmp_path / "topics").write_text(
        "<top>\n<num> Number: 301\n<title> organized\n crime\n<desc> Description:\nlong\n</top>\n"
        "<top>\n<num> Number: 302\n<title> Topic: polio\n</top>\n",
        encoding="utf-8",
    )
    (tmp_path / "docs").write_text(
        "<DOC>\n<DOCNO> A-1 </DOCNO>\n<TEXT>\ncrime <b>rings</b>\n</TEXT>\n</DOC>\n<DOC><DOCNO>A-2</DOCNO>polio</DOC>\n",
        encoding="utf-8",
    )
    (tmp_path / "qrels").write_text("301 0 A-1 1\n302 0 A-2 2\n302 0 A-1 -1\n", encoding="utf-8")
    found = trec([f"topics={tmp_path}/topics", f"qrels={tmp_path}/qrels", f"corpus={tmp_path}/docs"])
    assert [(s.id, s.fields["question"]) for s in found.samples] == [("301", "organized crime"), ("302", "polio")]
    assert [(p.id, p.text) for p in found.passages] == [("A-1", "crime rings"), ("A-2", "polio")]


def test_qrels_are_written_as_they_are_read(tmp_path):
    grades = {"1": {"a": 1, "b": 0}, "2": {"c": 3}}
    write_qrels(tmp_path / "q", grades)
    assert read_qrels(tmp_path / "q") == grades


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 0 a\n1 0 b x\n", "not a judgement"),
        ("1 0 a 1\n1 0 a 2\n", "judged twice"),
        ("1 0 a 4294967297\n", "not a judgement"),
        ("1 0 a 2000\n", "above 1000"),
        ("1 0 a \u0661\n", "not a judgement"),
        ("", "no judgements"),
        ("query-id\tcorpus-id\tscore\n", "no judgements"),
    ],
)
def test_bad_qrels(tmp_path, text, message):
    (tmp_path / "q").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_qrels(tmp_path / "q")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "test.tsv")
    with pytest.raises(DataError, match="it is a device or a pipe, not a file"):
        read_qrels(tmp_path / "test.tsv")


def test_bad_collections(tmp_path):
    folder = beir_folder(tmp_path / "b", "query-id\tcorpus-id\tscore\nq9\td1\t1\n")
    with pytest.raises(DataError, match="q9 is judged, and has no text"):
        beir([str(folder)])
    with pytest.raises(DataError, match="no split 'dev'"):
        beir([str(folder)], "dev")
    (folder / "corpus.jsonl").write_text('{"_id": "d1"}\n', encoding="utf-8")
    with pytest.raises(DataError, match="no _id and text"):
        beir([str(folder)])
    with pytest.raises(DataError, match="not a BEIR folder"):
        beir([str(tmp_path)])
    with pytest.raises(UsageError, match="needs three files"):
        trec(["topics=x"])
    with pytest.raises(UsageError, match="needs one folder"):
        beir(None)


@pytest.mark.parametrize(
    ("topics", "docs", "message"),
    [
        ("<top><num> 1 <title> a </top><top><num> 1 <title> b </top>", "<DOC><DOCNO>d</DOCNO>x</DOC>", "there twice"),
        ("<top><num> 1 <title> a </top>", "<DOC><DOCNO>d</DOCNO>x <DOC><DOCNO>e</DOCNO>y</DOC>", "not closed"),
        ("<top><num> 1 <title> a </top>", "<DOC><DOCNO> </DOCNO>x</DOC>", "no <DOCNO>"),
        ("<top><num> 1 <title> </top>", "<DOC><DOCNO>d</DOCNO>x</DOC>", "text of query 1 is empty"),
    ],
)
def test_bad_trec_files(tmp_path, topics, docs, message):
    (tmp_path / "t").write_text(topics, encoding="utf-8")
    (tmp_path / "d").write_text(docs, encoding="utf-8")
    (tmp_path / "q").write_text("1 0 d 1\n", encoding="utf-8")
    with pytest.raises(DataError, match=message):
        trec([f"topics={tmp_path}/t", f"qrels={tmp_path}/q", f"corpus={tmp_path}/d"])


def test_signs_that_are_no_tags_stay(tmp_path):
    (tmp_path / "t").write_text("<top><num> 1 <title> a </top>", encoding="utf-8")
    (tmp_path / "d").write_text("<DOC><DOCNO>d</DOCNO>if a < b and <b>c</b> > d</DOC>", encoding="utf-8")
    (tmp_path / "q").write_text("1 0 d 1\n", encoding="utf-8")
    found = trec([f"topics={tmp_path}/t", f"qrels={tmp_path}/q", f"corpus={tmp_path}/d"])
    assert found.passages[0].text == "if a < b and c > d"


@watched
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("corpus", "<DOC>" * 500_000),
        ("corpus", "<DOC>" + "<DOCNO>" * 500_000 + "</DOC>"),
        ("corpus", "<DOC><DOCNO>a" + " " * 500_000 + "b</DOC>"),
        ("topics", "<top><num>1<title>a" + " " * 500_000 + "b"),
        ("topics", "<top><num>" + " " * 500_000 + "<title>a"),
    ],
)
def test_files_of_tags_that_do_not_close_are_read_in_linear_time(tmp_path, name, text):
    """A search that starts over at each of them would take hours, and end in the watch over hangs."""
    files = {
        "topics": "<top><num>1<title>one</top>",
        "qrels": "1 0 d1 1\n",
        "corpus": "<DOC><DOCNO>d1</DOCNO>one</DOC>",
    } | {name: text}
    for each, content in files.items():
        (tmp_path / each).write_text(content)
    with suppress(DataError):
        trec([f"{each}={tmp_path / each}" for each in files])


def test_titles_and_numbers_of_documents_keep_their_words(tmp_path):
    (tmp_path / "topics").write_text("<top>\n<num> Number: 7\n<title> Topic:  two\n words \n<desc>x</top>")
    (tmp_path / "qrels").write_text("7 0 d<1> 1\n")
    (tmp_path / "corpus").write_text("</DOC><DOC><docno> d<1> </docno> <b>one</b>\n two</DOC>")
    found = trec([f"{each}={tmp_path / each}" for each in ("topics", "qrels", "corpus")])
    assert [(sample.id, sample.fields["question"]) for sample in found.samples] == [("7", "two words")]
    assert [(passage.id, passage.text) for passage in found.passages] == [("d<1>", "one two")]
