"""Chunkers: offsets are right, nothing but white space is lost, no chunk is too long; whatever the text."""

from hypothesis import strategies as st

from kshot.core.corpus import Corpus
from kshot.metrics.ranking import AnswerComponents, Fixer
from kshot.passages.built_in_chunkers import (
    built_in_chunker,
    line_borders,
    paragraph_borders,
    section_starts,
    sentence_borders,
    word_borders,
)
from kshot.passages.chunkers import passages_of
from kshot.passages.counting import tokenizer
from kshot.passages.documents import Document
from tests.fuzz.harness import FUZZING, any_text, fuzz, told

pieces = st.sampled_from(["word ", "One. ", "Two! ", "e.g. ", "\n", "\n\n", "\r\n", "\r", "\f", "# H\n", "## I\n", "###### J #\n", "```\n", "~~~\n", "。", "中", "é", "e\u0301", "👩‍🚀", "\u2028", "\x85", "\ud800", "...", "\t", "    ", "x" * 40, "#"])  # fmt: skip
texts = st.lists(pieces | any_text, max_size=20).map("".join) | st.builds(
    lambda text, times: text * times, pieces, st.integers(1, 5_000 if FUZZING else 300)
)
sizes = st.tuples(st.integers(1, 12), st.integers(0, 11)).filter(lambda pair: pair[1] < pair[0])


@fuzz(
    texts,
    st.sampled_from(["tokens", "recursive", "headings", "windows", "lines"]),
    sizes,
    st.integers(1, 3),
    examples=60,
)
def test_chunks_rebuild_the_text(text, name, size, parts):
    chunker = built_in_chunker(
        f"{name}:{size[0]}/{size[1]},parts={parts}"
        + (",tokenizer=words" if name in {"tokens", "recursive", "headings"} else "")
    )
    covered = [False] * len(text)
    last = -1
    for chunk in chunker.cut(text):
        assert chunk.text == chunk.text.strip() != ""
        assert text[chunk.start : chunk.start + len(chunk.text)] == chunk.text
        assert chunk.start > last or parts > 1
        last = chunk.start
        covered[chunk.start : chunk.start + len(chunk.text)] = [True] * len(chunk.text)
        assert chunk.tokens == tokenizer("words").count(chunk.text)
        if name in {"tokens", "recursive", "headings"}:
            assert chunk.tokens <= size[0] or len(chunk.text) == 1
    assert all(done or character.isspace() for done, character in zip(covered, text, strict=True))


@fuzz(texts)
def test_borders_ascend_within_the_text(text):
    for find in (paragraph_borders, line_borders, sentence_borders, word_borders):
        found = list(find(text))
        assert found == sorted(set(found))
        assert all(0 < position < len(text) for position in found)
    sections = section_starts(text)
    assert sections[0] == (0, ())
    assert [begin for begin, _ in sections] == sorted(begin for begin, _ in sections)


@fuzz(texts)
def test_words_begin_at_ascending_places(text):
    words = tokenizer("words")
    assert len(words.starts(text)) == words.count(text)
    assert list(words.starts(text)) == sorted(set(words.starts(text)))


# ---- evidence ----


@fuzz(texts)
def test_fixing_line_by_line_is_fixing_the_text(text):
    from ftfy import fix_text

    assert Fixer()(text) == fix_text(text)


@fuzz(
    st.lists(st.text("ab ", min_size=1, max_size=8), min_size=1, max_size=4),
    st.lists(st.lists(st.text("ab ", min_size=1, max_size=3), max_size=2), min_size=1, max_size=3),
    st.integers(1, 6),
)
def test_evidence_is_found_where_the_quotes_are(texts, quotes, k):
    reference = tuple(map(tuple, quotes))
    found = AnswerComponents(measures=[f"AC_MRR@{k}", f"AC_Recall@{k}"]).rate(texts, reference)
    seen = [
        [any(quote in text for text in texts[:depth] for quote in part) for part in reference]
        for depth in range(1, min(k, len(texts)) + 1)
    ]
    assert found[f"AC_Recall@{k}"] == sum(seen[-1]) / len(reference)
    whole = next((1 / rank for rank, parts in enumerate(seen, start=1) if all(parts)), 0.0)
    assert found[f"AC_MRR@{k}"] == whole


@fuzz(texts, st.integers(1, 30))
def test_the_passages_of_a_document_are_a_corpus(text, budget):
    passages = passages_of([Document("one", text)], built_in_chunker("recursive:5/2,tokenizer=words"))
    corpus = Corpus(passages, topics=["q"])
    assert len(corpus) == len(passages)
    assert len(corpus.digest) == 32
    metric = AnswerComponents(corpus, [f"AC_Recall@{budget}t"])
    rated = told(metric.rate, [passage.id for passage in passages], ((text[:5] or "x",),))
    assert set(rated) == {f"AC_Recall@{budget}t"}
