"""The requests of a task, in the plain form that ``lmeval.md`` gives: one dict for each, in lm-eval's order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from kshot.core.errors import DataError
from kshot.lmeval.context import ContextMessage, Delimiters, chat_turns, joined, plain_text, turn
from kshot.lmeval.documents import Documents
from kshot.lmeval.examples import examples_before
from kshot.lmeval.files import TaskConfig
from kshot.lmeval.metrics import MUTUAL_INFO

RequestForm: TypeAlias = dict[str, Any]
"""One request: ``type``, ``context`` and what the type needs."""
ChatTemplate: TypeAlias = Callable[[list[dict[str, str]], bool], str]
"""Writes turns (``role``, ``content``) as a model reads them; True: it ends with the head of an assistant's turn."""
_TOKEN_LIMITS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")


@dataclass(frozen=True, slots=True)
class ChatForm:
    """How contexts are written for chat models."""

    template: ChatTemplate | None
    """None: a context stays a list of turns."""
    multiturn: bool = True
    """Whether examples are turns of their own; else they are part of the one user message."""


@dataclass(frozen=True, slots=True)
class DocContext:
    """What stands before the reply to one document."""

    contexts: tuple[list[ContextMessage], ...]
    """One list of messages; one for each choice where the choices stand in the context."""
    prefix: str | None
    """What the reply begins with."""


def shots_of(config: TaskConfig, num_fewshot: int | None) -> int:
    """Return how many examples a task shows: the file's number, unless one is given and the file does not say 0."""
    if num_fewshot is None or config.num_fewshot == 0:
        return config.num_fewshot or 0
    if num_fewshot < 0:
        raise DataError(f"num_fewshot is {num_fewshot}; it must be 0 or more", where=str(config.path))
    return num_fewshot


def contexts_of(documents: Documents, count: int, *, system: str | None = None) -> Iterator[DocContext]:
    """Yield the context of each document; ``system``: an instruction before the task's description."""
    config, docs = documents.config, documents.docs
    where = str(config.path)
    descriptions = documents.fields.resolved(docs, config.description, "description")
    prefixes = documents.fields.prefixes(docs)
    examples = examples_before(documents, count)
    questions = documents.choices() if documents.multiple_inputs else [[text] for text in documents.texts()]
    delimiters = Delimiters("" if documents.multiple_inputs else config.target_delimiter, "")
    for row, before in enumerate(examples):
        head = joined(system, descriptions[row], config.fewshot_delimiter)
        start = [ContextMessage("system", head), *before] if head else before
        yield DocContext(
            tuple(
                [*start, *turn(question, delimiters, where=f"{where}, row {row}", prefix=prefixes[row])]
                for question in questions[row]
            ),
            prefixes[row],
        )


def document_requests(
    documents: Documents, count: int, *, chat: bool = False, multiturn: bool = True, system: str | None = None
) -> list[list[RequestForm]]:
    """Return the requests of each document; ``chat``: their contexts are turns (``role``, ``content``)."""
    return list(doc_requests(documents, count, ChatForm(None, multiturn) if chat else None, system=system))


def request_counts(documents: Documents) -> list[int]:
    """Return how many requests each document has; one that is repeated counts once."""
    if documents.config.output_type != "multiple_choice":
        return [1] * len(documents.docs)
    times = 2 if _asks_choices_alone(documents.config) else 1
    return [times * len(choices) for choices in documents.choices()]


def doc_requests(
    documents: Documents, count: int, chat: ChatForm | None = None, *, system: str | None = None
) -> Iterator[list[RequestForm]]:
    """Yield the requests of each document; one that is repeated stands once."""
    config = documents.config
    if config.output_type == "loglikelihood_rolling":
        for row, target in enumerate(documents.targets()):
            text = _continuation(target, config, row)
            yield [{"type": "loglikelihood_rolling", "context": "", "continuation": text}]
        return
    for row, context in enumerate(contexts_of(documents, count, system=system)):
        texts = [_written(messages, context.prefix, chat) for messages in context.contexts]
        if config.output_type == "multiple_choice":
            yield list(_choice_requests(documents, row, texts, chat))
        elif config.output_type == "loglikelihood":
            target = _continuation(documents.targets()[row], config, row)
            yield [_likelihood(text, target) for text in texts[:1]]
        else:
            form = generation_form(config.generation_kwargs or {}, config.where("generation_kwargs"))
            yield [{"type": "generate_until", "context": texts[0], **form}]


def _written(messages: Sequence[ContextMessage], prefix: str | None, chat: ChatForm | None) -> Any:
    if chat is None:
        return plain_text(messages)
    turns = chat_turns(messages, multiturn=chat.multiturn)
    return turns if chat.template is None else chat.template(turns, not prefix)


def _choice_requests(
    documents: Documents, row: int, texts: Sequence[Any], chat: ChatForm | None
) -> Iterator[RequestForm]:
    config, choices = documents.config, documents.choices()[row]
    delimiter = target_delimiter(config, chat=chat is not None)
    if documents.multiple_inputs:
        target = documents.targets()[row]
        yield from (_likelihood(text, f"{delimiter}{target}") for text in texts)
    else:
        yield from (_likelihood(texts[0], f"{delimiter}{choice}") for choice in choices)
    if _asks_choices_alone(config):
        yield from (_likelihood("", f"{delimiter}{choice}") for choice in choices)


def _asks_choices_alone(config: TaskConfig) -> bool:
    return any(each.get("metric") == MUTUAL_INFO for each in config.metric_list or ())


def target_delimiter(config: TaskConfig, *, chat: bool) -> str:
    """Return what heads a choice; a chat has its own mark there, unless the reply begins with a text."""
    if not chat:
        return config.target_delimiter
    prefix = config.gen_prefix
    return config.target_delimiter if prefix and not str(prefix)[-1].isspace() else ""


def _likelihood(context: Any, continuation: str) -> RequestForm:
    return {"type": "loglikelihood", "context": context, "continuation": continuation}


def _continuation(target: Any, config: TaskConfig, row: int) -> str:
    if not isinstance(target, str):
        what = f"the target of row {row} must be a text; it is {target!r:.80}"
        raise DataError(what, where=config.where("doc_to_target"))
    return target


def generation_form(options: Mapping[str, Any], where: str) -> RequestForm:
    """Return the options of a generation that every model knows."""
    until = options.get("until") or []
    most = next((options[name] for name in _TOKEN_LIMITS if options.get(name) is not None), None)
    try:
        temperature = float(options.get("temperature") or 0.0)
        limit = None if most is None else int(most)
        stops = [until] if isinstance(until, str) else [str(each) for each in until]
    except (TypeError, ValueError, OverflowError) as exc:
        raise DataError(f"generation_kwargs cannot be read: {exc}", where=where) from exc
    if not 0 <= temperature < math.inf:
        raise DataError(f"temperature of generation_kwargs is {temperature}; it must be 0 or more", where=where)
    if limit is not None and limit < 0:
        raise DataError(f"generation_kwargs allow {limit} tokens; it must be 0 or more", where=where)
    do_sample = options.get("do_sample")
    sampled = temperature > 0 if do_sample is None else bool(do_sample)
    return {
        "until": stops,
        "max_gen_toks": limit,
        "do_sample": sampled,
        "temperature": temperature if sampled else 0.0,
    }
