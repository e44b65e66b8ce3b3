"""How a config's inferencer puts a row to a model: generation, perplexity, option probability, conversation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kshot.configs.entry import Entry
from kshot.configs.rendering import Kind, Rendered
from kshot.core.errors import DataError
from kshot.core.records import Generate, Message, Prompt, RequestGenerator, Sample, ask
from kshot.methods.likelihood import likelihoods
from kshot.settings import Settings

DEFAULT_TOKENS = 512
_KWARGS = ("temperature", "top_p", "top_k", "repetition_penalty", "no_repeat_ngram_size")
Method = Callable[[Sample, Any], RequestGenerator]
Extract = Callable[[Sample, Any], Any]


def sampling(entry: Entry, settings: Settings, model_cfg: Mapping[str, Any], times: int) -> tuple[dict[str, Any], str]:
    """Give the fields of ``Generate``, and a note: the user wins over the inferencer, which wins over the model."""
    asks = entry.inferencer
    kwargs: dict[str, Any] = {}
    for held in (model_cfg.get("generation_kwargs"), asks.get("generation_kwargs")):
        kwargs.update(held if isinstance(held, Mapping) else {})
    chosen: dict[str, Any] = {name: kwargs[name] for name in _KWARGS if kwargs.get(name) is not None}
    if kwargs.get("do_sample") is False:
        chosen["temperature"] = 0.0
    longest = next((n for n in (asks.get("max_out_len"), model_cfg.get("max_out_len")) if n), DEFAULT_TOKENS)
    chosen["max_tokens"] = int(longest)
    stop = [*(asks.get("stopping_criteria") or ()), *(model_cfg.get("stop_words") or ())]
    if stop:
        chosen["stop"] = tuple(dict.fromkeys(str(each) for each in stop))
    for name in ("max_tokens", "temperature", "stop", "top_p", "top_k"):
        if getattr(settings, name) is not None:
            chosen[name] = getattr(settings, name)
    note = ""
    if times > 1 and not chosen.get("temperature"):
        chosen["temperature"] = 1.0
        note = f"{entry.abbr}: temperature 0 becomes 1, since {times} replies are sampled"
    if chosen.get("temperature"):
        chosen["seed"] = settings.seed
    return chosen, note


def as_prompt(shown: Any, system: str | None = None) -> Prompt:
    """Make the record of a rendered prompt: text, or messages with the user's system message first."""
    if isinstance(shown, str):
        return Prompt(shown)
    lead = (Message("system", system),) if system and not any(m["role"] == "system" for m in shown) else ()
    for message in shown:
        if not isinstance(message["content"], str):
            raise DataError("the prompt has parts that are not text, which no backend takes yet")
    return Prompt(messages=(*lead, *(Message(m["role"], m["content"]) for m in shown)))


def perplexity(labels: Sequence[Any], extra: int) -> Method:
    """Choose the label whose whole prompt has the least loss per token scored (plus ``extra``); the first on a tie."""

    def method(sample: Sample, shown: Sequence[tuple[Prompt, str]]) -> RequestGenerator:  # noqa: ARG001 - a method sees it
        pairs = yield from likelihoods(shown)
        losses = [nll / (tokens + extra) for nll, tokens in pairs]
        return labels[losses.index(min(losses))]

    return method


def scored_prompt(shown: Any, system: str | None, where: str) -> tuple[Prompt, str]:
    """Give context and text of one label's prompt: all of a text; of a chat, the last reply after the rest."""
    if isinstance(shown, str):
        return Prompt(""), shown
    if not shown or shown[-1]["role"] != "assistant":
        raise DataError(
            "a chat model cannot score this label: the prompt does not end with a BOT item",
            where=where,
            hint="Use --model-type base.",
        )
    return as_prompt(shown[:-1], system), str(shown[-1]["content"])


def likelihood(labels: Sequence[Any]) -> Method:
    """Choose the label whose answer, after the separator, is the most probable; the first on a tie."""

    def method(sample: Sample, shown: Sequence[tuple[Prompt, str]]) -> RequestGenerator:  # noqa: ARG001 - a method sees it
        pairs = yield from likelihoods(shown)
        losses = [nll for nll, _ in pairs]
        return labels[losses.index(min(losses))]

    return method


def cut(text: Any, token: str | None, where: str) -> tuple[Prompt, str]:
    """Cut a label's prompt at the separator token: what is given, and what is weighed."""
    if not isinstance(text, str) or not token or token not in text:
        raise DataError(
            "LLInferencer finds no separator before the answer",
            where=where,
            hint="Use string templates with a sep_token in them, or PPLInferencer.",
        )
    before, _, after = text.partition(token)
    return Prompt(before), after.replace(token, "")


def options_of(entry: Entry, row: Mapping[str, Any]) -> list[str]:
    """Give what CLPInferencer weighs: ``choices`` of the inferencer or of the row."""
    found = entry.inferencer.get("choices") or row.get("choices") or row.get("labels")
    if not isinstance(found, (list, tuple)) or not found:
        raise DataError(
            "CLPInferencer finds no options",
            where=entry.place,
            hint="Give the rows a column 'choices', or the inferencer choices=['A', 'B'].",
        )
    return [str(each) for each in found]


def probabilities(entry: Entry, *, chances: bool) -> Method:
    """Weigh the row's options after the prompt: their probabilities among each other, or the best one."""

    def method(sample: Sample, prompt: Prompt) -> RequestGenerator:
        options = options_of(entry, sample.fields)
        lead = "" if prompt.messages or prompt.text[-1:].isspace() else " "
        pairs = yield from likelihoods([(prompt, lead + option) for option in options])
        logs = [-nll for nll, _ in pairs]
        if not chances:
            return options[logs.index(max(logs))]
        parts = [math.exp(log - max(logs)) for log in logs]
        return [part / sum(parts) for part in parts]

    return method


def conversation(rendered: Rendered, extract: Extract, options: Mapping[str, Any], kind: Kind, meta: Any) -> Method:
    """Ask turn after turn, each prompt made with the replies so far; the answer is all replies."""

    def method(sample: Sample, shown: tuple[int, str | None]) -> RequestGenerator:
        index, system = shown
        replies: list[str] = []
        for turn in range(rendered.turn_count(index)):
            prompt = as_prompt(rendered.turn(index, turn, replies, kind, meta), system)
            (reply,) = yield from ask(Generate(prompt, **options))
            replies.append(reply.text)
        return extract(sample, tuple(replies))

    return method
