"""From a config's ``reader_cfg`` and ``infer_cfg``, rows and example ids, to prompts.

It is used like this::

    rows = read_rows(reader_cfg, splits, strict=strict, abbr=abbr, n=n)  # kshot.configs.rows; .train and .test
    ids = FixKRetriever(rows, fix_id_list=[0, 1]).retrieve()  # a retriever takes the rows as its ``dataset``
    rendered = render(reader_cfg, infer_cfg, rows, ids, strict=strict)

``infer_cfg`` is the dict of the config: ``ice_template`` and ``prompt_template`` are dicts whose ``type`` is a template
class or its name (or template objects), ``retriever`` gives ``ice_separator`` and ``ice_eos_token``, ``inferencer``
gives the mode (by its name), ``labels``, ``gen_field_replace_token`` and ``infer_mode``. Nothing in it is changed.

``Rendered`` is lazy: ``render`` checks the templates, and each prompt is made when it is used.

============================  ==========================================================================================
``len(rendered)``             how many test rows there are
``.mode``                     ``gen``, ``ppl`` (a prompt for each label) or ``multiturn`` (a prompt for each turn)
``.labels``                   for ``ppl`` the labels, in order; else None
``.gold``                     the output column of each test row; None without an output column
``.ice_of(i)``                the joined examples of row i
``.output_of(i, …)``          the filled template of row i (text or flat list; ppl: one per label); ``remain_sep``: the
                              separator token kept, to cut the answer off its context
``.text(i, meta)``            what a base model reads for row i: a string; ppl: one per label
``.chat(i, meta)``            what a chat model reads: ``[{"role", "content"}, …]``; ppl: one list per label
``.turn_count(i)``            multiturn: how many replies row i asks for
``.turn(i, j, replies, …)``   multiturn: the prompt of turn j after these replies (used if infer_mode is ``every``)
``.turns(kind, meta, …)``     multiturn: per row the prompts of all turns; without ``replies``: ``ANS1``, ``ANS2``, …
``.prompts(kind, meta, …)``   all of the above by ``kind`` "text" or "chat": what ``entry.prompts`` returns
============================  ==========================================================================================

``meta`` is a model's meta template; None means none for a text, and user/assistant/system for a chat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

from kshot.configs.names import INFERENCERS, short
from kshot.configs.rows import OPENCOMPASS, SelectedRows, Splits, read_rows
from kshot.configs.values import listed, text
from kshot.core.errors import DataError
from kshot.prompts.dialogue import (
    Filled,
    Messages,
    Meta,
    Mode,
    PromptList,
    before_reply,
    chat_messages,
    given_chat,
    gold_replies,
    history_text,
    reply_places,
    with_meta,
    with_replies,
)
from kshot.prompts.templates import (
    MMPromptTemplate,
    MultiTurnPromptTemplate,
    PromptTemplate,
    RawPromptTemplate,
)

# ---- infer_cfg: which template shows examples, which one renders the prompt, and how the model is asked ----

PromptMode: TypeAlias = Literal["gen", "ppl", "multiturn"]
"""One prompt for each row (``gen``), for each label (``ppl``), or for each turn (``multiturn``)."""

TEMPLATES: Mapping[str, type[PromptTemplate]] = {
    cls.__name__: cls for cls in (PromptTemplate, RawPromptTemplate, MultiTurnPromptTemplate, MMPromptTemplate)
}
PROMPT_MODES: Mapping[str, PromptMode] = {"ppl": "ppl", "ll": "ppl", "multiturn": "multiturn"}
"""The prompts that a way of ``INFERENCERS`` needs; the other ways need one for each row."""

TURN_MODES = ("every", "every_with_gt", "last")


def make_template(entry: Any, *, strict: bool, where: str) -> PromptTemplate | None:
    """Return the template that a config describes: ``dict(type=PromptTemplate, template=…)``."""
    if entry is None or isinstance(entry, PromptTemplate):
        return entry
    if not isinstance(entry, Mapping) or "type" not in entry:
        raise DataError(f"a template is dict(type=PromptTemplate, template=…), not {entry!r:.80}", where=where)
    kind = entry["type"]
    cls = kind if isinstance(kind, type) and issubclass(kind, PromptTemplate) else TEMPLATES.get(short(kind))
    if cls is None:
        raise DataError(f"kshot has no template {short(kind)!r}", where=where, hint=f"It has {', '.join(TEMPLATES)}.")
    try:
        with located(where):
            return cls(**{name: value for name, value in entry.items() if name != "type"}, strict=strict)
    except TypeError as exc:
        raise DataError(f"{short(kind)} cannot be made: {exc}", where=where) from exc


@dataclass(frozen=True, slots=True)
class PromptPlan:
    """An ``infer_cfg``, checked."""

    example_template: PromptTemplate | None
    prompt_template: PromptTemplate | None
    """None: the one input column is the conversation."""
    mode: PromptMode
    labels_from: PromptTemplate | None = None
    labels: tuple[Any, ...] | None = None
    separator: str = "\n"
    eos: str = "\n"
    masked_by: str = ""
    infer_mode: str = "every"
    from_messages: bool = False
    """Whether a conversation is read by the rule of OpenCompass's ChatInferencer."""


def _turn_by_turn(template: PromptTemplate) -> MultiTurnPromptTemplate:
    """Return the template of a ChatInferencer, which repeats for each element of list-valued columns."""
    body = template.template
    if isinstance(body, str):
        body = {"round": [{"role": "HUMAN", "prompt": body}]}
    return MultiTurnPromptTemplate(body, template.ice_token, template.sep_token, strict=template.strict)


def make_plan(infer_cfg: Mapping[str, Any], ids: Sequence[Sequence[int]], columns: int, *, strict: bool) -> PromptPlan:
    """Check an ``infer_cfg`` against the examples that were chosen."""
    examples = make_template(infer_cfg.get("ice_template"), strict=strict, where="ice_template")
    prompt = make_template(infer_cfg.get("prompt_template"), strict=strict, where="prompt_template")
    retriever, inferencer = infer_cfg.get("retriever") or {}, infer_cfg.get("inferencer") or {}
    name = short(inferencer.get("type", "GenInferencer"))
    mode = PROMPT_MODES.get(INFERENCERS.get(name, ""), "gen")
    if examples is None and any(ids):
        raise DataError("examples are chosen and there is no ice_template to show them", hint="Use ZeroRetriever.")
    if name == "ChatInferencer" and not strict:
        examples = None  # OpenCompass's ChatInferencer never looks at it
    renders = _prompt_template(examples, prompt, may_be_missing=name == "ChatInferencer" and columns == 1)
    if isinstance(examples, RawPromptTemplate) and any(ids):
        _check_raw_examples(examples, renders)
    if strict and mode != "multiturn" and isinstance(renders, MultiTurnPromptTemplate):
        raise DataError(f"{name} would show the answers of a conversation", hint="Use MultiTurnGenInferencer.")
    if name == "ChatInferencer" and type(renders) is PromptTemplate and renders.by_label is None:
        renders = _turn_by_turn(renders)
    infer_mode = inferencer.get("infer_mode") or ("last" if name == "ChatInferencer" else "every")
    if infer_mode not in TURN_MODES:
        raise DataError(f"the infer_mode is {infer_mode!r}", hint=f"It may be {', '.join(TURN_MODES)}.")
    no_examples = short(retriever.get("type", "ZeroRetriever")) == "ZeroRetriever"
    between = "" if no_examples else "\n"
    return PromptPlan(
        example_template=examples,
        prompt_template=renders,
        mode=mode,
        labels_from=prompt if prompt is not None or examples is None or examples.ice_token is None else examples,
        labels=listed(inferencer.get("labels"), "labels"),
        separator=text(retriever, "ice_separator", between),
        eos=text(retriever, "ice_eos_token", between),
        masked_by=text(inferencer, "gen_field_replace_token", ""),
        infer_mode=infer_mode,
        from_messages=name == "ChatInferencer" and not strict,
    )


def _check_raw_examples(examples: RawPromptTemplate, renders: PromptTemplate | None) -> None:
    if not examples.messages:
        raise DataError("messages cannot show examples: the list is empty", where="ice_template")
    if not isinstance(renders, RawPromptTemplate):
        raise DataError(
            "messages cannot show examples in a prompt that is no list of messages",
            where="ice_template",
            hint="Write both templates as RawPromptTemplate, or both as PromptTemplate.",
        )


def _prompt_template(
    examples: PromptTemplate | None, prompt: PromptTemplate | None, *, may_be_missing: bool
) -> PromptTemplate | None:
    """Return the template that renders the prompt: its own, else the one that shows the examples."""
    renders = prompt or examples
    if renders is None and not may_be_missing:
        raise DataError("there is no template", hint="infer_cfg needs a prompt_template or an ice_template.")
    if examples is not None and renders is not None and renders.ice_token is None:
        name = "prompt_template" if prompt else "ice_template"
        raise DataError(
            f"the {name} has no ice_token: there is no place for the examples",
            hint="Write ice_token='</E>' and use it.",
        )
    return renders


class PlacedError(DataError):
    """A DataError whose ``where`` names the dataset and the row."""


@contextmanager
def located(where: str) -> Iterator[None]:
    """Add a part of the config to an error that arises here."""
    try:
        yield
    except PlacedError:
        raise
    except DataError as exc:
        exc.where = f"{where}, {exc.where}" if exc.where else where
        raise


@contextmanager
def located_in_row(where: str) -> Iterator[None]:
    """Add the dataset and the row to an error that arises here, unless it names them already."""
    try:
        yield
    except PlacedError:
        raise
    except DataError as exc:
        place = f"{where}, {exc.where}" if exc.where else where
        raise PlacedError(exc.what, where=place, hint=exc.hint) from exc


def label_list(plan: PromptPlan, rows: SelectedRows, *, strict: bool) -> tuple[Any, ...]:
    """Return the labels to score: those of the inferencer, else of the template, else the answers as they appear."""
    if plan.labels is not None:
        return plan.labels
    source = plan.labels_from
    if source is not None and isinstance(source.template, Mapping):
        if strict and source.by_label is None:
            raise DataError("the labels to score are not known", hint="Give labels=[…] to the inferencer.")
        return tuple(source.template)
    if rows.output_column is None:
        raise DataError("the labels to score are not known", hint="Give labels=[…] or an output_column.")
    found: list[Any] = []
    for row in rows.test:
        if row.get(rows.output_column) not in found:
            found.append(row.get(rows.output_column))
    return tuple(found)


# ---- prompts ----

PromptKind: TypeAlias = Literal["text", "chat"]
"""Whether a prompt is text for a base model or messages for a chat model."""


def render(
    reader_cfg: Mapping[str, Any],
    infer_cfg: Mapping[str, Any],
    splits: SelectedRows | Splits,
    ids: Sequence[Sequence[int]],
    *,
    strict: bool,
    abbr: str = "",
    n: int = 1,
    framework: str = "",
) -> Rendered:
    """Prepare the prompts of a dataset; ``ids`` has a list of example numbers for each test row.

    ``framework`` is the package whose rules hold where the two differ; they do so only where not strict.
    """
    if isinstance(splits, SelectedRows):
        rows = splits
    else:
        rows = read_rows(reader_cfg, splits, strict=strict, abbr=abbr, n=n, framework=framework)
    if len(ids) != len(rows.test):
        raise DataError(f"examples are chosen for {len(ids)} rows, and {len(rows.test)} are asked", where=rows.abbr)
    with located(rows.abbr):
        plan = make_plan(infer_cfg, ids, len(rows.input_columns), strict=strict)
        return Rendered(rows, ids, plan, strict=strict, whole_turns=framework == OPENCOMPASS and not strict)


class Rendered:
    """The prompts of a dataset; see the top of this file."""

    def __init__(
        self,
        rows: SelectedRows,
        ids: Sequence[Sequence[int]],
        plan: PromptPlan,
        *,
        strict: bool,
        whole_turns: bool = False,
    ) -> None:
        """Find the labels; prompts are made when they are used."""
        self.rows, self.ids, self.plan, self.strict, self._whole_turns = rows, ids, plan, strict, whole_turns
        self.mode: PromptMode = plan.mode
        self.labels = label_list(plan, rows, strict=strict) if plan.mode == "ppl" else None
        self._last: tuple[tuple[int, ...], bool, Filled] | None = None

    def __len__(self) -> int:
        """Return how many test rows are asked."""
        return len(self.rows.test)

    @property
    def gold(self) -> list[Any] | None:
        """The output column of each test row."""
        column = self.rows.output_column
        if column is None:
            return None
        for index, row in enumerate(self.rows.test):
            if column not in row:
                raise DataError(f"row {index} has no column {column!r}, the output_column", where=self.rows.abbr)
        return [row[column] for row in self.rows.test]

    def ice_of(self, index: int, *, bare: bool = False) -> Filled:
        """Return the examples of one row, joined; ``bare``: without separator tokens."""
        ids = tuple(self.ids[index])
        if self._last is None or self._last[:2] != (ids, bare):
            with located_in_row(f"{self.rows.abbr}, examples of row {index}"):
                self._last = (ids, bare, self._joined([self._example(number, bare=bare) for number in ids]))
        return self._last[2]

    def _example(self, number: int, *, bare: bool) -> Any:
        template, column = self.plan.example_template, self.rows.output_column
        assert template is not None  # noqa: S101 - make_plan refuses examples without it
        row = self.rows.shown(number)
        if column is not None and column not in row:
            raise DataError(f"the training row {number} has no column {column!r}, the output_column")
        shown_by = (template, self.plan.prompt_template) if bare else ()
        without = {each.sep_token for each in shown_by if each is not None and each.sep_token}
        return template.generate_ice_item(row, row.get(column) if column is not None else None, without=without)

    def _joined(self, examples: list[Any]) -> Filled:
        if isinstance(self.plan.example_template, RawPromptTemplate):
            return Messages(message for example in examples for message in example)
        separator, eos = self.plan.separator, self.plan.eos
        flat = bool(examples) and not isinstance(examples[0], str)
        if self.plan.example_template is not None and (
            self.plan.example_template.prompt_type == "meta" or (self.strict and flat)
        ):
            separator = eos = ""
        if not flat:
            return separator.join(examples) + eos
        joined = PromptList()
        for example in examples:
            joined.extend(example)
            joined.extend([separator] if separator else [])
        joined.append(eos)
        return joined

    def output_of(self, index: int, *, remain_sep: bool = False) -> Any:
        """Return the filled template of one row: text or a flat list; for perplexity one for each label."""
        with located_in_row(f"{self.rows.abbr}, row {index}"):
            if self.labels is not None:
                return [self._scored(index, label, remain_sep=remain_sep) for label in self.labels]
            if self.mode == "multiturn":
                return self.conversation(index)
            assert self.plan.prompt_template is not None  # noqa: S101 - only a conversation can be without
            return self.plan.prompt_template.generate_item(
                self.rows.asked(index),
                output_field=self.rows.output_column,
                output_field_replace_token=self.plan.masked_by,
                ice_field_replace_token=self.ice_of(index, bare=self.strict),
            )

    def _scored(self, index: int, label: Any, *, remain_sep: bool) -> Filled:
        template, row = self.plan.prompt_template, self.rows.asked(index)
        assert template is not None  # noqa: S101 - only a conversation can be without
        if self.strict and template.by_label is None and self.rows.output_column is not None:
            row = {**row, self.rows.output_column: label}  # else every label would be scored by the right answer
        ice = self.ice_of(index, bare=self.strict)
        return template.generate_label_prompt_item(row, ice, label, remain_sep=remain_sep)

    # ---- one prompt for each row (perplexity: for each label) ----

    def text(self, index: int, meta: Meta | None = None) -> Any:
        """Return what a base model reads for a row."""
        return self._each(index, partial(with_meta, meta=meta, strict=self.strict))

    def whole_text(self, index: int, meta: Meta | None = None) -> str:
        """Return the text of a row to its end, as it is scored where there are no labels."""
        output = self.output_of(index)
        with located_in_row(f"{self.rows.abbr}, row {index}"):
            return with_meta(output, meta, "ppl", strict=self.strict)

    def chat(self, index: int, meta: Meta | None = None) -> Any:
        """Return what a chat model reads for a row."""
        return self._each(index, partial(self._messages, meta=meta))

    def _messages(self, filled: Filled, meta: Meta | None, mode: Mode) -> list[dict[str, Any]]:
        return chat_messages(filled, meta, mode, strict=self.strict, whole_turns=self._whole_turns)

    def _each(self, index: int, read: Callable[..., Any]) -> Any:
        output = self.output_of(index)
        with located_in_row(f"{self.rows.abbr}, row {index}"):
            if self.labels is not None:
                return [read(filled, mode="ppl") for filled in output]
            return read(output, mode="gen")

    def prompts(
        self, kind: PromptKind = "text", meta: Meta | None = None, replies: Sequence[Any] | None = None
    ) -> list[Any]:
        """Return every prompt: a string or messages for each row; a list of them for labels or turns."""
        if kind not in ("text", "chat"):
            raise DataError(f"a prompt is 'text' or 'chat', not {kind!r}")
        if self.mode == "multiturn":
            return self.turns(kind, meta, replies)
        read = self.text if kind == "text" else self.chat
        return [read(index, meta) for index in range(len(self))]

    # ---- one prompt for each turn ----

    def conversation(self, index: int) -> PromptList | Messages:
        """Return the whole conversation of a row, right replies included, with a place for each reply."""
        row, column = self.rows.asked(index), self.rows.output_column
        given = [row[name] for name in self.rows.input_columns if name in row]
        gold = row.get(column) if column is not None else None
        chat = given_chat(given[0]) if len(given) == 1 else given_chat(row.get("dialogue"))
        if chat is not None:
            return with_replies(chat, gold)
        if self.plan.prompt_template is not None:
            return with_replies(
                self.plan.prompt_template.generate_item(row, None, "", self.ice_of(index, bare=self.strict)), gold
            )
        questions = given[0] if isinstance(given[0], (list, tuple)) else given
        return with_replies(Messages({"role": "user", "content": str(question)} for question in questions), gold)

    def turn_count(self, index: int) -> int:
        """Return how many replies a row asks for."""
        places = len(reply_places(self.conversation(index)))
        return min(places, 1) if self.plan.infer_mode == "last" else places

    def turn(
        self, index: int, turn: int, replies: Sequence[str] = (), kind: PromptKind = "text", meta: Meta | None = None
    ) -> Any:
        """Return the prompt of one turn; ``replies`` are the model's so far, used if the infer_mode is ``every``."""
        with located_in_row(f"{self.rows.abbr}, row {index}"):
            whole = self.conversation(index)
            every = self.plan.infer_mode == "every"
            place = len(reply_places(whole)) - 1 if self.plan.infer_mode == "last" else turn
            if self.strict and not every and not all(gold_replies(whole)[:place]):
                raise DataError(
                    f"infer_mode {self.plan.infer_mode!r} needs the right replies as history, and one is missing",
                    hint="Give them in the output column, or use infer_mode='every'.",
                )
            history = before_reply(whole, place, replies if every else None)
            if kind == "chat":
                return self._messages(history, meta, "gen")
            if self.plan.from_messages:
                return history_text(history, meta)
            return with_meta(history, meta, "gen", strict=self.strict)

    def turns(
        self, kind: PromptKind = "text", meta: Meta | None = None, replies: Sequence[Any] | None = None
    ) -> list[Any]:
        """Return the prompts of all turns of every row; ``replies``: one list for all rows, or a list for each row."""
        found = []
        for index in range(len(self)):
            count = self.turn_count(index)
            own = [f"ANS{turn + 1}" for turn in range(count)] if replies is None else replies
            if replies and not isinstance(replies[0], str):
                own = replies[index]
            known = min(count, len(own) + 1) if self.plan.infer_mode == "every" else count
            found.append([self.turn(index, turn, own, kind, meta) for turn in range(known)])
        return found
