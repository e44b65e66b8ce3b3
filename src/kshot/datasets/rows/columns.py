"""Which columns hold what: those that the user names, found in the table, or a suggestion where none is named."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kshot.core.errors import DataError, UsageError
from kshot.core.options import flag
from kshot.datasets.rows.settings import RowSettings

_COLUMNS_LISTED = 20


@dataclass(frozen=True, slots=True)
class RowColumns:
    """The columns of a table, by what they hold; one column of options holds them all."""

    question: str | None
    options: tuple[str, ...] = ()
    answer: str | None = None
    target: str | None = None

    @property
    def has_options(self) -> bool:
        """Whether the questions have options."""
        return bool(self.options)


def check_named(settings: RowSettings, where: str) -> None:
    """Refuse flags that do not belong together; whether anything is missing shows when the table is read."""
    given = settings.changed(RowSettings)
    both = [name for name in ("options", "answer", "answer_as") if name in given and "target" in given]
    if both:
        raise UsageError(
            f"--target and {flag(both[0])} cannot be used together",
            where=where,
            hint="--target is for questions without options; --answer names the right one of --options.",
        )
    if "answer_as" in given and "answer" not in given:
        raise UsageError("--answer-as needs --answer", where=where)
    if "options" in given and not any(name.strip() for name in settings.options or ()):
        raise UsageError("--options names no column", where=where)


def columns_named(settings: RowSettings, names: Sequence[str], where: str, *, templated: bool) -> RowColumns:
    """Return the columns that the flags name; ``templated``: an instruction says what a question looks like."""
    missing = _missing(settings, templated=templated)
    if missing:
        listed = f"the columns are {_listed(names)}"
        raise UsageError(f"{missing}; {listed}", where=where, hint=_suggestion(names))
    found = RowColumns(
        question=_column("question", settings.question, names, where),
        options=_option_columns(settings.options, names, where),
        answer=_column("answer", settings.answer, names, where),
        target=_column("target", settings.target, names, where),
    )
    right = found.target or found.answer
    if not templated and right is not None and right == found.question:
        role = "answer" if found.target is None else "target"
        raise UsageError(f"the column {right!r} cannot be both the question and the {role}", where=where)
    twice = {found.answer, *((found.question,) if not templated else ())} & set(found.options)
    if twice - {None}:
        raise UsageError(f"the column {next(iter(twice))!r} cannot be an option, too", where=where)
    return found


def _missing(settings: RowSettings, *, templated: bool) -> str:
    if settings.options is None and settings.answer is None and settings.target is None:
        return "no flag says which columns hold the options and the answer"
    if settings.target is None and settings.answer is None:
        return "no flag says which column names the right option (--answer)"
    if settings.target is None and settings.options is None:
        return "no flag says which columns hold the options (--options); an answer in free text is a --target"
    if settings.question is None and not templated:
        return "no flag says which column holds the question (--question)"
    return ""


def _column(role: str, name: str | None, names: Sequence[str], where: str) -> str | None:
    if name is None:
        return None
    if name in names:
        return name
    spaced = [each for each in names if each.strip() == name.strip()]
    if len(spaced) == 1:
        return spaced[0]
    folded = {each.strip().casefold(): each for each in names}
    close = difflib.get_close_matches(name.strip().casefold(), list(folded), 1)
    meant = f"Did you mean {folded[close[0]]!r}? " if close else ""
    what = f"there is no column {name!r} ({flag(role)})"
    raise DataError(what, where=where, hint=f"{meant}The columns are {_listed(names)}.")


def _option_columns(given: Sequence[str] | None, names: Sequence[str], where: str) -> tuple[str, ...]:
    if given is None:
        return ()
    whole = ",".join(given)
    if len(given) > 1 and whole in names:
        return (whole,)  # a column whose name has a comma
    found = [_column("options", name, names, where) or "" for name in given]
    twice = next((name for name in found if found.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"--options names the column {twice!r} twice", where=where)
    return tuple(found)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _COLUMNS_LISTED
    return ", ".join(map(repr, names[:_COLUMNS_LISTED])) + (f" and {more} more" if more > 0 else "")


def column_names(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names that any row has, in order."""
    return list(dict.fromkeys(str(name) for row in rows for name in row))


# ---- a suggestion ----

_USUAL = {
    "question": ("question", "q", "prompt", "query", "problem", "stem", "input", "text", "sentence"),
    "answer": ("answer", "answerkey", "key", "label", "correct", "correctanswer", "gold", "solution", "rightanswer"),
    "options": ("options", "choices", "answers", "alternatives"),
    "target": ("target", "answer", "output", "response", "reference", "answers", "label", "solution"),
}
_NUMBERED = re.compile(r"(?:option|choice|opt|answer|ans|op)?[\s_-]*([a-z]|\d{1,2})", re.IGNORECASE)


def guessed(names: Sequence[str]) -> RowColumns | None:
    """Guess the columns by the names that they usually have; None if nothing looks like a question."""
    question = _usual("question", names)
    if question is None:
        return None
    lettered = tuple(name for name in names if name != question and _NUMBERED.fullmatch(name.strip()))
    options = lettered if len(lettered) > 1 else tuple(filter(None, [_usual("options", names)]))
    answer = _usual("answer", [name for name in names if name not in options and name != question])
    if options and answer:
        return RowColumns(question, options, answer)
    target = _usual("target", [name for name in names if name != question])
    return RowColumns(question, target=target) if target else None


def flags_of(columns: RowColumns) -> str:
    """Write columns as flags of the command line."""
    given = {
        "question": columns.question,
        "options": ",".join(columns.options) or None,
        "answer": columns.answer,
        "target": columns.target,
    }
    return " ".join(f"{flag(name)} {shlex.quote(value)}" for name, value in given.items() if value is not None)


def _usual(role: str, names: Sequence[str]) -> str | None:
    plain = {re.sub(r"[\s_-]", "", name).casefold(): name for name in reversed(names)}
    return next((plain[each] for each in _USUAL[role] if each in plain), None)


def _suggestion(names: Sequence[str]) -> str:
    columns = guessed(names)
    if columns is not None:
        return f"Perhaps: {flags_of(columns)}."
    return "Name them: --question Q --options A,B,C,D --answer KEY, or --question Q --target TEXT."
