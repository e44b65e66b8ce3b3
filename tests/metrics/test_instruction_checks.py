"""Instructions that can be checked: what follows them, and what does not."""

import sys
from types import SimpleNamespace

import pytest

from kshot.core.errors import DataError
from kshot.metrics.instruction_checks import CHECKS, follows, loose_forms

CASES = {  # instruction: options, a reply that follows it, one that does not
    "keywords:existence": ({"keywords": ["sun", "m.on"]}, "Sun and Moon", "Sun alone"),
    "keywords:frequency": ({"keyword": "a(b", "frequency": 2, "relation": "at least"}, "a(b A(B", "a(b ab"),
    "keywords:forbidden_words": ({"forbidden_words": ["sun"]}, "a sunny day", "The SUN."),
    "keywords:letter_frequency": ({"letter": "E", "let_frequency": 2, "let_relation": "less than"}, "a be", "eE"),
    "length_constraints:number_sentences": ({"num_sentences": 2, "relation": "at least"}, "One. Two.", "One."),
    "length_constraints:number_paragraphs": ({"num_paragraphs": 2}, "a ***\nb\n***", "a *** *** b"),
    "length_constraints:number_words": ({"num_words": 3, "relation": "less than"}, "two words", "now three words"),
    "length_constraints:nth_paragraph_first_word": (
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "then"},
        "First.\n\n\"Then', it",
        "Then.\n\nFirst",
    ),
    "detectable_content:number_placeholders": ({"num_placeholders": 2}, "[a] and [b]", "[a]"),
    "detectable_content:postscript": ({"postscript_marker": "P.S."}, "text\np. s. more", "text\nps more"),
    "detectable_format:number_bullet_lists": ({"num_bullets": 2}, "* one\n- two", "* one\n** bold **"),
    "detectable_format:constrained_response": ({}, "Well. My answer is no.", "No."),
    "detectable_format:number_highlighted_sections": ({"num_highlights": 2}, "*a* and *b*", "*a* and * *"),
    "detectable_format:multiple_sections": (
        {"section_spliter": "Part", "num_sections": 2},
        "Part 1 a Part 2 b",
        "Part 1 a Part b",
    ),
    "detectable_format:json_format": ({}, '```json\n{"a": 1}\n```', "{a: 1}"),
    "detectable_format:title": ({}, "<<A title>>\ntext", "<< >>"),
    "combination:two_responses": ({}, "one ****** two", "one ****** one"),
    "combination:repeat_prompt": ({"prompt_to_repeat": "Say it."}, "say it. Yes", "Yes. Say it."),
    "startend:end_checker": ({"end_phrase": "The end."}, 'So: the end."', "the end. Or not"),
    "startend:quotation": ({}, ' "all of it" ', '"'),
    "change_case:capital_word_frequency": (
        {"capital_frequency": 2, "capital_relation": "at least"},
        "TWO WORDS here",
        "ONE word here",
    ),
    "punctuation:no_comma": ({}, "no such sign", "one, here"),
}
LANGUAGES = {"language:response_language", "change_case:english_capital", "change_case:english_lowercase"}


def test_every_instruction_has_a_case():
    assert {*CASES, *LANGUAGES} == set(CHECKS)


@pytest.mark.parametrize("name", CASES)
def test_check(name):
    options, good, bad = CASES[name]
    assert follows(name, {**options, "unused": None}, good)
    assert not follows(name, options, bad)
    assert not follows(name, options, " \n")


def test_languages(monkeypatch):
    monkeypatch.setitem(sys.modules, "langdetect", None)
    with pytest.raises(DataError, match="pip install langdetect"):
        follows("language:response_language", {"language": "de"}, "ja")

    class LangDetectError(Exception):
        pass

    def detect(text):
        if text == "?!":
            raise LangDetectError
        return "de" if "ja" in text.lower() else "en"

    fake = SimpleNamespace(detect=detect, LangDetectException=LangDetectError, DetectorFactory=SimpleNamespace(seed=1))
    monkeypatch.setitem(sys.modules, "langdetect", fake)
    assert follows("language:response_language", {"language": "de"}, "ja")
    assert follows("language:response_language", {"language": "de"}, "?!")
    assert not follows("language:response_language", {"language": "de"}, "yes")
    assert follows("change_case:english_capital", {}, "YES")
    assert not follows("change_case:english_capital", {}, "Yes")
    assert follows("change_case:english_lowercase", {}, "yes")
    assert not follows("change_case:english_lowercase", {}, "ja")


def test_loose_forms_leave_out_lines_and_asterisks():
    assert loose_forms("Sure:\n*a*\nBye") == (
        *("Sure:\n*a*\nBye", "*a*\nBye", "Sure:\n*a*", "*a*"),
        *("Sure:\na\nBye", "a\nBye", "Sure:\na", "a"),
    )


def test_what_cannot_be_checked_is_an_error():
    with pytest.raises(DataError, match="there is no check of the instruction 'x:y'"):
        follows("x:y", {}, "reply")
    with pytest.raises(DataError, match="'keywords:existence' lacks its option 'keywords'"):
        follows("keywords:existence", {}, "reply")
