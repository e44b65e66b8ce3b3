"""Built-in chunkers: the laws that all of them keep, the chunks of the published results, and odd texts."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

from kshot.core.errors import UsageError
from kshot.passages.built_in_chunkers import (
    Chunker,
    line_borders,
    paragraph_borders,
    section_starts,
    sentence_borders,
    word_borders,
)
from kshot.passages.chunkers import CHUNKERS, make_chunker, passages_of
from kshot.passages.counting import tokenizer
from kshot.passages.documents import Document, read_document
from tests.passages.books import MINILM

CHAPTERS = Path(__file__).parents[2].parent / "shared" / "data" / "fastbook" / "chapters"

PIECES = st.sampled_from(
    ["word", "Two words. ", "e.g. ", "\n", "\n\n", "\r\n", "\f", " ", "# Title\n", "```\n", "😀👩‍👩‍👧", "漢字。", "\0", "\ud800", "a" * 40,
     "...", "<|endoftext|>", "\u00a0", "  Zwingli", "\n\n\nIndented. ", "12345678", "é", "\U0001d54f", "!?\"' "]
)  # fmt: skip
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=6)), max_size=40).map("".join)
LENGTHS = st.tuples(st.integers(1, 12), st.integers(0, 11)).filter(lambda pair: pair[1] < pair[0])


def solid(text):
    return "".join(text.split())


def check_cover(text, chunks):
    """In order, the chunks hold every character that is not white space, and begin no later than the last one ended."""
    squeezed, high = solid(text), 0
    for chunk in chunks:
        piece = solid(chunk.text)
        start = chunk.start
        at = squeezed.rfind(piece, 0, high + len(piece)) if start is None else len(solid(text[:start]))
        assert 0 <= at <= high, chunk
        high = max(high, at + len(piece))
    assert high == len(squeezed)


def check_laws(text, chunker):
    chunks = chunker.cut(text)
    count = tokenizer(chunker.tokenizer).count
    for chunk in chunks:
        assert chunk.text
        assert chunk.text == chunk.text.strip()
        assert chunk.tokens == count(chunk.text)
        if chunk.start is not None:
            assert text[chunk.start : chunk.start + len(chunk.text)] == chunk.text
    check_cover(text, chunks)
    assert chunker.cut(text) == chunks
    return chunks


@pytest.mark.parametrize("tokens", ["words", "cl100k", MINILM])
@pytest.mark.parametrize("name", ["tokens", "recursive", "headings", "windows"])
@settings(max_examples=60)
@given(text=TEXTS, lengths=LENGTHS, parts=st.integers(1, 3))
@example(text="👩‍👩‍👧😀 " * 5, lengths=(1, 0), parts=1)
@example(text="  Zwingli" * 5, lengths=(1, 0), parts=2)
@example(text="a" * 500, lengths=(3, 2), parts=1)
def test_laws_of_token_chunkers(name, tokens, text, lengths, parts):
    size, overlap = lengths
    unit = ",unit=tokens" if name == "windows" else ""
    chunker = make_chunker(f"{name}:{size}/{overlap},tokenizer={tokens},parts={parts}{unit}")
    for chunk in check_laws(text, chunker):
        assert chunk.start is not None
        assert chunk.tokens <= size or len(chunk.text) == 1
    if parts == 1 and name != "headings":
        starts = [chunk.start for chunk in chunker.cut(text)]
        assert starts == sorted(set(starts))


@pytest.mark.parametrize("name", ["windows", "lines"])
@settings(max_examples=60)
@given(text=TEXTS, lengths=LENGTHS)
def test_laws_of_unit_chunkers(name, text, lengths):
    chunks = check_laws(text, make_chunker(f"{name}:{lengths[0]}/{lengths[1]}"))
    assert all(chunk.start is not None for chunk in chunks)


@settings(max_examples=60)
@given(text=TEXTS)
def test_laws_of_whole(text):
    assert len(check_laws(text, make_chunker("whole"))) == bool(text.strip())


@pytest.mark.parametrize("tokens", ["words", "cl100k"])
@settings(max_examples=30)
@given(text=TEXTS, lengths=LENGTHS)
@example(text="😀漢字" * 5, lengths=(1, 0))
def test_laws_of_the_sentence_splitter(tokens, text, lengths):
    check_laws(text, make_chunker(f"sentence:{lengths[0]}/{lengths[1]},tokenizer={tokens}"))


# ---- what each does ----


def texts(spec, text):
    return [chunk.text for chunk in make_chunker(spec).cut(text)]


def test_tokens_are_counted_out():
    assert texts("tokens:3/1", "a b c d e f") == ["a b c", "c d e", "e f"]
    assert texts("tokens:3/0", "a b c d e f g") == ["a b c", "d e f", "g"]


def test_recursive_cuts_at_the_strongest_border_in_reach():
    text = "One two.\n\nThree four five. Six seven eight nine ten"
    assert texts("recursive:5/0", text) == ["One two.", "Three four five.", "Six seven eight nine ten"]
    assert texts("recursive:4/0", "a b\nc d e\nf") == ["a b", "c d e\nf"]


def test_recursive_overlaps_at_whole_sentences():
    text = "Aa bb. Cc dd. Ee ff. Gg hh."
    assert texts("recursive:6/3", text) == ["Aa bb. Cc dd.", "Cc dd. Ee ff.", "Ee ff. Gg hh."]


def test_headings_keep_their_path_and_small_sections_stay_apart():
    text = "Before.\n# A\nx\n## B ##\ny\n```\n# code\n```\n# C\nlong words here that go on\n#not a heading\n"
    chunks = make_chunker("headings:9").cut(text)
    assert [(chunk.section, chunk.text) for chunk in chunks] == [
        ((), "Before."),
        (("A",), "# A\nx"),
        (("A", "B"), "## B ##\ny\n```\n# code\n```"),
        (("C",), "# C\nlong words here that go on"),
        (("C",), "#not a heading"),
    ]
    (one,) = passages_of([Document("d", "# A\n## B\ntext")], make_chunker("headings"))[1:]
    assert one.fields == {"document": "d", "section": "A > B"}


def test_windows_of_whole_sentences():
    text = "One. Two. Three. Four. Five."
    assert texts("windows:3/1", text) == ["One. Two. Three.", "Three. Four. Five."]
    assert texts("windows:5/1,unit=tokens", text) == ["One. Two.", "Three. Four.", "Five."]


def test_lines_and_whole():
    assert texts("lines", "a\r\n\r\n b\nc\rd") == ["a", "b", "c", "d"]
    assert texts("lines:2/1", "a\n\nb\nc") == ["a\n\nb", "b\nc"]
    assert texts("whole", "\n a\n\nb \n") == ["a\n\nb"]
    assert texts("whole,parts=2", "abcdef") == ["abc", "def"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It works, e.g. here. Next one!", ["It works, e.g. here.", "Next one!"]),
        ("Ask Dr. Smith or J. Doe. Really?! Yes.", ["Ask Dr. Smith or J. Doe.", "Really?!", "Yes."]),
        ("Version 3.5 is out. (It is.) Good", ["Version 3.5 is out.", "(It is.)", "Good"]),
        ("好。很好！真的？", ["好。", "很好！", "真的？"]),
        ("A title\n\nA text", ["A title", "A text"]),
        ('He said "no." Then I. Then II.', ['He said "no."', "Then I.", "Then II."]),
    ],
)
def test_sentences(text, expected):
    assert texts("windows:1/0", text) == expected


def test_parts_are_cut_by_characters_first():
    text = "a b c d e f g"
    starts = [chunk.start for chunk in make_chunker("whole,parts=3").cut(text)]
    assert starts == [0, 4, 8]
    assert text[8:] == "e f g"


# ---- how they are written ----


@pytest.mark.parametrize(
    ("spec", "canonical"),
    [
        ("sentence", "sentence:500/64"),
        ("sentence:500", "sentence:500/64"),
        ("sentence:100,parts=2", "sentence:100/12,parts=2"),
        ("sentence:500/64,tokenizer=cl100k,parts=1", "sentence:500/64"),
        ("tokens", "tokens:256/32"),
        ("recursive:50/0,tokenizer=cl100k", "recursive:50/0,tokenizer=cl100k"),
        ("headings", "headings:500"),
        ("headings:200/20", "headings:200/20"),
        ("windows", "windows:5/2"),
        ("windows,unit=tokens", "windows:256/64,unit=tokens"),
        ("lines", "lines:1"),
        ("whole", "whole"),
    ],
)
def test_canonical_spec(spec, canonical):
    made = make_chunker(spec)
    assert str(made) == canonical
    assert make_chunker(canonical) == made


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("sentense", "Did you mean 'sentence'"),
        ("", "there is no chunker ''"),
        ("tokens:", "SIZE must be a whole number, not ''"),
        ("tokens:many", "SIZE must be a whole number, not 'many'"),
        ("tokens:5/", "OVERLAP must be a whole number"),
        ("tokens:0", "SIZE must be 1 or more"),
        ("tokens:-5", "SIZE must be 1 or more"),
        ("tokens:5/5", "OVERLAP must be less than SIZE"),
        ("tokens:5/-1", "OVERLAP must be less than SIZE"),
        ("tokens:5,parts=0", "parts must be 1 or more"),
        ("tokens:5,parts=two", "parts must be a whole number"),
        ("tokens:5,part=2", "Did you mean 'parts'"),
        ("tokens:5,parts", "'parts' is not key=value"),
        ("tokens:5,7,parts=2", "'7' is not key=value"),
        ("tokens:5,parts=2,parts=3", "the option 'parts' is given twice"),
        ("tokens:5,parts=", "parts has no value"),
        ("tokens:5,unit=tokens", "unit is for windows"),
        ("windows:5,unit=words", "Units: sentences, tokens"),
        ("whole:5", "it takes no size"),
    ],
)
def test_bad_specs_say_what_is_wrong(spec, message):
    with pytest.raises(UsageError) as caught:
        make_chunker(spec)
    assert message in str(caught.value)


def test_an_unknown_tokenizer_is_named_when_it_is_used():
    with pytest.raises(UsageError, match="there is no tokenizer 'gpt9'"):
        make_chunker("tokens:5,tokenizer=gpt9").cut("text")
    with pytest.raises(UsageError, match="there is no chunker 'nothing'"):
        Chunker("nothing", 5, 0, "tokens", "words")


def test_every_chunker_is_described():
    entries = {entry.name: entry for entry in CHUNKERS.entries() if entry.origin == "kshot"}
    assert set(entries) == {"sentence", "tokens", "recursive", "headings", "windows", "lines", "whole"}
    assert all(str(make_chunker(name)).startswith(name) for name in entries)
    assert all(entry.text and entry.written.startswith(entry.name) for entry in entries.values())


# ---- passages ----


def test_passages_are_numbered_within_their_document():
    documents = [Document("a", "one two three"), Document("empty", " \n"), Document("b", "four")]
    made = passages_of(documents, make_chunker("tokens:1,parts=2"))
    assert [passage.id for passage in made] == ["a:0", "a:1", "a:2", "a:3", "b:0", "b:1"]
    assert [passage.text for passage in made] == ["one", "tw", "o", "three", "fo", "ur"]
    assert made[0].fields == {"document": "a"}
    assert made[0].tokens == 1
    chosen = passages_of(documents[:1], make_chunker("whole"), lambda document: {"chapter": document.name.upper()})
    assert [passage.fields for passage in chosen] == [{"chapter": "A"}]


@pytest.mark.skipif(not CHAPTERS.is_dir(), reason=f"the reference material is not at {CHAPTERS}")
def test_the_published_chunks():
    documents = [read_document(CHAPTERS / f"chapter_{number}.txt") for number in (1, 2, 4, 8, 9, 10, 13)]
    chunker = make_chunker("sentence:500/64,parts=2")
    counts = [len(passages_of([document], chunker)) for document in documents]
    assert counts == [57, 38, 52, 23, 46, 25, 30]
    chunks = [chunk for document in documents for chunk in chunker.cut(document.text)]
    assert max(chunk.tokens for chunk in chunks) <= 500
    assert all(chunk.start is not None for chunk in chunks)


def test_sentence_chunks_are_those_of_llama_index_by_default(monkeypatch):
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    splitter = pytest.importorskip("llama_index.core.node_parser").SentenceSplitter(chunk_size=40, chunk_overlap=8)
    text = "\n\n\n".join(
        f"Paragraph {n} begins. It is, say, {'long, ' * n}and ends; then <|endoftext|> 漢字。 It ends!"
        for n in range(30)
    )
    assert texts("sentence:40/8", text) == splitter.split_text(text)


# ---- long and odd texts ----

LONG = 1_000_000
HARD = {
    "one word": "a" * LONG,
    "stops": "." * LONG,
    "quotes": ".''" * (LONG // 3),
    "line breaks": "\n" * LONG + "x",
    "spaces": "x" + " " * LONG + "y",
    "one line": "some words in one line, " * (LONG // 24),
    "hashes": "# " * (LONG // 2),
    "fences": "```" * (LONG // 3),
    "ideographs": "漢" * (LONG // 3),
}


@pytest.fixture
def linear():
    """Ends a test after 300 seconds of CPU time: linear ones use up to 4, quadratic ones 600 to 4,000."""

    def end(*_):
        pytest.fail("this takes more than linear time")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, 300)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


@pytest.mark.usefixtures("linear")
@pytest.mark.parametrize("find", [paragraph_borders, line_borders, sentence_borders, word_borders, section_starts])
@pytest.mark.parametrize("name", sorted(HARD))
def test_borders_take_linear_time(find, name):
    find(HARD[name])


@pytest.mark.usefixtures("linear")
@pytest.mark.parametrize("spec", ["recursive", "windows,unit=tokens", "headings", "tokens", "windows"])
@pytest.mark.parametrize("name", ["one word", "one line", "spaces", "hashes"])
def test_a_long_line_is_cut_in_linear_time(spec, name):
    chunks = make_chunker(spec).cut(HARD[name])
    assert chunks[-1].text[-1] == HARD[name].rstrip()[-1]


def test_endless_words_reach_the_sentence_splitter_in_pieces():
    text = "Before it. " + "a" * 250_000 + " After it."
    chunks = make_chunker("sentence").cut(text)
    check_cover(text, chunks)
    assert chunks[-1].text.endswith("After it.")


def test_llama_index_is_imported_only_when_it_is_needed():
    code = (
        "import sys; from kshot.passages.chunkers import make_chunker; make_chunker('sentence'); make_chunker('recursive').cut('a b');"
        "print([m for m in ('llama_index', 'tiktoken', 'tokenizers', 'nltk', 'bs4', 'pypdf') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_borders_never_stand_at_the_ends():
    text = "\n\nA b. C\n\n"
    for find in (paragraph_borders, line_borders, sentence_borders, word_borders):
        assert all(0 < position < len(text) for position in find(text))
    assert re.split(r"\s+", text.strip()) == ["A", "b.", "C"]
