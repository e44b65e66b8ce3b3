"""Token lookup prompts: examples, rule and query line for completion models, messages for instruct models.

The texts around the examples are those of a variant, or of a file in the format of ``templates.json``.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypedDict

from kshot.core.errors import DataError, UsageError
from kshot.core.records import Message, Prompt, Role, Row
from kshot.core.text_files import parse_json, read_text
from kshot.lookup.generate import LOOKUP_TASKS, VOCAB, RecordSource, generate, group_of, parts, read
from kshot.prompts.strings import FieldFormatter

SEPARATORS = ("sep", "nosep")
POOLS = ("small", "same")
TEMPLATES = ("bare", "simple_rule", "math_rule", "simple_rule_explained", "math_rule_explained")
Texts: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to put a record to a model: whether a bar precedes the query, which examples, which wording."""

    separator: str
    pool: str
    template: str

    def __str__(self) -> str:
        """Write the variant as the command line does."""
        return f"{self.separator}|{self.pool}|{self.template}"

    @property
    def folder(self) -> str:
        """The name of the variant in published result paths: it has no bars."""
        return self.separator + self.pool + self.template

    @property
    def input_field(self) -> str:
        """The field of a record that is shown."""
        return "input_with_space" if self.separator == "sep" else "input_no_space"


VARIANTS = tuple(str(Variant(s, p, t)) for s in SEPARATORS for p in POOLS for t in TEMPLATES)


def parse_variant(text: str) -> Variant:
    """Read ``sep|small|simple_rule``, or its folder name without bars."""
    for known in VARIANTS:
        if text in (known, known.replace("|", "")):
            return Variant(*known.split("|"))
    raise UsageError(
        f"there is no variant {text!r}",
        hint=f"Join one each of {'/'.join(SEPARATORS)}, {'/'.join(POOLS)} and {'/'.join(TEMPLATES)} by bars.",
    )


@lru_cache(maxsize=1)
def default_texts() -> Texts:
    """Return the wording of kshot."""
    texts: Texts = json.loads(files("kshot.lookup").joinpath("templates.json").read_text(encoding="utf-8"))
    return texts


def load_texts(source: str | Path | Texts | None) -> Texts:
    """Read a template file, or take its content; ``None`` gives the wording of kshot."""
    if source is None:
        return default_texts()
    if isinstance(source, Mapping):
        return _checked(source, "templates")
    try:
        content = parse_json(read_text(Path(source)))
    except (OSError, ValueError) as error:
        raise DataError(f"the lookup templates cannot be read: {error}", where=str(source)) from error
    return _checked(content, str(source))


def _checked(texts: Any, where: str) -> Texts:
    hint = "The file needs the parts rules, completion, instruct, system, format and explanation."
    if not isinstance(texts, Mapping):
        raise DataError("lookup templates must be a JSON object", where=where, hint=hint)
    needed: list[tuple[str, ...]] = [
        *(("rules", task, kind) for task in LOOKUP_TASKS for kind in ("simple", "math")),
        *((kind, template) for kind in ("completion", "instruct") for template in TEMPLATES),
        ("system",),
        ("format",),
        ("explanation",),
    ]
    for path in needed:
        value: Any = texts
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if not isinstance(value, str):
            raise DataError(f"lookup templates lack the text {'.'.join(path)!r}", where=where, hint=hint)
    separators = texts.get("separators", {})
    wordings = list(separators.values()) if isinstance(separators, Mapping) else [None]
    if not all(isinstance(each, Mapping) for each in wordings):
        what = "the part 'separators' of lookup templates must hold an object for each separator"
        raise DataError(what, where=where)
    return texts


def fill(template: str, **fields: object) -> str:
    """Put values in place of the ``{names}`` of a text."""
    try:
        return FieldFormatter().vformat(template, (), fields)
    except (LookupError, ValueError, AttributeError, TypeError) as error:
        known = ", ".join(f"{{{name}}}" for name in fields)
        raise DataError(
            f"the lookup template {template[:60]!r} cannot be filled in: {error}",
            hint=f"It may use {known}; write other braces twice.",
        ) from error


class ChatMessage(TypedDict):
    """One message, as chat models take it."""

    role: Role
    content: str


Chat: TypeAlias = list[ChatMessage]
Templates: TypeAlias = str | Path | Texts | None


class PoolRecipe(NamedTuple):
    """The settings from which the records of an example pool are generated."""

    length: int
    samples: int
    seed: int


# At length 7 every nonunique record has its query at 2 and 4, so the right of the first is the left of the last: such
# examples cannot tell NRFirst from NLLast. Hence length 10.
SMALL_POOLS = {"unique": PoolRecipe(6, 200, 4242), "nonunique": PoolRecipe(10, 200, 4242)}
PUBLISHED_SMALL_POOLS = {"unique": PoolRecipe(6, 100, 2025), "nonunique": PoolRecipe(7, 1500, 20)}
SAME_LENGTH_SAMPLES, SAME_LENGTH_SEED = 200, 4242


@dataclass(frozen=True, slots=True)
class Shot:
    """A record as one task and one separator show it."""

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


def prompts(
    records: RecordSource,
    pool: RecordSource | None = None,
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
) -> list[str | Chat]:
    """Return the prompt of every record, in order: texts, or chats if ``model_type`` is ``instruct``.

    ``pool`` holds the examples (default: a generated one). The content of a record seeds the draw of its ``shots``
    examples, so a prompt depends on nothing else in the run. ``reference`` is the published procedure: one stream of
    random numbers serves all records (``rng`` continues that of an earlier file), and the first draw is not shown.
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
    return [make(item) for item in items]


def prompter(
    pool: RecordSource | None = None,
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
) -> Callable[[Row], str | Chat]:
    """Return a function that does what ``prompts`` does for one checked record.

    In reference mode the order of its calls matters.
    """
    form, texts = _variant(variant), load_texts(templates)
    if model_type not in ("base", "instruct"):
        raise UsageError(f"there is no model type {model_type!r} in lookup", hint="Choose base or instruct.")
    least = 1 if reference else 0
    if shots < least:
        raise UsageError(f"the number of examples is {shots}; it must be {least} or more")
    write = LookupPromptWriter(form, texts, task, reference=reference, instruct=model_type == "instruct")
    common = _common_pool(pool, form, task, reference=reference, vocab=vocab)
    stream = (rng or random.Random(seed)) if reference else None  # noqa: S311 - reproducible draws

    def make(record: Row) -> str | Chat:
        item = _shot(record, form, task)
        # Examples as long as the record are generated: the other records of the run must not decide its prompt.
        same = PoolRecipe(len(record["input_no_space"]), SAME_LENGTH_SAMPLES, SAME_LENGTH_SEED)
        examples = common or _generated_pool(same, vocab, form, task)
        own = stream or random.Random(f"{seed}:{record['input_no_space']}")  # noqa: S311 - reproducible draws
        # The first draw is the worked example, used or not, so that every template shows the same examples.
        worked, *shown = examples.draw(own, item, shots if reference else shots + 1)
        return write(item, shown, worked)

    return make


def as_prompt(shown: str | Chat) -> Prompt:
    """Return a prompt as a request carries it."""
    if isinstance(shown, str):
        return Prompt(shown)
    return Prompt(messages=tuple(Message(message["role"], message["content"]) for message in shown))


def line(text: str, target: str = "") -> str:
    """Write an input as a prompt line: ``' a b | a:'``, and the answer after it if there is one."""
    return f" {' '.join(text)}:" + (f" {target}" if target else "")


# ---- Examples ----


class ExamplePool:
    """Records that may be shown as examples."""

    def __init__(self, shots: Sequence[Shot]) -> None:
        self.shots, self._known = shots, set(shots)

    def draw(self, rng: random.Random, item: Shot, count: int) -> list[Shot]:
        """Draw examples; the record that is asked about is never one of them."""
        others = [shot for shot in self.shots if shot != item] if item in self._known else self.shots
        if len(others) < count:
            raise DataError(
                f"the example pool holds {len(others)} records besides the one asked about; {count} are drawn",
                hint="Give a larger pool, or show fewer examples.",
            )
        return rng.sample(others, k=count)


def _common_pool(
    pool: RecordSource | None, form: Variant, task: str, *, reference: bool, vocab: str
) -> ExamplePool | None:
    """Return the pool for records of every length, or None if each length has a pool of its own."""
    if pool is not None:
        return ExamplePool([_shot(record, form, task) for record in read(pool, task)])
    if form.pool == "small":
        recipe = (PUBLISHED_SMALL_POOLS if reference else SMALL_POOLS)[group_of(task)]
        return _generated_pool(recipe, VOCAB if reference else vocab, form, task)
    if reference:
        raise UsageError("reference mode needs a pool for 'same' variants", hint="Give the test file as the pool.")
    return None


@lru_cache(maxsize=256)
def _generated_pool(recipe: PoolRecipe, vocab: str, form: Variant, task: str) -> ExamplePool:
    return ExamplePool([_shot(record, form, task) for record in _generated_records(group_of(task), recipe, vocab)])


@lru_cache(maxsize=64)
def _generated_records(group: str, recipe: PoolRecipe, vocab: str) -> list[dict[str, str]]:
    return generate(group, recipe.length, recipe.samples, recipe.seed, vocab=vocab)


def _variant(variant: str | Variant) -> Variant:
    return parse_variant(variant) if isinstance(variant, str) else variant


def _shot(record: Row, form: Variant, task: str) -> Shot:
    return Shot(record[form.input_field], record[task])


# ---- Wording ----


@dataclass(frozen=True, slots=True)
class LookupPromptWriter:
    """Writes the prompt of one record in the wording of one variant."""

    form: Variant
    texts: Texts
    task: str
    reference: bool
    instruct: bool

    def __call__(self, item: Shot, shown: Sequence[Shot], worked: Shot) -> str | Chat:
        """Write the prompt: the examples, the worked example where the template explains, and the question."""
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
        """Return the texts that depend on the separator, if the template file has any."""
        return dict(self.texts.get("separators", {}).get(self.form.separator, {}))

    def spell(self, shot: Shot, *, solved: bool = False) -> str:
        """Write a record out, with its answer if ``solved``."""
        if not self.instruct:
            return line(shot.input, shot.target if solved else "")
        if self.form.separator == "sep":
            text = f"context: {' '.join(shot.context)}\nquery: {shot.query}"
        else:
            text = f"sequence: {' '.join(shot.input)}"
        return f"{text}\n<target>{shot.target}</target>" if solved else text

    def explain(self, worked: Shot) -> str:
        """Write the explanation of the worked example."""
        miscounted = self.reference and not self.instruct  # the published completion prompts always say 0
        return fill(
            self.texts["explanation"],
            solved_line=self.spell(worked, solved=True),
            query=worked.query,
            occurrences=0 if miscounted else worked.context.count(worked.query),
            target=worked.target,
            **self.wording(),
        )
