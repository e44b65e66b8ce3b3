"""Marks of evidence in passages: they are where the measures find quotes, and stand at the characters that are shown."""

import random

import pytest
from hypothesis import given, settings, strategies as st

from kshot.core.fixed_text import Fixer
from kshot.metrics.ranking import EvidenceFinder
from kshot.report.page.sample_card import evidence_spans, script_length


def marked(text, *quotes):
    return [(text[start:end], number) for start, end, number in evidence_spans(text, quotes)]


def test_every_place_of_every_quote_is_marked():
    text = "One fish, two fish.\nRed fish, blue fish."
    assert marked(text, ["two fish", "fish.\nRed"], ["blue"], ["cat"]) == [
        ("two fish", 1),
        ("fish.\nRed", 1),
        ("blue", 2),
    ]
    assert [start for start, _, _ in evidence_spans(text, [["fish"]])] == [4, 14, 24, 35]


@pytest.mark.parametrize(
    ("text", "quote", "shown"),
    [
        ("He said “yes” twice", 'said "yes" tw', "said “yes” tw"),
        ("It\u2019s here", "It's here", "It\u2019s here"),
        ("a line\r\nand another", "line\nand", "line\r\nand"),
        ("â€œquotedâ€\x9d words", '"quoted" words', "â€œquotedâ€\x9d words"),
        ("x &amp; y and z", "x & y", "x &amp; y"),
        ("before schÃ¶n after", "schön", "schÃ¶n"),
        ("ﬁrst things ﬁrst", "first", "ﬁrst"),
        ("e\u0301te\u0301 1999", "été", "e\u0301te\u0301"),
        ("plain\nsecond “line”\nthird", "third", "third"),
    ],
)
def test_what_ftfy_mends_is_marked_as_it_is_shown(text, quote, shown):
    assert marked(text, [quote])[0] == (shown, 1)


PIECES = st.sampled_from(
    ["a", "b ", "\n", "\r\n", "“", "\u2019", "&lt;", "<", "Ã©", "é", "ﬁ", "\x07", "😀", "e\u0301", "…"]
)


@settings(max_examples=300)
@given(st.lists(PIECES, max_size=25).map("".join), st.lists(PIECES, min_size=1, max_size=4).map("".join))
def test_there_are_marks_where_the_measure_finds_the_quote_and_only_there(text, quote):
    """The law: a passage has a mark of a component exactly if the measures say that it contains the component."""
    finder = EvidenceFinder()
    found = finder.matches(((quote,), ("zzz",)))[text]
    spans = evidence_spans(text, [[quote], ["zzz"]])
    assert {number for _, _, number in spans} == ({1} if found and finder.fix(quote) else set())
    assert all(0 <= start < end <= len(text) for start, end, _ in spans)


@given(st.text("ab \n", max_size=40), st.text("ab \n", min_size=1, max_size=4))
def test_in_plain_text_marks_are_the_quotes(text, quote):
    assert {shown for shown, _ in marked(text, [quote])} <= {quote}


def test_a_line_without_end_is_marked_in_time():
    text = "é" * 100_000 + "“needle”" + "é" * 100_000
    (span,) = evidence_spans(text, [['"needle"']])
    assert text[span[0] : span[1]].strip("é") == "“needle”"


def test_lengths_are_those_of_scripts():
    assert [script_length(text) for text in ("", "ab", "é", "😀x", "木")] == [0, 2, 1, 3, 1]


def test_no_mark_is_empty_where_mending_changed_much():
    rng = random.Random(5)
    pieces = ["&lt;", "&gt;", "&amp;", "b", "é", "\t", "\n", " ", "\r", "\r\n", "Ã©", "â€™", "a", "\u2028", "“"]
    fix, found = Fixer(), []
    for _ in range(600):
        text = "".join(rng.choices(pieces, k=rng.randrange(3, 16)))
        fixed = "".join(line for _, line in fix.lines(text))
        at = rng.randrange(len(fixed))
        found += evidence_spans(text, [[fixed[at : at + rng.randrange(1, 6)]]])
    assert len(found) > 500
    assert [span for span in found if span[0] >= span[1]] == []
