"""The parts of a sample's response by their kind: replies, measured options, a measured text, passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kshot.core.records import ResultRow, TokenLogprobs
from kshot.report.sample_texts import option_letter, parts_of
from kshot.runs.headline import finite

_TOKENS = ([str, float], [str, int])


@dataclass(frozen=True, slots=True)
class SampleOptions:
    """Options, with their log-probabilities where those were asked; ``contexts``: each is the end of its own prompt."""

    texts: Sequence[str] = ()
    logprobs: Sequence[float] = ()
    tokens: Sequence[int | None] = ()
    baselines: Sequence[float] = ()
    contexts: bool = False
    token_logprobs: Sequence[TokenLogprobs | None] = ()


@dataclass(frozen=True, slots=True)
class ReadResponse:
    """What a model or search engine gave.

    ``chooses``: the answer is the number of an option. ``ranks``: it is a list of passages, which may be empty.
    ``reply_tokens`` are those of each reply, None where they are not known.
    """

    replies: Sequence[str] = ()
    reply_tokens: Sequence[TokenLogprobs | None] = ()
    reasoning: Sequence[str] = ()
    passages: Sequence[ResultRow] = ()
    rewritten: bool = False
    options: SampleOptions = field(default_factory=SampleOptions)
    likelihood: ResultRow | None = None
    likelihood_tokens: TokenLogprobs | None = None
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
    listed = _listed(row.get("options"))
    options = SampleOptions() if document else _options(measured, row.get("prompt"), listed)
    replies = [part for part in parts[first:] if isinstance(part, str)]
    return ReadResponse(
        replies,
        _reply_tokens(row, replies),
        [text for text in parts_of(thoughts) if isinstance(text, str)],
        [parts[at] for at in hits],
        rewritten=any(isinstance(part, str) for part in parts[:first]),
        options=options,
        likelihood=measured[0] if document else None,
        likelihood_tokens=_token_logprobs(measured[0].get("token_logprobs")) if document else None,
        chooses=bool(ranking_type) or bool(options.logprobs) or (bool(options.texts) and _is_choice(row.get("target"))),
        ranks=isinstance(answer, list) and not replies and not measured and bool(hits or not answer),
    )


def is_number(value: Any) -> bool:
    """Whether a value can be written as a decimal number; infinity counts, an integer beyond all floats does not."""
    return isinstance(value, float) or finite(value) is not None


def _is_hit(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("id"), str) and is_number(part.get("score"))


def _is_option(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str) and is_number(part.get("logprob"))


def _reply_tokens(row: ResultRow, replies: Sequence[str]) -> list[TokenLogprobs | None]:
    """Return the tokens of each reply; a row has them in the order of its texts, of which the last are the replies."""
    found = row.get("token_logprobs")
    if isinstance(row.get("response"), str):
        return [_token_logprobs(found)]
    texts = sum(isinstance(part, str) for part in parts_of(row.get("response")))
    known = found if isinstance(found, list) and len(found) == texts else [None] * texts
    return [_token_logprobs(each) for each in known[texts - len(replies) :]]


def _token_logprobs(found: Any) -> TokenLogprobs | None:
    """Return tokens as kshot writes them, pairs of a text and a number; None for anything else."""
    if not isinstance(found, list) or not all(_is_token(each) for each in found):
        return None
    return tuple((text, float(logprob)) for text, logprob in found)


def _is_token(pair: Any) -> bool:
    return isinstance(pair, list) and [type(part) for part in pair] in _TOKENS and finite(pair[1]) is not None


def _listed(found: Any) -> list[str]:
    """Return the texts of the options that a row lists beside its response."""
    return found if isinstance(found, list) and all(isinstance(each, str) for each in found) else []


def _is_choice(target: Any) -> bool:
    """Whether a target is the number of an option, or several."""
    return (
        bool(target) if isinstance(target, list) and all(type(each) is int for each in target) else type(target) is int
    )


def _options(measured: Sequence[ResultRow], prompt: Any, listed: Sequence[str]) -> SampleOptions:
    """Return the options. An answer after several contexts is an option each; a baseline stands beside its option.

    ``listed`` are the texts of options of which only the letters were measured, or nothing.
    """
    own = [each for each in measured if "prompt" not in each]
    others = [each for each in measured if "prompt" in each]
    if others and len({each["text"] for each in measured}) == 1:
        # The baselines follow the options; the row lists as many texts as there are options.
        count = len(listed) if len(measured) == 2 * len(listed) else len(measured)
        texts = [f"{_end(each.get('prompt', prompt))}{each['text']}" for each in measured[:count]]
        return _made(texts, measured[:count], [each["logprob"] for each in measured[count:]], contexts=True)
    baselines = [each["logprob"] for each in others] if len(others) == len(own) else []
    pairs = list(zip(own, own[len(own) // 2 :], strict=False))[: len(own) // 2]
    if len(own) % 2 == 0 and pairs and all(a["text"] != b["text"] == a["text"].strip() for a, b in pairs):
        likelier = [max(pair, key=lambda each: each["logprob"]) for pair in pairs]
        # letters with a space before them, and without
        return _made(_lettered([each["text"] for _, each in pairs], listed), likelier)
    if not own:
        return SampleOptions(_lettered([option_letter(at) for at in range(len(listed))], listed))
    return _made(_lettered([each["text"].strip() for each in own], listed), own, baselines)


def _lettered(letters: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return each letter before the text of its option."""
    if len(letters) != len(texts):
        return list(letters)
    return [f"{letter}. {text.strip()}" for letter, text in zip(letters, texts, strict=True)]


def _made(
    texts: Sequence[str], measured: Sequence[ResultRow], baselines: Sequence[float] = (), *, contexts: bool = False
) -> SampleOptions:
    tokens = [each.get("tokens") for each in measured]
    return SampleOptions(
        texts,
        [each["logprob"] for each in measured],
        [count if isinstance(count, int) else None for count in tokens],
        baselines,
        contexts,
        [_token_logprobs(each.get("token_logprobs")) for each in measured],
    )


def _end(prompt: Any) -> str:
    """Return the last message of a conversation, or the text of a prompt."""
    last = prompt[-1] if isinstance(prompt, list) and prompt else prompt
    content = last.get("content") if isinstance(last, dict) else last
    return content if isinstance(content, str) else ""
