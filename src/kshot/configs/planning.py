"""``infer_cfg``: which template shows examples, which one renders the prompt, and how the model is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from kshot.configs.names import INFERENCERS, short
from kshot.configs.rows import SelectedRows
from kshot.configs.values import listed, text
from kshot.core.errors import DataError
from kshot.prompts.templates import (
    MMPromptTemplate,
    MultiTurnPromptTemplate,
    PromptTemplate,
    RawPromptTemplate,
)

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
