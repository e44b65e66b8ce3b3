"""A language model as the judge of open answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kshot.core.errors import DataError
from kshot.core.records import (
    Answers,
    AskFailed,
    Failed,
    Generate,
    Gold,
    Message,
    Prompt,
    RequestGenerator,
    Sample,
    ask,
)
from kshot.metrics.metric import Metric

_RATE = """You grade answers that an AI assistant gave to a user. Look at whether the answer does what was asked, \
whether it is correct, complete and clear, and whether anything in it misleads. Being long is no merit in itself.
First explain your view in a few sentences. Then, on a line of its own, give a whole number from 1 (useless) to 10 \
(could hardly be better) in double square brackets, like this: Rating: [[6]]"""

_COMPARE = """You compare the answers of two AI assistants, A and B, to the same user. Decide which one serves the \
user better: does what was asked, is correct, complete and clear. Which one comes first, how long an answer is and \
how it is laid out must not sway you.
First explain your view in a few sentences. Then, on a line of its own, give the verdict in double square brackets: \
[[A]] if A is better, [[B]] if B is better, [[C]] if neither is."""

_MIN_RATING, _MAX_RATING = 1.0, 10.0
# First the form that the prompt asks for, then others that judges use; within a form, the last match counts.
_RATING_FORMS = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        r"\[\[\s*(?:rating|score)?\s*:?\s*(\d+(?:\.\d+)?)\s*(?:/\s*10)?\s*\]\]",
        r"\b(?:rating|score)\b[\s*_:=]*(?:(?:is|of)\s+)?[\s*_]*\[?\s*(\d+(?:\.\d+)?)(?![\d.]*\d)",
        r"(?<![\d.])(\d+(?:\.\d+)?)\s*/\s*10\b",
        r"\[\s*(\d+(?:\.\d+)?)\s*\]",
        r"\A\W*(\d+(?:\.\d+)?)\W*\Z",
    )
)
_VERDICT_FORMS = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        r"\[\[\s*(?:verdict|assistant|answer)?\s*:?\s*(A|B|C|tie)\s*\]\]",
        r"\bverdict\b[\s*_:=]*(?:is\s+)?[\s*_]*\[?\s*(?:assistant\s+)?(A|B|C|tie)\b",
        r"\[\s*(A|B|C|tie)\s*\]",
        r"\A\W*(A|B|C|tie)\W*\Z",
    )
)


def parse_rating(reply: str) -> float | None:
    """Return the rating, 1 to 10, in the reply of a judge; None when there is none."""
    for form in _RATING_FORMS:
        if found := form.findall(reply):
            rating = float(found[-1])
            return rating if _MIN_RATING <= rating <= _MAX_RATING else None
    return None


def parse_verdict(reply: str) -> str | None:
    """Return the verdict, ``A``, ``B`` or ``C`` (a tie), in the reply of a judge; None when there is none."""
    for form in _VERDICT_FORMS:
        if found := form.findall(reply):
            verdict = str(found[-1]).upper()
            return "C" if verdict == "TIE" else verdict
    return None


class GPTEval(Metric):
    """Quality of an open answer, judged by a model: a rating from 1 to 10.

    ``pairwise`` compares the answer with the reference answer instead. It asks twice, with the positions swapped: 100
    for a win, 50 for a tie or two verdicts that disagree, 0 for a loss. With ``multi_turn`` the answer is the tuple of
    all replies of a conversation whose questions are the sample's ``source``. The model of ``role`` is asked.
    """

    name = "GPT-Eval"

    def __init__(
        self,
        *,
        multi_turn: bool = False,
        pairwise: bool = False,
        role: str = "judge",
        max_tokens: int = 1024,
        temperature: float = 0.0,
    ) -> None:
        self.multi_turn, self.pairwise = multi_turn, pairwise
        self.role, self.max_tokens, self.temperature = role, max_tokens, temperature

    @property
    def bounds(self) -> tuple[float, float]:  # type: ignore[override]  # it depends on an option, so it is read-only
        """The ends of the scale: of ratings, or of wins in percent."""
        return (0.0, 100.0) if self.pairwise else (_MIN_RATING, _MAX_RATING)

    def score(self, sample: Sample, answer: Any) -> RequestGenerator:
        """Ask the judge about the answer."""
        answers = _answers(sample)
        if self.pairwise:
            value = yield from self._compare(sample, answer, answers)
        else:
            value = yield from self._rate(sample, answer, answers)
        return {self.name: value}

    def _rate(self, sample: Sample, answer: Any, answers: Sequence[str]) -> RequestGenerator:
        question, given = self._shown(sample, answer)
        parts = [_block("Question", question)]
        if answers:
            parts.append(_block("Reference answer, for you alone", "\n\n".join(answers)))
        parts.append(_block("The assistant's answer", given))
        (reply,) = yield from ask(self._request(_RATE, parts))
        rating = parse_rating(reply.text)
        if rating is None:
            raise AskFailed(Failed("judge", f"no rating from 1 to 10 in the judge's reply: {_short(reply.text)}"))
        return rating

    def _compare(self, sample: Sample, answer: Any, answers: Sequence[str]) -> RequestGenerator:
        if not answers:
            raise DataError(
                f"sample {sample.id!r} has no reference answer to compare with",
                hint="Give it one, or use GPTEval(pairwise=False).",
            )
        question, given = self._shown(sample, answer)
        other = self._dialogue(sample, answers) if self.multi_turn else answers[0]
        requests = [
            self._request(_COMPARE, [_block("Question", question), _block("Assistant A", a), _block("Assistant B", b)])
            for a, b in ((given, other), (other, given))
        ]
        replies = yield from ask(*requests)
        verdicts = [parse_verdict(reply.text) for reply in replies]
        for verdict, reply in zip(verdicts, replies, strict=True):
            if verdict is None:
                raise AskFailed(Failed("judge", f"no verdict in the judge's reply: {_short(reply.text)}"))
        return {("A", "B"): 100.0, ("B", "A"): 0.0}.get((str(verdicts[0]), str(verdicts[1])), 50.0)

    def _shown(self, sample: Sample, answer: Any) -> tuple[str, str]:
        if not self.multi_turn:
            if not isinstance(answer, str):
                raise DataError(
                    f"GPT-Eval got an answer of type {type(answer).__name__} for sample {sample.id!r}",
                    hint="Use GPTEval(multi_turn=True), or let post_processing return one text.",
                )
            return _question(sample), answer
        return _question(sample), self._dialogue(sample, answer)

    def _dialogue(self, sample: Sample, replies: Sequence[str]) -> str:
        source = sample.fields.get("source")
        questions = [source] if isinstance(source, str) else list(source or ())
        if isinstance(replies, str) or len(replies) != len(questions):
            raise DataError(
                f"sample {sample.id!r} has {len(questions)} questions and "
                f"{1 if isinstance(replies, str) else len(replies)} answers",
                hint="With multi_turn=True there must be one answer for every question in `source`.",
            )
        turns = zip(questions, replies, strict=True)
        return "\n\n".join(f"User: {question}\n\nAssistant: {reply}" for question, reply in turns)

    def _request(self, instruction: str, parts: Sequence[str]) -> Generate:
        messages = (Message("system", instruction), Message("user", "\n\n".join(parts)))
        return Generate(
            Prompt(messages=messages), max_tokens=self.max_tokens, temperature=self.temperature, role=self.role
        )


def _answers(sample: Sample) -> tuple[str, ...]:
    match sample.target:
        case Answers(found):
            texts: Sequence[Any] = found
        case Gold(value):
            texts = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else ()
        case _:
            texts = ()
    return tuple(text for text in texts if isinstance(text, str) and text.strip())


_ANSWER_FIELDS = frozenset({"target", "target_idx", "label", "answer", "source_idx", "reference", "references"})


def _question(sample: Sample) -> str:
    """Return the question as the dataset has it, without its answer."""
    shown = {name: value for name, value in sample.fields.items() if name not in _ANSWER_FIELDS}
    return _flat(shown.get("source") or _texts(shown))


def _texts(fields: Mapping[str, Any]) -> list[str]:
    return [value for value in fields.values() if isinstance(value, str) and value.strip()]


def _flat(source: Any) -> str:
    if isinstance(source, list | tuple):
        return "\n\n".join(str(part) for part in source)
    return str(source)


def _block(title: str, text: str) -> str:
    return f"<{title}>\n{text}\n</{title}>"


def _short(text: str, limit: int = 200) -> str:
    return repr(text if len(text) <= limit else "…" + text[-limit:])
