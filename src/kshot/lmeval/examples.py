"""Which examples stand before each document, drawn as lm-eval draws them, and the messages that they become."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from kshot.core.errors import DataError
from kshot.core.records import Row
from kshot.lmeval.context import ContextMessage, Delimiters, turn
from kshot.lmeval.documents import Documents
from kshot.lmeval.files import FunctionRef, TaskConfig

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
    found: list[int] = []
    for number, each in enumerate(pool):
        if len(found) == count:
            break
        if doc is None or each != doc:
            found.append(number)
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
    delimiters = Delimiters(_text(shot.target_delimiter), _text(shot.fewshot_delimiter))
    where = str(documents.config.path)
    found = []
    for text, options, target, prefix in zip(texts, choices, targets, prefixes, strict=True):
        if documents.multiple_inputs:
            question = chosen_option(options, text, where)
            found.append(turn(question, delimiters, where=where, answer=target, prefix=prefix))
        else:
            found.append(turn(text, delimiters, where=where, answer=target, choices=options, prefix=prefix))
    return found


def _text(delimiter: str | None) -> str:
    return "" if delimiter is None else delimiter


def chosen_option(options: Any, number: Any, where: str) -> Any:
    """Return the choice of a number that a text stands for."""
    try:
        return options[number]
    except (TypeError, IndexError, KeyError):
        raise DataError(f"the text of a document is {number!r:.80}, which chooses nothing", where=where) from None
