"""The option letter that a reply settles on, by the ordered forms of OpenCompass and AISBench. Standard library only.

The forms are tried one after the other, each anywhere in the reply. The first one that occurs decides, if the text that
it captures has an option letter in it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from kshot.cleanups.patterns import after_answer_is

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# How the forms are written: X an option letter, _ any white space, ~ at most one sign of it, + at least one,
# [x] x or nothing, (a/b) a or b, . the full stop itself, % the end of the reply.
_STATED = """
答案[是]_X
答案[是]_：_X
答案[是]_:_X
答案选项[应][该]是_X
答案选项[应][该]为_X
答案应[该]是_X
答案应[该]选_X
答案选项[为]_：_X
答案选项[为]+[{][*][*]X
答案选项[是]_:_X
答案为_X
答案选_X
选[择]_X
故[选]_X只有[选][项]~X~[是]对
只有[选][项]~X~[是]错
只有[选][项]~X~[不]正确
只有[选][项]~X~错误
说法[不]对[选][项][的]是~X
说法[不]正确[选][项][的]是~X
说法错误[选][项][的]是~X
X~是正确的
X~是正确答案
选项~X~正确
所以答~X
所以~X[(./。/$)]%
所有~X[(./。/$)]%
(S/，/：/:/,)X[(。/，/,/.)]%
(S/，/,/：/:)(故/即)X[(。/.)]%
(S/，/,/：/:)因此X[(。/.)]%
(是/为/。)~X[(。/.)]%
因此~X[(。/.)]%
显然~X[(。/.)]%
"""
_RUN_LEADS = ("答案是", "答案应该是", "答案为")
_ENGLISH = """
(T/t)he answer is[:]+[{]X
(T/t)he answer is[:]+[{][*][*]X
(T/t)he answer is option[:]+[{]X
(T/t)he correct answer is[:]+[{]X
(T/t)he correct answer is option[:]+[{]X
"""
_BOXED_LEADS = ("correct answer is", "correct option is", "correct answer option is")
_LAST_ENGLISH = "(T/t)he answer to the question is[:]+[{]X"
_OPENING = ("^选项~X", "^X~[选]项")

_SIGNS = {
    "_": r"\s*",
    "~": r"\s?",
    "+": r"\s+",
    "S": r"\s",
    "[": "(?:",
    "]": ")?",
    "(": "(?:",
    ")": ")",
    "/": "|",
    "%": r"\Z",
    "^": r"\A",
    "{": r"\(",
    "*": r"\*",
    ".": r"\.",
    "$": r"\$",
}


def letter_class(options: str) -> str:
    """Return letters (or a range, ``A-D``) as a class of a pattern, and nothing but letters."""
    escaped = re.sub(r"([\\\]\[^])", r"\\\1", options)
    return f"[{escaped}]"


def _compiled(form: str, letters: str) -> re.Pattern[str]:
    """Return the pattern of a form; its first X is the group."""
    pattern, groups = "", 0
    for sign in form:
        if sign == "X":
            pattern += letters if groups else f"({letters})"
            groups += 1
        else:
            pattern += _SIGNS.get(sign, sign)
    return re.compile(pattern)


def _letter_form(pattern: re.Pattern[str]) -> Callable[[str], str | None]:
    def capture(text: str) -> str | None:
        found = pattern.search(text)
        return found[1] if found else None

    return capture


def _run_form(lead: str) -> Callable[[str], str | None]:
    """Capture the run of signs without white space after a lead, up to the last 。 in it or the end of the reply."""

    def capture(text: str) -> str | None:
        run_end, start = -1, text.find(lead)
        while start >= 0:
            begin = start + len(lead)
            if begin < len(text) and text[begin].isspace():
                begin += 1
            if begin >= run_end:
                stop = _SPACE.search(text, begin)
                run_end = stop.start() if stop else len(text)
                last = text.rfind("。", begin, run_end)
            if begin < run_end == len(text):
                return text[begin:]
            if last > begin:
                return text[begin:last]
            start = text.find(lead, start + len(lead))
        return None

    return capture


_SPACE = re.compile(r"\s")


def _boxed_form(lead: str, box: re.Pattern[str]) -> Callable[[str], str | None]:
    """Capture the first boxed letter that follows a lead, however far behind it."""
    phrase = re.compile(f"[Tt]he {lead}")

    def capture(text: str) -> str | None:
        said = phrase.search(text)
        found = box.search(text, said.end()) if said else None
        return found[1] if found else None

    return capture


def _at_the_start(letters: str) -> Callable[[str], str | None]:
    """Capture the letter at the very start, if no white space stands before the first letter of this form."""
    pattern = re.compile(rf"(?:\s|\A){letters}[\s。，,：:.$]")

    def capture(text: str) -> str | None:
        found = pattern.search(text)
        return found[0] if found and found.start() == 0 else None

    return capture


def _after_one(text: str) -> str | None:
    """Capture all that follows the first 1 and one more sign: the reply may be a list."""
    start = text.find("1")
    if start < 0 or start + 2 > len(text):
        return None
    rest = text[start + 2 :]
    rest = rest[1:] if rest[:1].isspace() else rest
    return rest or text[start : start + 2]


@lru_cache(maxsize=64)
def _forms(options: str) -> tuple[Callable[[str], str | None], ...]:
    letters = letter_class(options)

    def letter_forms(forms: Iterator[str] | list[str] | tuple[str, ...]) -> list[Callable[[str], str | None]]:
        return [_letter_form(_compiled(form, letters)) for form in forms]

    box = re.compile(rf"boxed\{{({letters})\}}")
    return (
        *letter_forms(_STATED.split("\n")[1:-1]),
        *(_run_form(lead) for lead in _RUN_LEADS),
        _letter_form(re.compile(rf"answer\s*:\s*({letters})", re.IGNORECASE)),
        *letter_forms(_ENGLISH.split("\n")[1:-1]),
        *(_boxed_form(lead, box) for lead in _BOXED_LEADS),
        *letter_forms([_LAST_ENGLISH, *_OPENING]),
        _at_the_start(letters),
        _after_one,
        _letter_form(re.compile(rf"1.\s?({letters})[.。$]?\Z", re.DOTALL)),
    )


@lru_cache(maxsize=64)
def _cushion(options: str) -> tuple[Callable[[str], str | None], ...]:
    letters = letter_class(options)
    return tuple(_letter_form(re.compile(pattern)) for pattern in (f"({letters}):", f"({letters})"))


def first_option_postprocess(text: str, options: str, cushion: bool = True) -> str:  # noqa: FBT001, FBT002 - as configs pass it
    """Find the option that a reply settles on: by a phrase that states it, else (``cushion``) by the first letter."""
    text = text.strip()
    for capture in (*_forms(options), *(_cushion(options) if cushion else ())):
        captured = capture(text)
        if captured is None:
            continue
        for option in options:
            if option in captured:
                return option
    return ""


def first_option_postprocess_v1(text: str, options: str, cushion: bool = True) -> str:  # noqa: FBT001, FBT002 - as above
    """Find the option that the last 200 characters of a reply settle on."""
    return first_option_postprocess(text[-200:], options, cushion)


# ---- letters wherever they stand ----


def first_capital_postprocess(text: str) -> str:
    """Take the first capital letter."""
    return next((letter for letter in text if letter.isupper()), "")


def last_capital_postprocess(text: str) -> str:
    """Take the last capital letter."""
    return next((letter for letter in reversed(text) if letter.isupper()), "")


def multiple_select_postprocess(text: str) -> str:
    """Take all capital letters, each once, in alphabetical order."""
    return "".join(sorted({letter for letter in text if letter.isupper()}))


def first_capital_postprocess_multi(text: str) -> str:
    """Take the first run of the letters A to D."""
    found = re.search(r"[A-D]+", text)
    return found[0] if found else ""


def last_option_postprocess(text: str, options: str, cushion: Any = None) -> str:  # noqa: ARG001 - configs pass it
    """Take the last of the option letters, wherever it stands."""
    found = re.findall(letter_class(options), text)
    return found[-1] if found else ""


def bbh_mcq_postprocess(text: str) -> str:
    """Take the letter after "answer is", in brackets or bare."""
    answer = after_answer_is(text)
    found = re.search(r"\(([A-Z])\)*", answer) or re.search(r"([A-Z])", answer)
    return found[1] if found else answer
