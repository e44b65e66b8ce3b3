"""What differs between two texts: nothing is lost, little is marked, and no text is too long."""

import random
from itertools import pairwise

import pytest

from kshot.report.page.report_page import web_file

FOUND = "pairs => pairs.map(([before, after]) => kshot.differences(before, after))"


@pytest.fixture(scope="module")
def differences(browser):
    """Compare pairs of texts in a page that has the scripts alone."""
    page = browser.new_page()
    for name in ("preact.js", "base.js", "differences.js"):
        page.add_script_tag(content=web_file(name))
    yield lambda *pairs: page.evaluate(FOUND, pairs)
    page.close()


def sides(pieces):
    """Both texts, put together again."""
    return tuple("".join(text for kind, text in pieces if kind != left_out) for left_out in ("ins", "del"))


def test_words_that_changed_are_marked(differences):
    first, second, same, added = differences(
        ("the quick brown fox", "the slow brown fox jumps"),
        ("Mars is red.\nYes", "Mars was red.\nYes"),
        ("水星は近い", "水星は遠い"),
        ("", "new"),
    )
    assert first == [
        ["same", "the "],
        ["del", "quick"],
        ["ins", "slow"],
        ["same", " brown fox"],
        ["ins", " jumps"],
    ]
    assert second == [["same", "Mars "], ["del", "is"], ["ins", "was"], ["same", " red.\nYes"]]
    assert same == [["same", "水星は"], ["del", "近"], ["ins", "遠"], ["same", "い"]]
    assert added == [["ins", "new"]]
    assert differences(("a b", "a b"), ("", "")) == [[["same", "a b"]], []]


def test_nothing_is_lost(differences):
    draw = random.Random(7)

    def text(most):
        return "".join(draw.choice(["a", "b ", "c.", "\n", " ", "é", "水", "🪐 "]) for _ in range(draw.randrange(most)))

    pairs = [(text(12), text(12)) for _ in range(800)] + [(text(400), text(400)) for _ in range(40)]
    for pair, pieces in zip(pairs, differences(*pairs), strict=True):
        assert sides(pieces) == pair
        assert all(piece for _, piece in pieces)
        assert all(one[0] != two[0] for one, two in pairwise(pieces))


def test_little_is_marked_in_a_long_text_that_changed_a_little(differences):
    words = [f"w{number}" for number in range(6000)]
    changed = [f"{word}x" if number % 100 == 0 else word for number, word in enumerate(words)]
    (pieces,) = differences((" ".join(words), " ".join(changed)))
    assert sides(pieces) == (" ".join(words), " ".join(changed))
    assert sum(kind == "ins" for kind, _ in pieces) == 60


def test_texts_beyond_all_measure_are_replaced_as_a_whole(differences):
    one, two = "x" * (1 << 20), "y" * (1 << 20)
    assert differences((one, two)) == [[["del", one], ["ins", two]]]
    draw = random.Random(7)
    unlike = [" ".join(str(draw.randrange(10**6)) for _ in range(4000)) for _ in range(2)]
    (pieces,) = differences(unlike)
    assert sides(pieces) == tuple(unlike)


def test_long_texts_of_many_lines_are_compared_by_lines(differences):
    lines = [f"line {number} " + "word " * 60 for number in range(2000)]
    other = [line.replace("word", "term", 1) if number in (100, 1900) else line for number, line in enumerate(lines)]
    (pieces,) = differences(("\n".join(lines), "\n".join(other)))
    assert [kind for kind, _ in pieces] == ["same", "del", "ins", "same", "del", "ins", "same"]
    assert (pieces[4][1], pieces[5][1]) == ("line 1900 word", "line 1900 term")  # not the one word alone
