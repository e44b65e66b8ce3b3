"""The parts of a sample's response by their kind: replies, measured options, a measured text, passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kshot.core.records import ResultRow
from kshot.report.sample_texts import parts_of
from kshot.runs.headline import finite


@dataclass(frozen=True, slots=True)
class MeasuredOptions:
    """Options with their log-probabilities; ``contexts``: each is the end of a prompt of its own."""

    texts: Sequence[str] = ()
    logprobs: Sequence[float] = ()
    tokens: Sequence[int | None] = ()
    baselines: Sequence[float] = ()
    contexts: bool = False


@dataclass(frozen=True, slots=True)
class ReadResponse:
    """What a model or search engine gave.

    ``chooses``: the answer is the number of an option. ``ranks``: it is a list of passages, which may be empty.
    """

    replies: Sequence[str] = ()
    reasoning: Sequence[str] = ()
    passages: Sequence[ResultRow] = ()
    rewritten: bool = False
    measured: MeasuredOptions = field(default_factory=MeasuredOptions)
    likelihood: ResultRow | None = None
    chooses: bool = False
    ranks: bool = False


def read_response(row: ResultRow, ranking_type: str) -> ReadResponse:
    """Sort the parts of a response; parts that kshot would not have written are left out."""
    parts = list(parts_of(row.get("response")))
    hits = [at for at, part in enumerate(parts) if _is_hit(part)]
    first = hits[0] if hits else 0
    thoughts = row.get("reasoning")
    measured = [part for part in parts if _is_option(part)]
    answer = row.get("answer")
    document = isinstance(answer, dict) and "nll" in answer and len(measured) == 1
    options = MeasuredOptions() if document else _options(measured, row.get("prompt"))
    replies = [part for part in parts[first:] if isinstance(part, str)]
    return ReadResponse(
        replies,
        [text for text in parts_of(thoughts) if isinstance(text, str)],
        [parts[at] for at in hits],
        rewritten=any(isinstance(part, str) for part in parts[:first]),
        measured=options,
        likelihood=measured[0] if document else None,
        chooses=bool(options.texts) or bool(ranking_type),
        ranks=isinstance(answer, list) and not replies and not measured and bool(hits or not answer),
    )


def is_number(value: Any) -> bool:
    """Whether a value can be written as a decimal number; infinity counts, an integer beyond all floats does not."""
    return isinstance(value, float) or finite(value) is not None


def _is_hit(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("id"), str) and is_number(part.get("score"))


def _is_option(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str) and is_number(part.get("logprob"))


def _options(measured: Sequence[ResultRow], prompt: Any) -> MeasuredOptions:
    """Return the options. An answer after several contexts is an option each; a baseline stands beside its option."""
    own = [each for each in measured if "prompt" not in each]
    others = [each for each in measured if "prompt" in each]
    if others and len({each["text"] for each in measured}) == 1:
        texts = [f"{_end(each.get('prompt', prompt))}{each['text']}" for each in measured]
        return _made(texts, measured, contexts=True)
    baselines = [each["logprob"] for each in others] if len(others) == len(own) else []
    pairs = list(zip(own, own[len(own) // 2 :], strict=False))[: len(own) // 2]
    if len(own) % 2 == 0 and pairs and all(a["text"] != b["text"] == a["text"].strip() for a, b in pairs):
        likelier = [max(pair, key=lambda each: each["logprob"]) for pair in pairs]
        return _made([each["text"] for _, each in pairs], likelier)  # letters with a space before them, and without
    return _made([each["text"].strip() for each in own], own, baselines)


def _made(
    texts: Sequence[str], measured: Sequence[ResultRow], baselines: Sequence[float] = (), *, contexts: bool = False
) -> MeasuredOptions:
    tokens = [each.get("tokens") for each in measured]
    return MeasuredOptions(
        texts,
        [each["logprob"] for each in measured],
        [count if isinstance(count, int) else None for count in tokens],
        baselines,
        contexts,
    )


def _end(prompt: Any) -> str:
    """Return the last message of a conversation, or the text of a prompt."""
    last = prompt[-1] if isinstance(prompt, list) and prompt else prompt
    content = last.get("content") if isinstance(last, dict) else last
    return content if isinstance(content, str) else ""
