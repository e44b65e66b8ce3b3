"""Matching the tokens in a server's reply with the text that was sent."""

import pytest

from kshot.backends.server import replies
from kshot.backends.server.replies import continuation_start, covers


def test_the_parts_of_a_character_belong_to_the_continuation():
    assert continuation_start(("<s>", "a", "", "é"), "é") == 2
    assert continuation_start(("<s>", "a", "é"), "é") == 2
    assert continuation_start(("", "é"), "é") == 1


@pytest.mark.parametrize(
    ("texts", "text", "expected"),
    [
        # vLLM 0.32 with a byte-level vocabulary shows nothing of a token that ends within a character.
        (("<s>", "", "�ve", "", " café", " in", "", "�ric", "h", ",", "", "", "", "�本", " Pa", "ris"), "naïve café in Zürich, 日本 Paris", True),
        (("", "he", "l", "", "", "", "��語"), "hel 日本語", True),
        (("<s>", "", "�ve", " café"), "naïve tea", False),
        (("<s>", "", "�ve", " café"), "x" * 100 + "ïve café", False),
    ],
)  # fmt: skip
def test_a_hidden_token_may_be_any_text_of_limited_length(texts, text, expected):
    assert covers(texts, text, 0) is expected


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (["a", "", *["\ufffd"] * 10**6], "é" * 5000),
        (["a", *["", "\ufffd"] * 10**5, "z"], "é" * 5000),
        (["a", *["e", "", "\ufffd"] * 10**5, "z"], "eé" * 5000),
        (["a", *["x" * 10**6, ""] * 10], "e" * 5000),
    ],
    ids=["parts", "hidden parts", "a bit of everything", "long tokens"],
)
def test_tokens_that_fit_in_too_many_ways_take_neither_time_nor_memory(tokens, text):
    assert not covers(tokens, text, 0)


def test_the_steps_of_matching_are_limited(monkeypatch):
    tokens, text = ["a", *["e", ""] * 50], "e" * 200
    assert covers(tokens, text, 0)
    monkeypatch.setattr(replies, "_MAX_STEPS", 100)
    assert not covers(tokens, text, 0)
