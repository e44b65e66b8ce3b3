"""lm-eval's own filters: each turns the responses to every request into others. Standard library only.

``responses`` has a list for each request: its replies, or its ``[log-probability, greedy]`` pairs. What a filter makes
of them need not be a list: ``take_first`` gives the response itself. The confined process that runs patterns imports
this module too.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import wraps

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

_NUMBER_AFTER_HASHES = r"#### (\-?[0-9\.\,]+)"
_NO_MATCH = "[invalid]"
_LABELS = {
    "person": "PER",
    "location": "LOC",
    "organization": "ORG",
    "counties": "LOC",
    "places": "LOC",
    "people": "PER",
    "persons": "PER",
    "company": "ORG",
    "country": "LOC",
    "continent": "LOC",
    "time": "DATE",
    "date": "DATE",
    "per": "PER",
    "loc": "LOC",
    "org": "ORG",
}


# ---- those that choose ----


def take_first(responses: Sequence[Any], docs: Sequence[Any]) -> list[Any]:  # noqa: ARG001 - all filters are called alike
    """Take the first response."""
    return [each[0] for each in responses]


def take_first_k(responses: Sequence[Any], docs: Sequence[Any], *, k: int) -> list[Any]:  # noqa: ARG001 - as above
    """Take the first k responses; there must be so many."""
    if responses and len(responses[0]) < k:
        raise ValueError(f"take_first_k asks for {k} responses and there are {len(responses[0])}: raise `repeats`")
    return [each[:k] for each in responses]


def majority_vote(responses: Sequence[Any], docs: Sequence[Any]) -> list[Any]:  # noqa: ARG001 - as above
    """Take the most frequent response, the first one on a tie, as a list of one."""
    return [[Counter(each).most_common(1)[0][0]] for each in responses]


# ---- those that change each response ----


def _of_each(change: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Return the filter that changes each response."""

    @wraps(change)
    def filtered(responses: Sequence[Any], docs: Sequence[Any], **options: Any) -> list[Any]:  # noqa: ARG001 - as above
        return [[change(text, **options) for text in each] for each in responses]

    return filtered


@_of_each
def lowercase(text: Any) -> Any:
    """Write a response in lower case."""
    return text.lower()


@_of_each
def uppercase(text: Any) -> Any:
    """Write a response in upper case."""
    return text.upper()


@_of_each
def remove_whitespace(text: Any) -> Any:
    """Strip the ends of a response."""
    return text.strip()


@_of_each
def mapped(text: Any, *, mapping_dict: Mapping[Any, Any] | None = None, default_value: Any = None) -> Any:
    """Replace a response by what a table has for it."""
    return ({} if mapping_dict is None else mapping_dict).get(text, default_value)


@_of_each
def format_span(text: Any) -> str:
    """Write the named entities of a response as ``label: entity``, with `` $ `` between them."""
    text = text.lower()
    for word, label in _LABELS.items():
        text = re.sub(rf"\b{word}\s*:", f"{label}:", text)
    text = text.replace("$$", "$").rstrip("$").replace("\n", "$").strip()
    found = [
        (label, entity.strip())
        for label, entities in re.findall(r"\b(PER|LOC|ORG|DATE):\s*([^$]+)", text)
        for entity in entities.split(",")
    ]
    return " $ ".join(f"{label.lower()}: {entity}" for label, entity in found if entity.lower() != "none")


@_of_each
def regex_pos(
    text: Any,
    *,
    regex_pattern: str = "",  # noqa: ARG001 - lm-eval takes it and does not use it
    group_select: int = 0,  # noqa: ARG001 - likewise
    fallback: Any = None,
) -> Any:
    """Take the tags of all ``('word', 'TAG')`` pairs of a response."""
    pairs = re.findall(r"\('([^']*)', '([^']*)'\)", text) if isinstance(text, str) else text
    return [tag for _, tag in pairs] or (["invalid"] if fallback is None else fallback)


# ---- those with patterns of the task file ----


@_of_each
def regex(
    text: Any, *, regex_pattern: str = _NUMBER_AFTER_HASHES, group_select: int = 0, fallback: Any = _NO_MATCH
) -> Any:
    """Take one match of a pattern from a response; of several groups the first that is not empty."""
    return first_match(re.compile(regex_pattern), text, group_select, fallback)


def first_match(pattern: re.Pattern[str], text: Any, group_select: int, fallback: Any) -> Any:
    """Return one of the matches of a pattern; of several groups the first that is not empty."""
    matches = pattern.findall(text if isinstance(text, str) else "")
    if not matches:
        return fallback
    match = matches[group_select]
    if isinstance(match, tuple):
        match = next((group for group in match if group), fallback)
    return match.strip()


def multi_choice_regex(
    responses: Sequence[Any],
    docs: Sequence[Any],
    *,
    regex_pattern: str = _NUMBER_AFTER_HASHES,
    group_select: int = 0,
    fallback: Any = _NO_MATCH,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    regexes_to_ignore: Sequence[str] | None = None,
) -> list[Any]:
    """Take a match of a pattern; else the letter of an option whose text occurs; else a letter after a colon."""
    pattern = re.compile(regex_pattern)

    def bare(text: str) -> str:
        for ignored in regexes_to_ignore or ():
            text = re.sub(ignored, "", text)
        text = text.lower() if ignore_case else text
        return _without_punctuation(text) if ignore_punctuation else text

    found = []
    for each, doc in zip(responses, docs, strict=True):
        options = [bare(option.strip()) for option in doc["choices"]]
        letters = [chr(ord("A") + index) for index in range(len(options))]
        texts = re.compile("|".join(sorted(map(re.escape, options), key=len, reverse=True)))
        after_colon = re.compile(rf":[\s]*({'|'.join(letters)})")
        by_text = {option: f"({letter})" for option, letter in zip(options, letters, strict=True)}
        by_letter = {letter: f"({letter})" for letter in letters}
        found.append(
            [
                _named(pattern, text, group_select, {})
                or _named(texts, bare(text), group_select, by_text)
                or _named(after_colon, text, group_select, by_letter)
                or fallback
                for text in each
            ]
        )
    return found


def _named(pattern: re.Pattern[str], text: Any, group_select: int, names: Mapping[str, str]) -> str:
    stripped: str = first_match(pattern, text, group_select, "")
    return names.get(stripped, stripped) if stripped else ""


def _without_punctuation(text: str) -> str:
    return "".join(letter for letter in text if not unicodedata.category(letter).startswith("P"))


# ---- by name ----

FILTERS: Mapping[str, Callable[..., list[Any]]] = {
    "take_first": take_first,
    "take_first_k": take_first_k,
    "majority_vote": majority_vote,
    "lowercase": lowercase,
    "uppercase": uppercase,
    "remove_whitespace": remove_whitespace,
    "map": mapped,
    "format_span": format_span,
    "regex_pos": regex_pos,
    "regex": regex,
    "multi_choice_regex": multi_choice_regex,
}
"""The filters that a task file can name; ``custom`` and functions are run by the guest worker."""

WITH_PATTERNS = frozenset({"regex", "multi_choice_regex"})
"""Those whose patterns the task file writes: a pattern may take forever, so a confined process runs them."""


def filtered_alone(name: str, options: Mapping[str, Any], given: Any, doc: Any) -> Any:
    """Return what a filter makes of the responses to one request."""
    return FILTERS[name]([given], [doc], **options)[0]


def without_patterns(patterns: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Remove everything that any of the patterns matches, one pattern after the other."""
    found = list(texts)
    for pattern in patterns:
        found = [re.sub(pattern, "", text) for text in found]
    return found
