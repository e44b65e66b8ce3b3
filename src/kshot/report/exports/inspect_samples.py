"""A sample of a run as Inspect has it: messages, the model's output, scores with their rules, or an error."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from kshot.core.records import UNANSWERED, ResultRow, TokenLogprobs
from kshot.core.shareable import well_formed_value
from kshot.core.visible import metric_label, one_line
from kshot.report.sample_media import shown_content
from kshot.report.sample_responses import ReadResponse, read_response
from kshot.report.sample_texts import option_letter, written
from kshot.runs.headline import finite

if TYPE_CHECKING:
    from inspect_ai.log import EvalSample
    from inspect_ai.model import ChatMessage, Logprobs, ModelOutput, StopReason
    from inspect_ai.scorer import Score

_STOP_REASONS: Mapping[str, StopReason] = {"stop": "stop", "length": "max_tokens", "window": "model_length"}
_SHOWN = {
    "task",
    "model",
    "id",
    "prompt",
    "reasoning",
    "answer",
    "target",
    "scores",
    "failed",
    "stop_reason",
    "options",
    "token_logprobs",
}
"""What has a place of its own in Inspect's sample; the rest of a row goes to its metadata."""

_MAX_ID = 200
"""Characters of an id that is the name of a file in the log."""

_KEY = ("task", "model", "id")
"""What no two samples of a run share."""

_MAX_OPTIONS = 10_000
"""A larger number is no option: its letters would be a text of their own."""

_PERCENT = (0.0, 100.0)


class ScoreForm(NamedTuple):
    """How a metric is written: right and wrong as ``C`` and ``I``, percents as shares of 1.

    ``label`` is its name with its ``rule``; both are "" where the name alone says it.
    """

    divisor: float = 1.0
    right: float | None = None
    rule: str = ""
    label: str = ""

    def value(self, score: float) -> str | float:
        """Return a score of a sample."""
        return self.share(score) if self.right is None else "C" if score == self.right else "I"

    def number(self, score: float) -> float:
        """Return a score of a sample as the number that Inspect takes it for."""
        return self.share(score) if self.right is None else float(score == self.right)

    def share(self, figure: float) -> float:
        """Return a figure, or an end of its interval."""
        return figure / self.divisor


def forms_of(figures: Sequence[ResultRow]) -> dict[str, ScoreForm]:
    """Return the form of each metric of a task. One whose scale is unknown stays as it is in ``summary.json``.

    A detail has the scale of what it breaks down.
    """
    headlines = {row["metric"]: _form(row) for row in figures if not row.get("detail")}
    divisors = {form.divisor for form in headlines.values()}
    shared = ScoreForm(divisors.pop() if len(divisors) == 1 else 1.0)
    return headlines | {row["metric"]: shared for row in figures if row.get("detail")}


def _form(row: ResultRow) -> ScoreForm:
    bounds = tuple(row.get("bounds") or ())
    is_right_or_wrong = row.get("binary") and row.get("higher_is_better") and bounds and None not in bounds
    right = bounds[1] if is_right_or_wrong else None
    return ScoreForm(100.0 if bounds == _PERCENT else 1.0, right, row.get("rule", ""), metric_label(row))


def inspect_sample(row: ResultRow, forms: Mapping[str, ScoreForm], ranking_type: str, when: datetime) -> EvalSample:
    """Return a sample; one that failed has an error and no scores. ``when`` the run began is the time of its events."""
    from inspect_ai.log import EvalError, EvalSample

    row = well_formed_value(row)
    found = read_response(row, ranking_type)
    mark = hashlib.blake2b(json.dumps([row.get(name) for name in _KEY]).encode(), digest_size=8).hexdigest()
    asked, output = _messages(row.get("prompt"), mark), _output(row, found, mark)
    failed, choices = row.get("failed"), _choices(row, found)
    chooses = found.chooses or bool(choices) or type(row.get("answer")) is int  # a reply would be a text
    shown = None if row.get("answer") is None or found.passages else _named(row["answer"], chooses=chooses)
    sample = EvalSample(
        id=sample_id(row.get("id")),
        epoch=1,
        input=row["prompt"] if isinstance(row.get("prompt"), str) else asked,
        choices=choices or None,
        target=_target(row.get("target"), chooses=chooses),
        messages=[*asked, *([output.choices[0].message] if output.choices else [])],
        output=output,
        scores={} if failed else _scores(row, forms, shown or None),
        metadata={name: value for name, value in row.items() if name not in _SHOWN and not _is_reply(name, value)},
        error=None if not failed else EvalError(message=str(failed), traceback="", traceback_ansi=""),
        uuid=mark,
    )
    sample.events = _events(sample, asked, when)
    return sample


def _is_reply(name: str, value: Any) -> bool:
    """Whether this is a reply as text, which is the output; likelihoods and rankings say more than it does."""
    return name == "response" and isinstance(value, str)


def sample_id(found: Any) -> str:
    """Return an id that can name a file of the log; one that is not the sample's own text ends with its digest."""
    text = written(found)
    shown = one_line(text)[:_MAX_ID]
    return shown if shown == text else f"{shown}~{hashlib.blake2b(_bytes(text), digest_size=8).hexdigest()}"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# ---- messages ----


def _messages(prompt: Any, mark: str) -> list[ChatMessage]:
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser

    classes = {"system": ChatMessageSystem, "assistant": ChatMessageAssistant}
    if prompt is None:
        return []
    messages: list[ChatMessage] = []
    for at, each in enumerate(prompt if isinstance(prompt, list) else [prompt]):
        turn = each if isinstance(each, dict) else {"content": each}
        kind = classes.get(written(turn.get("role")), ChatMessageUser)
        messages.append(kind(id=f"{mark}-{at}", content=written(shown_content(turn.get("content")))))
    return messages


def _output(row: ResultRow, found: ReadResponse, mark: str) -> ModelOutput:
    """Return the replies; for measured options the one that was chosen, for a search the passages that were found."""
    from inspect_ai.model import ChatCompletionChoice, ChatMessageAssistant, ModelOutput

    answer, options = row.get("answer"), _choices(row, found)
    texts = list(found.replies)
    if not texts and type(answer) is int and 0 <= answer < len(options):
        texts = [options[answer]]
    if not texts and found.passages:
        texts = ["\n".join(f"{hit.get('id')}\t{hit.get('score')}" for hit in found.passages)]
    reasons = row.get("stop_reason", "stop")
    choices = []
    for at, text in enumerate(texts):
        reason = reasons[at] if isinstance(reasons, list) and len(reasons) == len(texts) else reasons
        message = ChatMessageAssistant(id=f"{mark}-reply-{at}", content=_content(text, found.reasoning, at, len(texts)))
        tokens = found.reply_tokens[at] if found.replies else None
        ended = _STOP_REASONS.get(str(reason), "unknown")
        choices.append(ChatCompletionChoice(message=message, stop_reason=ended, logprobs=_logprobs(tokens)))
    return ModelOutput(model=written(row.get("model")), choices=choices, completion=texts[0] if texts else "")


def _logprobs(tokens: TokenLogprobs | None) -> Logprobs | None:
    """Return the tokens of a reply as Inspect has them."""
    from inspect_ai.model import Logprob, Logprobs

    return None if tokens is None else Logprobs(content=[Logprob(token=text, logprob=value) for text, value in tokens])


def _events(sample: EvalSample, asked: list[ChatMessage], when: datetime) -> list[Any]:
    """Return what the viewer shows as the transcript: the question with its reply, and the first score or the error."""
    from inspect_ai.event import ErrorEvent, ModelEvent, ScoreEvent
    from inspect_ai.model import GenerateConfig

    model = ModelEvent(
        uuid=f"{sample.uuid}-model",
        timestamp=when,
        working_start=0,
        model=sample.output.model,
        input=asked,
        tools=[],
        tool_choice="none",
        config=GenerateConfig(),
        output=sample.output,
    )
    if sample.error is not None:
        return [model, ErrorEvent(uuid=f"{sample.uuid}-error", timestamp=when, working_start=0, error=sample.error)]
    first = next(iter((sample.scores or {}).items()), None)
    if first is None:
        return [model]
    scored = {"score": first[1], "scorer": first[0], "target": sample.target}
    return [model, ScoreEvent(uuid=f"{sample.uuid}-score", timestamp=when, working_start=0, **scored)]


def _content(text: str, reasoning: Sequence[str], at: int, count: int) -> Any:
    """Return a reply with the thoughts before it, if there are some for each reply."""
    from inspect_ai.model import ContentReasoning, ContentText

    if len(reasoning) != count or not reasoning[at]:
        return text
    return [ContentReasoning(reasoning=reasoning[at]), ContentText(text=text)]


# ---- scores ----


def _choices(row: ResultRow, found: ReadResponse) -> list[str]:
    """Return the texts of the options: those that the row lists, or those that were measured."""
    listed = row.get("options")
    if isinstance(listed, list) and listed and all(isinstance(each, str) for each in listed):
        return listed
    return list(found.options.texts)


def _target(target: Any, *, chooses: bool) -> str | list[str]:
    if isinstance(target, list):
        return [_named(each, chooses=chooses) for each in target]
    return "" if target is None else _named(target, chooses=chooses)


def _named(value: Any, *, chooses: bool) -> str:
    """Return an answer or a target; the number of an option as the letter that Inspect shows beside it.

    An answer in which no option was found is no text.
    """
    if not chooses or type(value) is not int:
        return written(value)
    return "" if value == UNANSWERED else option_letter(value) if 0 <= value < _MAX_OPTIONS else str(value)


def _scores(row: ResultRow, forms: Mapping[str, ScoreForm], answer: str | None) -> dict[str, Score]:
    from inspect_ai.scorer import Score

    found = row.get("scores")
    scores = {}
    for name, score in found.items() if isinstance(found, dict) else ():
        if (known := finite(score)) is not None:
            form = forms.get(name, ScoreForm())
            scores[form.label or name] = Score(
                value=form.value(known), answer=answer, explanation=_explanation(row, form.rule)
            )
    return scores


def _explanation(row: ResultRow, ranked_by: str) -> str | None:
    """Say by which rule the answer was read or chosen, and what a judge said."""
    rule, judge = row.get("rule"), row.get("judge")
    parts = [f"The answer was read by the rule {written(rule)}."] if rule else []
    parts += [f"The option was chosen by {ranked_by}."] if ranked_by else []
    if isinstance(judge, list):
        parts += [f"The judge: {written(each.get('response'))}" for each in judge if isinstance(each, dict)]
    return "\n\n".join(parts) or None
