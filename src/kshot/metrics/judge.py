"""A language model as the judge of open answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from kshot.core.errors import DataError, UsageError
from kshot.core.kill_points import reach
from kshot.core.records import (
    Answers,
    AskFailed,
    Failed,
    Generate,
    Gold,
    Message,
    Prompt,
    Request,
    RequestGenerator,
    Sample,
    ask,
)
from kshot.metrics.judge_prompts import DEFAULT_SCALE, JudgePrompt, References, pairwise_messages, rating_messages
from kshot.metrics.judge_replies import parse_rating, parse_verdict
from kshot.metrics.metric import Metric

PLACEHOLDER = "(the model's reply)"
"""What a preview shows the judge in place of a reply."""


class GPTEval(Metric):
    """Quality of an open answer, judged by a model: a rating from 1 to 10.

    ``rubric`` says what to judge by, ``scale`` the lowest and the highest rating. ``prompt`` is a jinja template in
    place of kshot's own prompt; it may use question, answer, reference, references, rubric, scale, lowest and highest
    (with ``pairwise``: question, answer_a, answer_b and rubric). ``pairwise`` compares the answer with the reference
    answer instead of rating it. It asks twice, with the positions swapped: 100 for a win, 50 for a tie or two verdicts
    that disagree, 0 for a loss. With ``multi_turn`` the answer is the tuple of all replies of a conversation whose
    questions are the sample's ``source``. The model of ``role`` is asked.
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
        rubric: str | None = None,
        scale: Sequence[float] = DEFAULT_SCALE,
        prompt: str | None = None,
    ) -> None:
        self.multi_turn, self.pairwise = multi_turn, pairwise
        self.role, self.max_tokens, self.temperature = role, max_tokens, temperature
        self.rubric, self.scale = rubric, _checked_scale(scale, pairwise=pairwise)
        self.prompt = None if prompt is None else JudgePrompt(prompt, pairwise=pairwise)
        _check_rubric(self)

    def with_options(
        self,
        rubric: str | None = None,
        scale: Sequence[float] | None = None,
        prompt: str | None = None,
        *,
        where: str = "the judge's prompt",
    ) -> GPTEval:
        """Return the same metric with another rubric, scale or prompt; ``where`` names the prompt in messages."""
        made = copy(self)
        made.rubric = self.rubric if rubric is None else rubric
        made.scale = self.scale if scale is None else _checked_scale(scale, pairwise=self.pairwise)
        made.prompt = self.prompt if prompt is None else JudgePrompt(prompt, pairwise=self.pairwise, where=where)
        _check_rubric(made)
        return made

    @property
    def bounds(self) -> tuple[float, float]:  # type: ignore[override]  # it depends on an option, so it is read-only
        """The ends of the scale: of ratings, or of wins in percent."""
        return (0.0, 100.0) if self.pairwise else self.scale

    def judge_requests(self, sample: Sample, answer: str = PLACEHOLDER) -> Sequence[Request]:
        """Return what the judge would be asked about an answer; in a conversation, the answer stands in every turn."""
        source = sample.fields.get("source")
        turns = len(source) if isinstance(source, list | tuple) else 1
        asking = self.score(sample, (answer,) * turns if self.multi_turn else answer)
        requests: Sequence[Request] = next(asking)
        asking.close()
        return requests

    def score(self, sample: Sample, answer: Any) -> RequestGenerator:
        """Ask the judge about the answer."""
        answers = self.reference_answers(sample)
        if self.pairwise:
            value = yield from self._compare(sample, answer, answers)
        else:
            value = yield from self._rate(sample, answer, answers)
        return {self.name: value}

    def reference_answers(self, sample: Sample) -> tuple[str, ...]:
        """Return the reference answers that the judge sees."""
        return _answers(sample)

    def _rate(self, sample: Sample, answer: Any, answers: Sequence[str]) -> RequestGenerator:
        question, given = self._shown(sample, answer)
        low, high = (f"{end:g}" for end in self.scale)
        if self.prompt is None:
            messages = rating_messages(self.rubric, self.scale, question, given, answers)
        else:
            references = References(answers)
            shown = {"question": question, "answer": given, "reference": str(references), "references": references}
            limits = {"scale": f"{low} to {high}", "lowest": low, "highest": high}
            messages = self.prompt.messages({**shown, **limits, "rubric": self.rubric})
        (reply,) = yield from ask(self._request(messages))
        reach("judge.replied")
        rating = parse_rating(reply.text, self.scale)
        if rating is None:
            message = f"no rating from {low} to {high} in the judge's reply: {_short(reply.text)}"
            raise AskFailed(Failed("judge", message))
        return rating

    def _compare(self, sample: Sample, answer: Any, answers: Sequence[str]) -> RequestGenerator:
        if not answers:
            raise DataError(
                f"sample {sample.id!r} has no reference answer to compare with",
                hint="Give it one, or use GPTEval(pairwise=False).",
            )
        question, given = self._shown(sample, answer)
        other = self._dialogue(sample, answers) if self.multi_turn else answers[0]
        requests = [self._request(self._comparison(question, a, b)) for a, b in ((given, other), (other, given))]
        replies = yield from ask(*requests)
        reach("judge.replied")
        verdicts = [parse_verdict(reply.text) for reply in replies]
        for verdict, reply in zip(verdicts, replies, strict=True):
            if verdict is None:
                raise AskFailed(Failed("judge", f"no verdict in the judge's reply: {_short(reply.text)}"))
        return {("A", "B"): 100.0, ("B", "A"): 0.0}.get((str(verdicts[0]), str(verdicts[1])), 50.0)

    def _comparison(self, question: str, one: str, other: str) -> tuple[Message, ...]:
        if self.prompt is None:
            return pairwise_messages(self.rubric, question, one, other)
        return self.prompt.messages({"question": question, "answer_a": one, "answer_b": other, "rubric": self.rubric})

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

    def _request(self, messages: tuple[Message, ...]) -> Generate:
        return Generate(
            Prompt(messages=messages), max_tokens=self.max_tokens, temperature=self.temperature, role=self.role
        )


def _check_rubric(metric: GPTEval) -> None:
    if metric.rubric is not None and metric.prompt is not None and "rubric" not in metric.prompt.used:
        raise UsageError(
            "the rubric has no effect: the judge's prompt does not use it",
            hint="Write {{ rubric }} into the prompt, or leave the rubric out.",
        )


def _checked_scale(scale: Sequence[float], *, pairwise: bool) -> tuple[float, float]:
    ends = tuple(scale)
    if len(ends) != 2 or not all(float(end).is_integer() for end in ends) or ends[0] >= ends[1]:  # noqa: PLR2004 - two ends
        raise UsageError(
            f"the scale of GPTEval is {scale!r}",
            hint="Give its lowest and highest rating, whole numbers: scale=(1, 5).",
        )
    if pairwise and ends != DEFAULT_SCALE:
        raise UsageError("GPTEval has a scale and pairwise=True, which gives no ratings", hint="Use one of them.")
    return float(ends[0]), float(ends[1])


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


def _short(text: str, limit: int = 200) -> str:
    return repr(text if len(text) <= limit else "…" + text[-limit:])
