"""Benchmarks in the format of fastbook, and their documents: read or refused, whatever the files hold."""

from hypothesis import strategies as st

from kshot.core.errors import DataError
from kshot.core.extras import is_installed
from kshot.passages.documents import read_document, read_documents
from kshot.passages.fastbook import fastbook, own_benchmark
from kshot.passages.questions import FILTERS, parse_questions, read_questions
from kshot.passages.source import read_queries
from tests.fuzz.harness import FUZZING, Told, any_text, folder, fuzz, grafted, json_bytes, json_values, mutated, told

QUESTION = {
    "chapter": 1,
    "question_number": 2,
    "question_text": '"What?"',
    "gold_standard_answer": "That.",
    "answer_context": [
        {
            "answer_component": "part",
            "scoring_type": "simple",
            "context": ["a quote of more than twenty letters"],
            "explicit_context": "true",
            "extraneous_answer": False,
        }
    ],
    "question_context": [{"context": ["x"]}],
}
FILE = {"questions": [QUESTION, {**QUESTION, "question_number": "3"}], "within": "chapter"}
NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": ["# One\n", "text"]},
        {"cell_type": "raw", "source": "x"},
        {"cell_type": "code", "source": "1 + 1"},
    ],
    "nbformat": 4,
}


def check_questions(found):
    """Check what every file of questions that was read has."""
    assert found.questions
    assert len({question.id for question in found.questions}) == len(found.questions)
    for question in found.questions:
        assert question.text.strip()
        assert question.components
        assert all(quote.strip() for component in question.components for quote in component.quotes)
    for name in FILTERS:
        assert all(sample.target.parts for sample in found.samples((name,)))


@fuzz(grafted(FILE, odds=30) | json_values(), examples=50)
def test_questions_of_any_shape_are_read_or_refused(value):
    found = told(parse_questions, json_bytes(value).decode(), "here.json", kind=DataError, where="here.json")
    if not isinstance(found, Told):
        check_questions(found)


@fuzz(mutated(st.just(json_bytes(FILE))))
def test_a_damaged_file_of_questions_is_read_or_refused(raw):
    with folder() as place:
        path = place / "questions.json"
        path.write_bytes(raw)
        found = told(read_questions, path, kind=DataError, where=path)
        if not isinstance(found, Told):
            check_questions(found)


queries = st.lists(grafted({"chapter": 1, "question_number": 2, "keywords": "a b"}, odds=10), min_size=1, max_size=3)


@fuzz(queries)
def test_queries_of_any_shape_are_read_or_refused(rows):
    samples = parse_questions(json_bytes(FILE).decode(), "x").samples()[:1]
    with folder() as place:
        path = place / "queries.json"
        path.write_bytes(json_bytes(rows))
        found = told(read_queries, str(path), samples, kind=DataError, where=path)
        if not isinstance(found, Told):
            assert all(sample.fields["query"].strip() for sample in found)


# ---- documents ----

KINDS = [".ipynb", ".md", ".txt", *([".html"] if is_installed("beautifulsoup4") else [])]
HTML = b"<html><head><title>t</title><script>x</script></head><body><p>one <b>two</b></p><pre> x\n y</pre><table><tr><td>1</td></tr></table></body></html>"
PIECES = [
    b"<p>",
    b"</p>",
    b"<div>",
    b"<table><tr><td>",
    b"<ul><li>",
    b"<!--",
    b"&amp;",
    b"&#x",
    b"<",
    b"# x\n",
    b"```\n",
    b"\n",
    b" ",
    b"x",
    b"\xff",
    b"\x00",
    b"\xfe\xff",
    b"\xef\xbb\xbf",
]
texts = st.builds(
    lambda parts, times: b"".join(parts) * times,
    st.lists(st.sampled_from(PIECES), max_size=4),
    st.integers(1, 20_000 if FUZZING else 200),
)
contents = st.one_of(
    grafted(NOTEBOOK, odds=12).map(json_bytes),
    mutated(st.just(HTML)),
    mutated(st.just(json_bytes(NOTEBOOK))),
    texts,
    any_text.map(lambda text: text.encode("utf-8", "surrogatepass")),
)


@fuzz(contents, st.sampled_from(KINDS), examples=50)
def test_a_document_of_any_bytes_is_read_or_refused(raw, suffix):
    with folder() as place:
        path = place / f"1{suffix}"
        path.write_bytes(raw)
        notes = []
        found = told(read_document, path, until="## Questionnaire", note=notes.append, kind=DataError, where=path)
        assert isinstance(found, Told) or "\x00" not in found.text


if is_installed("pypdf"):

    @fuzz(
        mutated(
            st.just(
                b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n3 0 obj<</Type/Page/Parent 2 0 R/Contents 4 0 R>>endobj\n4 0 obj<</Length 30>>stream\nBT /F1 12 Tf (hello) Tj ET\nendstream endobj\ntrailer<</Root 1 0 R>>\n%%EOF"
            )
        ),
        examples=20,
    )
    def test_a_pdf_of_any_bytes_is_read_or_refused(raw):
        with folder() as place:
            (place / "1.pdf").write_bytes(raw)
            told(read_document, place / "1.pdf", kind=DataError, where=place)


file_names = (
    st.text("019a_é.- ", min_size=1, max_size=200)
    .map(lambda name: name.encode()[:180].decode("utf-8", "ignore").strip() or "x")
    .filter(lambda name: not name.startswith("."))
)


@fuzz(st.lists(file_names, min_size=1, max_size=4, unique=True), grafted(FILE, odds=30))
def test_a_folder_with_any_names_is_a_benchmark_or_refused(names, questions):
    with folder() as place:
        (place / "chapters").mkdir()
        for name in names:
            (place / "chapters" / f"{name}.md").write_text(f"# {name}\na quote of more than twenty letters")
        (place / "questions.json").write_bytes(json_bytes(questions))
        told(read_documents, place / "chapters", kind=DataError)
        for read in (fastbook, own_benchmark):
            found = told(read, [str(place)])
            if not isinstance(found, Told):
                assert len(found.documents) <= len(names)
