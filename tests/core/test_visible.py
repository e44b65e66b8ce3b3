"""Foreign text for people: what steers a terminal or hides is an escape, and languages stay readable."""

import json
import unicodedata

from kshot.core.visible import one_line, visible, visible_json

CONTROLS = [chr(code) for code in (*range(32), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"]
MARKS = [*"\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\ufeff\u2060\xad"]
HIDDEN = ["\U000e0041", "\U000e007f", "\U000e0001", "\U000e0100", "\ud800", "\udfff", "\uffff", "\u200bx"]


def test_controls_marks_and_hidden_characters_are_escapes():
    for text in (*CONTROLS, *MARKS, *HIDDEN):
        shown = visible(f"a{text}b")
        assert shown.isascii(), repr(text)
        assert shown.startswith("a\\")
    assert visible("\x1b]0;title\x07\x9b31m\r") == r"\x1b]0;title\x07\x9b31m\r"


def test_every_character_that_is_left_has_a_shape():
    for code in range(0x110000):
        character = chr(code)
        if unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} or unicodedata.bidirectional(character) in {
            "LRE", "LRO", "RLE", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI",
        }:  # fmt: skip
            assert visible(character) != character or character in "\n\t", hex(code)


def test_languages_stay_readable():
    for text in (
        "نص عربي",
        "שלום עולם",
        "می‌خواهم",
        "क्‍ष",
        "👩‍👩‍👧 ❤️",
        "日本語",
        "ü é ñ",
        "ភាសា\u200bខ្មែរ",
        "a\tb\nc",
        "\ufffd",
    ):
        assert visible(text) == text


def test_a_name_is_one_line():
    assert one_line("a\nb\tc\r") == r"a\nb\tc\r"
    assert one_line(7) == "7"


def test_json_keeps_the_exact_text():
    text = " ".join([*CONTROLS, *MARKS, *HIDDEN, '"\\\n\t', "日本"])
    shown = visible_json({text: [text]}, indent=2)
    assert json.loads(shown) == {text: [text]}
    assert visible(shown) == shown
    assert "日本" in shown
