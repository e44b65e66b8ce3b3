"""A language model as the judge of open answers: its prompts, and what the user sets for it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from kshot.core.errors import DataError, UsageError
from kshot.core.kill_points import reach
from kshot.core.metric import Metric as AnyMetric
from kshot.core.options import flag
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
from kshot.core.text_files import read_text
from kshot.metrics.judge_replies import Scale, parse_rating, parse_verdict
from kshot.metrics.metric import Metric
from kshot.metrics.settings import JUDGE_OPTIONS, ScoringSettings
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
        match sample.target:
            case Answers(found):
                texts: Sequence[Any] = found
            case Gold(value):
                texts = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else ()
            case _:
                texts = ()
        return tuple(text for text in texts if isinstance(text, str) and text.strip())

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


_ANSWER_FIELDS = frozenset({"target", "target_idx", "label", "answer", "source_idx", "reference", "references"})


def _question(sample: Sample) -> str:
    """Return the question as the dataset has it, without its answer."""
    shown = {name: value for name, value in sample.fields.items() if name not in _ANSWER_FIELDS}
    texts = [value for value in shown.values() if isinstance(value, str) and value.strip()]
    source = shown.get("source") or texts
    return "\n\n".join(map(str, source)) if isinstance(source, list | tuple) else str(source)


def _short(text: str, limit: int = 200) -> str:
    return repr(text if len(text) <= limit else "…" + text[-limit:])


_SCALE = re.compile(r"\s*(-?\d{1,6})\s*(?:-|–|\.\.|to)\s*(-?\d{1,6})\s*")
_FILE_ENDINGS = {".txt", ".md", ".jinja", ".jinja2", ".j2"}


def check_judge_options(settings: ScoringSettings) -> None:
    """Refuse a scale that cannot be read, and files that are not there; a dataset checks the prompt itself."""
    judged_as_set(GPTEval(), replace(settings, judge_prompt=None))
    if settings.judge_prompt is not None:
        _file("judge_prompt", settings.judge_prompt)


def with_judge_options(metrics: Sequence[AnyMetric], settings: ScoringSettings, *, where: str = "") -> list[AnyMetric]:
    """Return the metrics, those that ask a judge with what the user set for it."""
    named = [name for name in JUDGE_OPTIONS if getattr(settings, name) is not None]
    if named and not any(isinstance(metric, GPTEval) for metric in metrics):
        raise UsageError(
            f"{flag(named[0])} needs a metric that asks a judge",
            where=where,
            hint="Add --metric GPTEval --judge MODEL.",
        )
    return [judged_as_set(metric, settings) if isinstance(metric, GPTEval) else metric for metric in metrics]


def judged_as_set(metric: GPTEval, settings: ScoringSettings) -> GPTEval:
    """Return the metric with the rubric, the scale and the prompt that the user set."""
    given: dict[str, Any] = {}
    if settings.judge_scale is not None:
        given["scale"] = read_scale(settings.judge_scale)
    if settings.judge_rubric is not None:
        given["rubric"] = _text_or_file(settings.judge_rubric)
    if settings.judge_prompt is not None:
        given |= {"prompt": _file("judge_prompt", settings.judge_prompt), "where": settings.judge_prompt}
    return metric.with_options(**given) if given else metric


def read_scale(text: str) -> tuple[float, float]:
    """Read a scale such as ``1-5``."""
    found = _SCALE.fullmatch(text)
    if found is None or int(found[1]) >= int(found[2]):
        raise UsageError(
            f"--judge-scale is {text!r}",
            hint="Write its lowest and its highest rating, whole numbers: --judge-scale 1-5.",
        )
    return float(found[1]), float(found[2])


def _text_or_file(given: str) -> str:
    """Return the rubric: the content of a file, or the text itself."""
    if "\n" not in given and (Path(given).suffix.lower() in _FILE_ENDINGS or Path(given).expanduser().is_file()):
        return _file("judge_rubric", given).strip()
    if not given.strip():
        raise UsageError("--judge-rubric is empty", hint="Say what the judge is to look at, or name a file.")
    return given


def _file(name: str, path: str) -> str:
    try:
        return read_text(Path(path).expanduser())
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"{flag(name)} cannot be read: {exc}", where=path) from exc
