"""How a document is put to a model: the likelihoods of texts, of a document by itself, or replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from kshot.core.errors import DataError
from kshot.core.records import (
    Generate,
    Likelihood,
    Loglik,
    Message,
    Prompt,
    RequestGenerator,
    RollingStart,
    Sample,
    ask,
)
from kshot.core.settings import GenerationSettings
from kshot.lmeval.files import TaskConfig

DEFAULT_MAX_TOKENS = 256
"""lm-eval's limit where a task names none."""
RequestForms: TypeAlias = Sequence[Mapping[str, Any]]
"""The requests of one document, as ``lmeval.requests`` gives them."""
DocumentMethod: TypeAlias = Callable[[Sample, RequestForms], RequestGenerator]
"""Asks about one document; the answer has, for each request, the responses in lm-eval's form."""
_NUMBERS = ("top_p", "top_k", "repetition_penalty", "no_repeat_ngram_size")
"""Options of a generation that kshot passes on beside those of the common form."""
_WHOLE_NUMBERS = ("top_k", "no_repeat_ngram_size")


def likelihood_method(config: TaskConfig) -> DocumentMethod:
    """Ask for the likelihood of each text after its context; texts after one context share a request."""

    def method(sample: Sample, forms: RequestForms) -> RequestGenerator:  # noqa: ARG001 - a method sees its sample
        places: dict[tuple[Prompt, RollingStart | None], list[int]] = {}
        for place, form in enumerate(forms):
            places.setdefault(_before(form), []).append(place)
        replies = yield from ask(
            *(
                Loglik(prompt, tuple(str(forms[place]["continuation"]) for place in own), rolling=start)
                for (prompt, start), own in places.items()
            )
        )
        found: list[Any] = [None] * len(forms)
        for own, reply in zip(places.values(), replies, strict=True):
            for place, each in zip(own, reply.likelihoods, strict=True):
                found[place] = [_pair(each)] * config.repeats
        return found

    return method


def _before(form: Mapping[str, Any]) -> tuple[Prompt, RollingStart | None]:
    """Return what stands before a text; a first token is predicted after BOS, else EOS, as in lm-eval."""
    if form["type"] == "loglikelihood_rolling":
        return Prompt(), "lm-eval"
    if not form["context"]:
        return Prompt(), "auto"
    return replace(prompt_of(form["context"]), rules="lm-eval"), None


def _pair(found: Likelihood) -> tuple[float, bool | None]:
    return (found.logprob, found.greedy)


def prompt_of(context: Any) -> Prompt:
    """Return a context as a record: a text, or turns, which become a text by lm-eval's rules."""
    if isinstance(context, str):
        return Prompt(context)
    messages = tuple(Message(turn["role"], str(turn["content"])) for turn in context)
    return Prompt(messages=messages, opened=bool(messages) and messages[-1].role == "assistant", rules="lm-eval")


def generation_method(config: TaskConfig, settings: GenerationSettings, seed: int) -> DocumentMethod:
    """Ask for as many replies as the task has ``repeats``; without sampling they are all the same, and asked once."""
    given = settings.sampling()

    def method(sample: Sample, forms: RequestForms) -> RequestGenerator:  # noqa: ARG001 - a method sees its sample
        (form,) = forms
        options = sampling(config, form, given, seed)
        times = config.repeats if options["temperature"] else 1
        prompt = prompt_of(form["context"])
        replies = yield from ask(*(Generate(prompt, replica=number, **options) for number in range(times)))
        texts = [reply.text for reply in replies]
        return [texts if len(texts) == config.repeats else texts * config.repeats]

    return method


def sampling(config: TaskConfig, form: Mapping[str, Any], of_run: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return the fields of ``Generate``: those of the task, or the user's (``of_run``)."""
    given = config.generation_kwargs or {}
    chosen: dict[str, Any] = {
        "max_tokens": form["max_gen_toks"] or DEFAULT_MAX_TOKENS,
        "temperature": form["temperature"],
        "stop": tuple(form["until"]),
        **{name: _number(given[name], name, config) for name in _NUMBERS if given.get(name) is not None},
    }
    chosen |= of_run
    return {**chosen, "seed": seed} if chosen["temperature"] else chosen


def _number(value: Any, name: str, config: TaskConfig) -> float:
    try:
        return int(value) if name in _WHOLE_NUMBERS else float(value)
    except (TypeError, ValueError) as exc:
        where = config.where("generation_kwargs")
        raise DataError(f"{name} of generation_kwargs is {value!r:.60}, which is no number", where=where) from exc
