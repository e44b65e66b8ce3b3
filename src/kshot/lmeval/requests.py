"""The requests of a task, in the plain form that ``lmeval.md`` gives: one dict for each, in lm-eval's order.

The examples before each document are drawn as lm-eval draws them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, TypeAlias

from kshot.core.errors import DataError
from kshot.core.records import Row
from kshot.lmeval.documents import Documents
from kshot.lmeval.files import FunctionRef, TaskConfig
from kshot.lmeval.metrics import MUTUAL_INFO


@dataclass(frozen=True, slots=True)
class ContextMessage:
    """One message of a context; the delimiter follows it where the context is plain text."""

    role: Literal["system", "user", "assistant"]
    content: str
    delimiter: str = ""


@dataclass(frozen=True, slots=True)
class Delimiters:
    """What stands between a question and its answer, and after an answer."""

    target: str
    fewshot: str


def joined(first: str | None, second: str | None, delimiter: str) -> str:
    """Return two texts with a delimiter between them, unless there is white space where they meet."""
    if not first or not second:
        return first or second or ""
    return first + second if first[-1].isspace() or second[0].isspace() else first + delimiter + second


def turn(
    question: Any,
    delimiters: Delimiters,
    *,
    where: str,
    answer: Any = None,
    choices: Sequence[Any] | None = None,
    prefix: str | None = None,
) -> list[ContextMessage]:
    """Return the messages of a question, with its answer or with what the reply begins with, if there is either."""
    if not isinstance(question, str):
        raise DataError(f"the text of a document must be a text; it is {question!r:.80}", where=where)
    if prefix and not isinstance(prefix, str):
        raise DataError(f"gen_prefix must be a text; it is {prefix!r:.80}", where=where)
    answered = answer is not None and answer != ""
    apart = answered if not prefix else question != "" and not (question[-1].isspace() or prefix[0].isspace())
    messages = [ContextMessage("user", question, delimiters.target if apart else "")]
    if answered:
        text = joined(prefix, _answer_text(answer, choices, where), " ")
        messages.append(ContextMessage("assistant", text, delimiters.fewshot))
    elif prefix:
        messages.append(ContextMessage("assistant", prefix))
    return messages


def _answer_text(answer: Any, choices: Sequence[Any] | None, where: str) -> str:
    try:
        text = choices[answer] if choices and isinstance(answer, int) else answer
        text = answer[0] if isinstance(answer, list) else text
    except IndexError:
        raise DataError(f"the answer of an example is {answer!r:.80}, which chooses nothing", where=where) from None
    if not isinstance(text, str):
        what = f"the answer of an example must be a text; it is {answer!r:.80}"
        raise DataError(what, where=where, hint="Such a task cannot show examples: use num_fewshot 0.")
    return text


def plain_text(messages: Sequence[ContextMessage]) -> str:
    """Return a context as plain text."""
    return "".join(message.content + message.delimiter for message in messages)


def chat_turns(messages: Sequence[ContextMessage], *, multiturn: bool) -> list[dict[str, str]]:
    """Return a context as turns of a chat; not ``multiturn``: the examples are part of the one user message."""
    if not multiturn:
        messages = _single_turn(messages)
    return [{"role": message.role, "content": message.content} for message in messages]


def _single_turn(messages: Sequence[ContextMessage]) -> list[ContextMessage]:
    head = [message for message in messages[:1] if message.role == "system"]
    rest = list(messages[len(head) :])
    tail = [rest.pop()] if rest[-1].role == "assistant" else []
    rest[-1] = replace(rest[-1], delimiter="")
    return [*head, ContextMessage("user", plain_text(rest)), *tail]


SEED = 1234
"""lm-eval's seed of the examples."""


def examples_before(documents: Documents, count: int) -> list[list[ContextMessage]]:
    """Return the messages of the examples before each document."""
    if count == 0:
        return [[] for _ in documents.docs]
    pool, chosen = _chosen(documents, count)
    used = sorted({number for numbers in chosen for number in numbers})
    shown = dict(zip(used, _shown(documents, [pool[number] for number in used]), strict=True))
    return [[message for number in numbers for message in shown[number]] for numbers in chosen]


# ---- drawing ----


def _chosen(documents: Documents, count: int) -> tuple[Sequence[Row], list[list[int]]]:
    """Return a list of documents, and the numbers of those that are examples for each evaluated document."""
    config = documents.config
    pool = documents.splits.pool
    apart = config.fewshot_config.split == config.test_split  # the examples come from what is evaluated
    excluded: list[Row | None] = list(documents.docs) if apart else [None] * len(documents.docs)
    sampler = config.fewshot_config.sampler
    if isinstance(sampler, FunctionRef):
        drawn = documents.functions.sampled(sampler, pool, excluded, count, SEED)
        numbers = iter(range(count * len(drawn)))
        return [row for rows in drawn for row in rows], [[next(numbers) for _ in rows] for rows in drawn]
    if sampler == "first_n":
        return pool, [_first(pool, doc, count, config) for doc in excluded]
    if sampler != "default":
        hint = "Use default, first_n or a !function."
        raise DataError(f"there is no sampler {sampler!r}", where=config.where("fewshot_config"), hint=hint)
    generator = random.Random(SEED)  # noqa: S311 - lm-eval's stream
    return pool, [_drawn(pool, doc, count, generator, config) for doc in excluded]


def _first(pool: Sequence[Row], doc: Row | None, count: int, config: TaskConfig) -> list[int]:
    others = (number for number, each in enumerate(pool) if doc is None or each != doc)
    found = list(islice(others, count))
    if len(found) < count:
        raise _too_few(len(found), count, config)
    return found


def _drawn(pool: Sequence[Row], doc: Row | None, count: int, generator: random.Random, config: TaskConfig) -> list[int]:
    """Draw examples; one more where the document may be among them, which is then left out."""
    wanted = count + 1 if doc else count
    if wanted > len(pool):
        raise _too_few(len(pool), wanted, config)
    drawn = generator.sample(range(len(pool)), wanted)
    if not doc:
        return drawn
    found = [number for number in drawn if pool[number] != doc][:count]
    if len(found) < count:  # the pool has the document more than once
        others = [number for number, each in enumerate(pool) if each != doc]
        if len(others) < count:
            raise _too_few(len(others), count, config)
        return generator.sample(others, count)
    return found


def _too_few(there: int, wanted: int, config: TaskConfig) -> DataError:
    what = f"{wanted} documents are wanted for examples, and there are {there}"
    return DataError(what, where=str(config.path), hint="Lower num_fewshot, or name a larger fewshot_split.")


# ---- showing ----


def _shown(documents: Documents, examples: list[Row]) -> list[list[ContextMessage]]:
    """Return the messages of each example."""
    shot, fields = documents.config.fewshot_config, documents.fields
    texts = fields.texts(examples, shot.doc_to_text)
    choices: list[Any] = [None] * len(examples)
    if shot.doc_to_choice:
        choices = fields.choices(examples, shot.doc_to_choice)
    targets = fields.targets(examples, shot.doc_to_target)
    prefixes = fields.resolved(examples, shot.gen_prefix, "gen_prefix")
    delimiters = Delimiters(shot.target_delimiter or "", shot.fewshot_delimiter or "")
    where = str(documents.config.path)
    found = []
    for text, options, target, prefix in zip(texts, choices, targets, prefixes, strict=True):
        if documents.multiple_inputs:
            question = chosen_option(options, text, where)
            found.append(turn(question, delimiters, where=where, answer=target, prefix=prefix))
        else:
            found.append(turn(text, delimiters, where=where, answer=target, choices=options, prefix=prefix))
    return found


def chosen_option(options: Any, number: Any, where: str) -> Any:
    """Return the choice of a number that a text stands for."""
    try:
        return options[number]
    except (TypeError, IndexError, KeyError):
        raise DataError(f"the text of a document is {number!r:.80}, which chooses nothing", where=where) from None


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
    questions = documents.choices if documents.multiple_inputs else [[text] for text in documents.texts]
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


def request_counts(documents: Documents) -> list[int]:
    """Return how many requests each document has; one that is repeated counts once."""
    if documents.config.output_type != "multiple_choice":
        return [1] * len(documents.docs)
    times = 2 if _asks_choices_alone(documents.config) else 1
    return [times * len(choices) for choices in documents.choices]


def doc_requests(
    documents: Documents, count: int, chat: ChatForm | None = None, *, system: str | None = None
) -> Iterator[list[RequestForm]]:
    """Yield the requests of each document; one that is repeated stands once."""
    config = documents.config
    if config.output_type == "loglikelihood_rolling":
        for row, target in enumerate(documents.targets):
            text = _continuation(target, config, row)
            yield [{"type": "loglikelihood_rolling", "context": "", "continuation": text}]
        return
    for row, context in enumerate(contexts_of(documents, count, system=system)):
        texts = [_written(messages, context.prefix, chat) for messages in context.contexts]
        if config.output_type == "multiple_choice":
            yield list(_choice_requests(documents, row, texts, chat))
        elif config.output_type == "loglikelihood":
            target = _continuation(documents.targets[row], config, row)
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
    config, choices = documents.config, documents.choices[row]
    delimiter = target_delimiter(config, chat=chat is not None)
    if documents.multiple_inputs:
        target = documents.targets[row]
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
