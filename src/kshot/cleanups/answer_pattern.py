"""``--answer-pattern``: a regular expression of the user takes the answer out of each reply."""

from __future__ import annotations

from collections.abc import Sequence

from kshot.cleanups.chosen_option import NO_OPTION, Chosen, chosen_option
from kshot.cleanups.letters import letter
from kshot.core.errors import UsageError
from kshot.core.records import NO_MATCH, AskFailed, Failed
from kshot.core.regexes import SECONDS, compiled

_RULE = "answer pattern"
_MAX_DIGITS = 100


class AnswerPattern:
    """A compiled pattern; one that is empty or cannot be read is an error."""

    def __init__(self, text: str, *, where: str = "") -> None:
        """Compile the pattern."""
        example = r"It is a Python regular expression, such as 'answer is \(?([A-D])'."
        if not text.strip():
            raise UsageError("--answer-pattern is empty, which matches every reply", where=where, hint=example)
        try:
            self._pattern = compiled(text)
        except ValueError as exc:
            raise UsageError(
                f"--answer-pattern {text!r} cannot be read: {exc}",
                where=where,
                hint=example,
            ) from exc
        self.text = text

    def find(self, reply: str) -> str | None:
        """Return the first group of the first match, or all of it if there is no group; None without a match.

        A group that took no part is passed over. A reply that takes too long is a failed sample.
        """
        try:
            match = self._pattern.search(reply, timeout=SECONDS)
        except TimeoutError:
            message = f"--answer-pattern {self.text!r} took more than {SECONDS:g} s on one reply; make it simpler"
            raise AskFailed(Failed("answer_pattern", message)) from None
        if match is None:
            return None
        return next((str(group) for group in match.groups() if group is not None), str(match[0]))

    def answer(self, reply: str) -> tuple[str, str]:
        """Return the text that the pattern finds ("" without a match), and the rule."""
        found = self.find(reply)
        return ("", NO_MATCH) if found is None else (found.strip(), _RULE)

    def option(self, reply: str, options: Sequence[str]) -> Chosen:
        """Return the option that the found text means: its letter, its text, its number from 1, or what it states."""
        found = self.find(reply)
        if found is None:
            return Chosen(NO_OPTION, NO_MATCH)
        text = found.strip()
        letters = [letter(index) for index in range(len(options))]
        texts = [" ".join(option.split()).casefold() for option in options]
        if text.upper() in letters:
            return Chosen(letters.index(text.upper()), _RULE)
        if texts.count(same := " ".join(text.split()).casefold()) == 1:
            return Chosen(texts.index(same), _RULE)
        # A reply may hold more digits than int() reads, and no option has such a number.
        if text.isdecimal() and len(text) <= _MAX_DIGITS and 1 <= int(text) <= len(options):
            return Chosen(int(text) - 1, _RULE)
        index = chosen_option(text, options).index
        return Chosen(index, _RULE if index != NO_OPTION else "no such option")
