"""Chunkers of users: classes and functions in files, with options, and what is wrong with some of them."""

import pytest

import kshot
from kshot.core.corpus import Chunk
from kshot.core.errors import DataError, UsageError
from kshot.core.protocols import TextChunker
from kshot.core.registry import Entry
from kshot.passages.chunkers import CHUNKERS, make_chunker, passages_of
from kshot.passages.documents import Document
from tests.passages.books import small_book

PLUG_INS = """
from kshot import Chunk

class Pairs:
    '''Two words at a time, as plain texts.'''
    def __init__(self, size: int = 2, between: str = " "):
        self.size, self.between = size, between

    def cut(self, text):
        words = text.split()
        return [self.between.join(words[i : i + self.size]) for i in range(0, len(words), self.size)]

class Chunks:
    def cut(self, text):
        yield Chunk(text.strip(), text.index(text.strip()), 7, ("A", "B"))

class Callable:
    def __call__(self, text):
        return [text]

class Nothing:
    pass

def lines(text, least: int = 1):
    return [line for line in text.split("\\n") if len(line) >= least]

def one_text(text):
    return text

def numbers(text):
    return [1]

def fails(text):
    return text.index("no such text")

def nothing(text):
    return None
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(PLUG_INS)
    return path


def test_plain_texts_are_located_and_counted(file):
    chunker = make_chunker(f"{file}:Pairs")
    assert isinstance(chunker, TextChunker)
    assert chunker.cut("one two, one two three") == [
        Chunk("one two,", 0, 3),
        Chunk("one two", 9, 2),
        Chunk("three", 17, 1),
    ]


def test_a_text_that_is_not_in_the_document_has_no_position(file):
    chunks = make_chunker(f"{file}:Pairs,between=_").cut("one two three")
    assert chunks == [Chunk("one_two", None, 1), Chunk("three", 8, 1)]


def test_options_are_read(file):
    assert [chunk.text for chunk in make_chunker(f"{file}:Pairs,size=3").cut("a b c d")] == ["a b c", "d"]
    assert [chunk.text for chunk in make_chunker(f"{file}:lines,least=2").cut("a\nbc\n\ndef")] == ["bc", "def"]


def test_chunks_are_taken_as_they_are(file):
    chunker = make_chunker(f"{file}:Chunks")
    assert chunker.cut(" text ") == [Chunk("text", 1, 7, ("A", "B"))]
    (passage,) = passages_of([Document("d", " text ")], chunker)
    assert (passage.id, passage.tokens, passage.fields) == ("d:0", 7, {"document": "d", "section": "A > B"})


def test_functions_and_callable_objects(file):
    assert make_chunker(f"{file}:lines").cut(" a \n \nb") == [Chunk("a", 1, 1), Chunk("b", 6, 1)]  # stripped, no blanks
    assert make_chunker(f"{file}:Callable").cut("a b") == [Chunk("a b", 0, 2)]


def test_an_installed_package_may_bring_one(monkeypatch):
    entry = Entry("by_lines", "textwrap:wrap", origin="other 1.0")
    monkeypatch.setitem(vars(CHUNKERS), "_installed", [entry])
    chunker = make_chunker("by_lines,width=5")
    assert str(chunker) == "by_lines,width=5"
    assert [chunk.text for chunk in chunker.cut("one two three")] == ["one", "two", "three"]


def test_results_list_them_under_their_specs(file, tmp_path, monkeypatch):
    monkeypatch.setenv("KSHOT_CACHE", str(tmp_path / "cache"))
    specs = [f"{file}:lines", f"{file}:Pairs,size=9"]
    assert [str(make_chunker(spec)) for spec in specs] == specs
    result = kshot.evaluate("fts5", "fastbook", data=str(small_book(tmp_path / "book")), chunker=specs)
    assert {row["chunks"] for row in result.results} == set(specs)
    assert {row["task"] for row in result.results if row["task"].startswith("fastbook@") and row["n"] == 4} == {
        f"fastbook@{spec}" for spec in specs
    }


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Absent", r"mine.py: there is no chunker 'Absent' in this file. It has: Pairs, Chunks,"),
        ("Nothing", r"mine.py:Nothing: it is not a chunker. Write a class with cut\(text\), or a function of a text"),
        ("Pairs,width=3", "there is no option 'width'. It knows: size, between"),
        ("Pairs,size=x", "the option 'size' is 'x'; it must be a whole number"),
        ("lines,most=3", "there is no option 'most'. It knows: least"),
        ("", "this file has 4 things that could be a chunker. Write .*mine.py:NAME"),
    ],
)
def test_specs_that_name_no_chunker(file, name, message):
    with pytest.raises((DataError, UsageError), match=message):
        make_chunker(f"{file}:{name}".removesuffix(":"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("one_text", "chunker .*mine.py:one_text: it gave one text where a list of chunks belongs"),
        ("numbers", "mine.py:numbers: it gave 1 where a chunk belongs. It must give Chunk objects or plain texts"),
        ("fails", "mine.py:fails: it failed: ValueError: substring not found"),
        ("nothing", "mine.py:nothing: it failed: TypeError"),
    ],
)
def test_chunkers_that_give_something_else(file, name, message):
    with pytest.raises(DataError, match=message):
        make_chunker(f"{file}:{name}").cut("some text")
