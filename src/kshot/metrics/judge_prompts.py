"""What a judge is asked: kshot's own prompts for a rubric and a scale, or a prompt of the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kshot.core.errors import UsageError
from kshot.core.records import Message
from kshot.metrics.judge_replies import Scale
from kshot.prompts.strings import compile_string, jinja_environment, names_used

DEFAULT_SCALE: Scale = (1.0, 10.0)

_RATE = """You grade answers that an AI assistant gave to a user. {criteria}
First explain your view in a few sentences. Then, on a line of its own, give a whole number from {low:g} (useless) to \
{high:g} (could hardly be better) in double square brackets, like this: Rating: [[{example}]]"""

_COMPARE = """You compare the answers of two AI assistants, A and B, to the same user. Decide which one serves the \
user better{criteria} Which one comes first, how long an answer is and how it is laid out must not sway you.
First explain your view in a few sentences. Then, on a line of its own, give the verdict in double square brackets: \
[[A]] if A is better, [[B]] if B is better, [[C]] if neither is."""

_RATE_CRITERIA = """Look at whether the answer does what was asked, whether it is correct, complete and clear, and \
whether anything in it misleads. Being long is no merit in itself."""
_COMPARE_CRITERIA = ": does what was asked, is correct, complete and clear."

RATING_NAMES = ("question", "answer", "reference", "references", "rubric", "scale", "lowest", "highest")
PAIRWISE_NAMES = ("question", "answer_a", "answer_b", "rubric")


def rating_messages(
    rubric: str | None, scale: Scale, question: str, answer: str, references: Sequence[str]
) -> tuple[Message, ...]:
    """Return kshot's own prompt for a rating."""
    low, high = scale
    system = _RATE.format(
        criteria=_RATE_CRITERIA if rubric is None else f"Judge by this rubric:\n{_block('Rubric', rubric)}",
        low=low,
        high=high,
        example=round(low + 0.55 * (high - low)),  # a little above the middle, which suggests neither end
    )
    parts = [_block("Question", question)]
    if references:
        parts.append(_block("Reference answer, for you alone", "\n\n".join(references)))
    parts.append(_block("The assistant's answer", answer))
    return Message("system", system), Message("user", "\n\n".join(parts))


def pairwise_messages(rubric: str | None, question: str, answer_a: str, answer_b: str) -> tuple[Message, ...]:
    """Return kshot's own prompt for a comparison of two answers."""
    criteria = _COMPARE_CRITERIA if rubric is None else f" by this rubric:\n{_block('Rubric', rubric)}\n"
    parts = [_block("Question", question), _block("Assistant A", answer_a), _block("Assistant B", answer_b)]
    return Message("system", _COMPARE.format(criteria=criteria)), Message("user", "\n\n".join(parts))


class References(tuple[str, ...]):
    """The reference answers, for a loop in a template; printed whole, a blank line stands between them."""

    __slots__ = ()

    def __str__(self) -> str:
        """Return them as one text."""
        return "\n\n".join(self)


class JudgePrompt:
    """A prompt of the user, a jinja template; it becomes one user message. A faulty one is an error when it is read."""

    def __init__(self, text: str, *, pairwise: bool = False, where: str = "the judge's prompt") -> None:
        """Check the template: it must be jinja, use known names alone, and show the answer to the judge."""
        self.text = text
        known = PAIRWISE_NAMES if pairwise else RATING_NAMES
        environment = jinja_environment()
        self._render = compile_string(text, environment, where=where)
        self.used = used = names_used(text, environment)
        if unknown := sorted(used - set(known)):
            raise UsageError(f"it uses {unknown[0]!r}", where=where, hint=f"Known names: {', '.join(known)}.")
        needed = ("answer_a", "answer_b") if pairwise else ("answer",)
        if missing := [name for name in needed if name not in used]:
            raise UsageError(
                f"it does not show the judge what to judge: it never uses {missing[0]!r}",
                where=where,
                hint=f"Write {{{{ {missing[0]} }}}} into it. Known names: {', '.join(known)}.",
            )

    def __repr__(self) -> str:
        """Show the text."""
        return repr(self.text)

    def __eq__(self, other: object) -> bool:
        """Compare the texts."""
        return isinstance(other, JudgePrompt) and self.text == other.text

    def __hash__(self) -> int:
        """Hash the text."""
        return hash(self.text)

    def messages(self, fields: Mapping[str, Any]) -> tuple[Message, ...]:
        """Render the prompt as one user message."""
        return (Message("user", self._render(fields)),)


def _block(title: str, text: str) -> str:
    return f"<{title}>\n{text}\n</{title}>"
