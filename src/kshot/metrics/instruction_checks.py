"""Whether a reply follows an instruction that can be checked: the instructions of IFEval, by their ids."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias

from kshot.core.errors import DataError

Options: TypeAlias = Mapping[str, Any]
Check: TypeAlias = Callable[[str, Options], bool]


def follows(instruction: str, options: Options, reply: str) -> bool:
    """Whether a reply follows an instruction; an empty reply follows none."""
    check = CHECKS.get(instruction)
    if check is None:
        raise DataError(
            f"there is no check of the instruction {instruction!r}", hint=f"There are: {', '.join(CHECKS)}."
        )
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return bool(reply.strip()) and check(reply, given)
    except KeyError as exc:
        raise DataError(f"the instruction {instruction!r} lacks its option {exc.args[0]!r}") from exc


def loose_forms(reply: str) -> tuple[str, ...]:
    """Return a reply, and what is left of it without its first line, its last line, both, and without asterisks."""
    lines = reply.split("\n")
    cut = ("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))
    forms = (reply, *cut)
    return (*forms, *(form.replace("*", "") for form in forms))


# ---- counting ----


def _compared(count: int, options: Options, name: str, relation: str = "relation") -> bool:
    """Compare a count with a number, as ``less than`` or ``at least`` says."""
    wanted: float = options[name]
    return count < wanted if options.get(relation) == "less than" else count >= wanted


def _found(pattern: str, text: str) -> list[str]:
    """Find a keyword, which may be a regular expression, in any case."""
    try:
        return [match.group() for match in re.finditer(pattern, text, re.IGNORECASE)]
    except re.error:
        return [match.group() for match in re.finditer(re.escape(pattern), text, re.IGNORECASE)]


@cache
def _sentence_splitter() -> Any:
    from nltk.tokenize.punkt import PunktSentenceTokenizer

    return PunktSentenceTokenizer()  # it needs no downloaded data


def _capital_words(text: str) -> int:
    from nltk.tokenize import NLTKWordTokenizer

    return sum(word.isupper() for word in NLTKWordTokenizer().tokenize(text))


# ---- languages ----


def _is_language(text: str, language: str) -> bool:
    """Whether a text is in a language; one whose language cannot be told passes."""
    try:
        langdetect = importlib.import_module("langdetect")
    except ImportError as exc:
        message = "the language of replies needs the package 'langdetect'"
        raise DataError(message, hint="Install it: pip install langdetect") from exc
    langdetect.DetectorFactory.seed = 0
    try:
        return bool(langdetect.detect(text) == language)
    except langdetect.LangDetectException:
        return True


# ---- the form of a reply ----


def _bullets(text: str) -> int:
    starred = re.compile(r"^\s*\*[^*].*$", re.MULTILINE)
    dashed = re.compile(r"^\s*-.*$", re.MULTILINE)
    return len(starred.findall(text)) + len(dashed.findall(text))


def _highlights(text: str) -> int:
    single = (found[1:-1].strip("*") for found in re.findall(r"\*[^\n*]*\*", text))
    double = (found[2:-2] for found in re.findall(r"\*\*[^\n*]*\*\*", text))
    return sum(bool(inner.strip()) for inner in (*single, *double))


def _paragraphs(text: str, options: Options) -> bool:
    """Whether ``***`` divides a reply into this many paragraphs; none between two dividers may be empty."""
    parts = re.split(r"\s?\*{3}\s?", text)
    inner, ends = parts[1:-1], (parts[0], *parts[1:][-1:])
    if not all(part.strip() for part in inner):
        return False
    return bool(len(inner) + sum(bool(part.strip()) for part in ends) == options["num_paragraphs"])


def _first_word(text: str, options: Options) -> bool:
    """Whether a reply has this many paragraphs, and one of them begins with this word."""
    parts = text.split("\n\n")
    count, number = sum(bool(part.strip()) for part in parts), options["nth_paragraph"]
    if number > count or not parts[number - 1].strip():
        return False
    word = parts[number - 1].split()[0].lstrip("'").lstrip('"')
    first = re.match(r"[^.,?!'\"]*", word)
    begins = first is not None and first.group().lower() == str(options["first_word"]).lower()
    return bool(count == options["num_paragraphs"] and begins)


def _postscript(text: str, options: Options) -> bool:
    marker = str(options["postscript_marker"])
    known = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
    return bool(_found(known.get(marker, re.escape(marker)), text))


def _is_json(text: str, _: Options) -> bool:
    bare = re.sub(r"^```(?:json|Json|JSON)?|```$", "", text.strip()).strip()
    try:
        json.loads(bare)
    except ValueError:
        return False
    return True


def _two_replies(text: str, _: Options) -> bool:
    parts = text.split("*" * 6)
    if not all(part.strip() for part in parts[1:-1]):
        return False
    said = [part.strip() for part in parts if part.strip()]
    return len(said) == 2 and said[0] != said[1]  # noqa: PLR2004 - two replies


def _sections(text: str, options: Options) -> int:
    return len(re.split(rf"\s?{options['section_spliter']}\s?\d+\s?", text)) - 1


_CHOICES = ("My answer is yes.", "My answer is no.", "My answer is maybe.")

CHECKS: Mapping[str, Check] = {
    "keywords:existence": lambda text, o: all(_found(word, text) for word in o["keywords"]),
    "keywords:frequency": lambda text, o: _compared(len(_found(o["keyword"], text)), o, "frequency"),
    "keywords:forbidden_words": lambda text, o: not any(_found(rf"\b{word}\b", text) for word in o["forbidden_words"]),
    "keywords:letter_frequency": lambda text, o: _compared(
        text.lower().count(str(o["letter"]).lower()), o, "let_frequency", "let_relation"
    ),
    "language:response_language": lambda text, o: _is_language(text, o["language"]),
    "length_constraints:number_sentences": lambda text, o: _compared(
        len(_sentence_splitter().tokenize(text)), o, "num_sentences"
    ),
    "length_constraints:number_paragraphs": _paragraphs,
    "length_constraints:number_words": lambda text, o: _compared(len(re.findall(r"\w+", text)), o, "num_words"),
    "length_constraints:nth_paragraph_first_word": _first_word,
    "detectable_content:number_placeholders": lambda text, o: (
        len(re.findall(r"\[.*?\]", text)) >= o["num_placeholders"]
    ),
    "detectable_content:postscript": _postscript,
    "detectable_format:number_bullet_lists": lambda text, o: _bullets(text) == o["num_bullets"],
    "detectable_format:constrained_response": lambda text, _: any(choice in text for choice in _CHOICES),
    "detectable_format:number_highlighted_sections": lambda text, o: _highlights(text) >= o["num_highlights"],
    "detectable_format:multiple_sections": lambda text, o: _sections(text, o) >= o["num_sections"],
    "detectable_format:json_format": _is_json,
    "detectable_format:title": lambda text, _: any(
        t.lstrip("<").rstrip(">").strip() for t in re.findall(r"<<[^\n]+>>", text)
    ),
    "combination:two_responses": _two_replies,
    "combination:repeat_prompt": lambda text, o: (
        text.strip().lower().startswith(str(o["prompt_to_repeat"]).strip().lower())
    ),
    "startend:end_checker": lambda text, o: (
        text.strip().strip('"').lower().endswith(str(o["end_phrase"]).strip().lower())
    ),
    "startend:quotation": lambda text, _: len(text.strip()) > 1 and text.strip()[0] == text.strip()[-1] == '"',
    "change_case:capital_word_frequency": lambda text, o: _compared(
        _capital_words(text), o, "capital_frequency", "capital_relation"
    ),
    "change_case:english_capital": lambda text, _: text.isupper() and _is_language(text, "en"),
    "change_case:english_lowercase": lambda text, _: text.islower() and _is_language(text, "en"),
    "punctuation:no_comma": lambda text, _: "," not in text,
}
