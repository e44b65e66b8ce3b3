"""Token lookup prompts: examples, rule and query line for completion models, messages for instruct models."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias, overload

from kshot.core.errors import DataError, UsageError
from kshot.core.records import Message, Prompt
from kshot.lookup.data import Record, Source, parts, read
from kshot.lookup.generate import VOCAB, generate, group_of
from kshot.lookup.templates import Texts, Variant, fill, load_texts
from kshot.lookup.templates import variant as parse_variant

Chat: TypeAlias = list[dict[str, str]]
Templates: TypeAlias = str | Path | Texts | None

# group -> length, records, seed of the small example pool. At length 7 every nonunique record has its query at 2 and 4,
# so the right of the first is the left of the last: such examples cannot tell NRFirst from NLLast. Hence 10.
SMALL = {"unique": (6, 200, 4242), "nonunique": (10, 200, 4242)}
PUBLISHED_SMALL = {"unique": (6, 100, 2025), "nonunique": (7, 1500, 20)}
SAME_POOL = (200, 4242)


@dataclass(frozen=True, slots=True)
class Shot:
    """A record as one task and separator see it."""

    input: str
    target: str

    @property
    def context(self) -> str:
        """The characters before the query (and its bar)."""
        return parts(self.input)[0]

    @property
    def query(self) -> str:
        """The character that is looked up."""
        return parts(self.input)[1]


@overload
def prompts(
    records: Source,
    pool: Source | None = None,
    *,
    task: str,
    variant: str | Variant,
    shots: int = 5,
    seed: int = 2025,
    templates: Templates = None,
    reference: bool = False,
    model_type: Literal["base"] = "base",
    rng: random.Random | None = None,
    vocab: str = VOCAB,
) -> list[str]: ...
@overload
def prompts(
    records: Source,
    pool: Source | None = None,
    *,
    task: str,
    variant: str | Variant,
    shots: int = 5,
    seed: int = 2025,
    templates: Templates = None,
    reference: bool = False,
    model_type: str,
    rng: random.Random | None = None,
    vocab: str = VOCAB,
) -> list[str] | list[Chat]: ...
def prompts(
    records: Source,
    pool: Source | None = None,
    *,
    task: str,
    variant: str | Variant,
    shots: int = 5,
    seed: int = 2025,
    templates: Templates = None,
    reference: bool = False,
    model_type: str = "base",
    rng: random.Random | None = None,
    vocab: str = VOCAB,
) -> list[str] | list[Chat]:
    """Give the prompt of every record, in order: texts, or chat messages where ``model_type`` is ``instruct``.

    ``pool`` holds the examples (default: a generated one). The default draws ``shots`` examples by the record's own
    content, so a prompt depends on nothing else in the run. ``reference`` is the published procedure: one stream of
    random numbers over all records (``rng`` continues an earlier file's), the first of ``shots`` draws kept back.
    """
    group_of(task)
    items = read(records, task)
    if pool is None and reference and _variant(variant).pool == "same":
        pool = items
    make = prompter(
        pool,
        task=task,
        variant=variant,
        shots=shots,
        seed=seed,
        templates=templates,
        reference=reference,
        model_type=model_type,
        rng=rng,
        vocab=vocab,
    )
    return [make(item) for item in items]  # type: ignore[return-value]  # all of one kind, by model_type


def prompter(
    pool: Source | None = None,
    *,
    task: str,
    variant: str | Variant,
    shots: int = 5,
    seed: int = 2025,
    templates: Templates = None,
    reference: bool = False,
    model_type: str = "base",
    rng: random.Random | None = None,
    vocab: str = VOCAB,
) -> Callable[[Record], str | Chat]:
    """``prompts`` for one checked record at a time. In reference mode the order of the calls matters."""
    form, texts = _variant(variant), load_texts(templates)
    if model_type not in ("base", "instruct"):
        raise UsageError(f"there is no model type {model_type!r} in lookup", hint="Choose base or instruct.")
    if shots < (1 if reference else 0):
        raise UsageError(f"cannot show {shots} examples")
    write = _Writer(form, texts, task, reference=reference, instruct=model_type == "instruct")
    given = _pool(pool, form, task, reference=reference, vocab=vocab)
    stream = (rng or random.Random(seed)) if reference else None  # noqa: S311 - reproducible draws

    def make(record: Record) -> str | Chat:
        item = _shot(record, form, task)
        candidates = given if given is not None else _same(len(record["input_no_space"]), vocab, form, task)
        # The first draw is the worked example's, used or not: so the shown examples are the same under every template.
        own = stream or random.Random(f"{seed}:{record['input_no_space']}")  # noqa: S311
        worked, *shown = candidates.draw(own, item, shots if reference else shots + 1)
        return write(item, shown, worked)

    return make


def as_prompt(shown: str | Chat) -> Prompt:
    """The prompt as a request carries it."""
    if isinstance(shown, str):
        return Prompt(shown)
    return Prompt(messages=tuple(Message(m["role"], m["content"]) for m in shown))  # type: ignore[arg-type]


def line(text: str, target: str = "") -> str:
    """Spell an input out as a prompt line: ``' a b | a:'``, and the answer after it if there is one."""
    return f" {' '.join(text)}:" + (f" {target}" if target else "")


# ---- Examples ----


class _Candidates:
    """Records that may be shown."""

    def __init__(self, shots: Sequence[Shot]) -> None:
        self.shots, self.known = shots, set(shots)

    def draw(self, rng: random.Random, item: Shot, count: int) -> list[Shot]:
        others = [shot for shot in self.shots if shot != item] if item in self.known else self.shots
        if len(others) < count:
            raise DataError(
                f"the example pool holds {len(others)} records besides the one asked about; {count} are drawn",
                hint="Give a larger pool, or show fewer examples.",
            )
        return rng.sample(others, k=count)


def _pool(pool: Source | None, form: Variant, task: str, *, reference: bool, vocab: str) -> _Candidates | None:
    """The candidates for every record; none where each length has its own."""
    if pool is not None:
        return _Candidates([_shot(record, form, task) for record in read(pool, task)])
    if form.pool == "small":
        recipe = (PUBLISHED_SMALL if reference else SMALL)[group_of(task)]
        return _generated(recipe, VOCAB if reference else vocab, form, task)
    if reference:
        raise UsageError("reference mode needs a pool for 'same' variants", hint="Give the test file as the pool.")
    return None


def _same(length: int, vocab: str, form: Variant, task: str) -> _Candidates:
    """Generated examples as long as the record: the run's other records must not decide its prompt."""
    count, seed = SAME_POOL
    return _generated((length, count, seed), vocab, form, task)


@lru_cache(maxsize=256)
def _generated(recipe: tuple[int, int, int], vocab: str, form: Variant, task: str) -> _Candidates:
    return _Candidates([_shot(r, form, task) for r in _records(group_of(task), recipe, vocab)])


@lru_cache(maxsize=64)
def _records(group: str, recipe: tuple[int, int, int], vocab: str) -> list[dict[str, str]]:
    length, count, seed = recipe
    return generate(group, length, count, seed, vocab=vocab)


def _variant(variant: str | Variant) -> Variant:
    return parse_variant(variant) if isinstance(variant, str) else variant


def _shot(record: Record, form: Variant, task: str) -> Shot:
    return Shot(record[form.input_field], record[task])


# ---- Words ----


@dataclass(frozen=True, slots=True)
class _Writer:
    """Puts item, examples and worked example into the words of one variant."""

    form: Variant
    texts: Texts
    task: str
    reference: bool
    instruct: bool

    def __call__(self, item: Shot, shown: Sequence[Shot], worked: Shot) -> str | Chat:
        template = self.texts["instruct" if self.instruct else "completion"][self.form.template]
        solved = [self.spell(shot, solved=True) for shot in shown]
        question = self.spell(item)
        body = fill(
            template,
            rule_simple=self.texts["rules"][self.task]["simple"],
            rule_math=self.texts["rules"][self.task]["math"],
            explanation=self.explain(worked),
            examples="\n\n".join(solved if self.instruct else [*solved, question]),
            q=question,
            **self.wording(),
        )
        if not self.instruct:
            return body
        if "{q}" not in template and not self.reference:  # the published bare and maths prompts never ask the question
            body = f"{body}\n\n{question}"
        user = f"{body}\n\n{self.texts['format']}"
        return [{"role": "system", "content": self.texts["system"]}, {"role": "user", "content": user}]

    def wording(self) -> dict[str, str]:
        """Words that depend on the separator, where the file has any."""
        return dict(self.texts.get("separators", {}).get(self.form.separator, {}))

    def spell(self, shot: Shot, *, solved: bool = False) -> str:
        if not self.instruct:
            return line(shot.input, shot.target if solved else "")
        if self.form.separator == "sep":
            text = f"context: {' '.join(shot.context)}\nquery: {shot.query}"
        else:
            text = f"sequence: {' '.join(shot.input)}"
        return f"{text}\n<target>{shot.target}</target>" if solved else text

    def explain(self, worked: Shot) -> str:
        miscounted = self.reference and not self.instruct  # the published completion prompts always say 0
        return fill(
            self.texts["explanation"],
            solved_line=self.spell(worked, solved=True),
            query=worked.query,
            occurrences=0 if miscounted else worked.context.count(worked.query),
            target=worked.target,
            **self.wording(),
        )
