"""``infer_cfg``: which template shows examples, which one renders the prompt, and how the model is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from kshot.configs.rows import Rows
from kshot.core.errors import DataError
from kshot.prompts.templates import (
    MMPromptTemplate,
    MultiTurnPromptTemplate,
    PromptTemplate,
    RawPromptTemplate,
)

Inference: TypeAlias = Literal["gen", "ppl", "multiturn"]

TEMPLATES: Mapping[str, type[PromptTemplate]] = {
    cls.__name__: cls for cls in (PromptTemplate, RawPromptTemplate, MultiTurnPromptTemplate, MMPromptTemplate)
}
MODES: Mapping[str, Inference] = {
    "PPLInferencer": "ppl",
    "LLInferencer": "ppl",
    "MultiTurnGenInferencer": "multiturn",
    "ChatInferencer": "multiturn",
}
TURN_MODES = ("every", "every_with_gt", "last")


def _name(kind: Any) -> str:
    return str(kind if isinstance(kind, str) else getattr(kind, "__name__", kind)).rpartition(".")[2]


def make_template(entry: Any, *, strict: bool, where: str = "") -> PromptTemplate | None:
    """The template that a config entry describes: ``dict(type=PromptTemplate, template=…)``."""
    if entry is None or isinstance(entry, PromptTemplate):
        return entry
    if not isinstance(entry, Mapping) or "type" not in entry:
        raise DataError(f"a template is dict(type=PromptTemplate, template=…), not {entry!r:.80}", where=where)
    kind = entry["type"]
    cls = kind if isinstance(kind, type) and issubclass(kind, PromptTemplate) else TEMPLATES.get(_name(kind))
    if cls is None:
        raise DataError(f"kshot has no template {_name(kind)!r}", where=where, hint=f"It has {', '.join(TEMPLATES)}.")
    try:
        with located(where):
            return cls(**{name: value for name, value in entry.items() if name != "type"}, strict=strict)
    except TypeError as exc:
        raise DataError(f"{_name(kind)} cannot be made: {exc}", where=where) from exc


@dataclass(frozen=True, slots=True)
class Plan:
    """An ``infer_cfg``, checked: which template shows examples, which one renders, and how the model is asked."""

    shows: PromptTemplate | None
    renders: PromptTemplate | None  # None: the one input column is the conversation
    mode: Inference
    labels_from: PromptTemplate | None = None
    labels: tuple[Any, ...] | None = None
    separator: str = "\n"
    eos: str = "\n"
    masked_by: str = ""
    infer_mode: str = "every"


def _turn_by_turn(template: PromptTemplate) -> MultiTurnPromptTemplate:
    """The template of a ChatInferencer, which repeats for each element of list-valued columns."""
    body = template.template
    if isinstance(body, str):
        body = {"round": [{"role": "HUMAN", "prompt": body}]}
    return MultiTurnPromptTemplate(body, template.ice_token, template.sep_token, strict=template.strict)


def make_plan(infer_cfg: Mapping[str, Any], ids: Sequence[Sequence[int]], columns: int, *, strict: bool) -> Plan:
    """Check an ``infer_cfg`` against the examples that were chosen."""
    shows = make_template(infer_cfg.get("ice_template"), strict=strict, where="ice_template")
    prompt = make_template(infer_cfg.get("prompt_template"), strict=strict, where="prompt_template")
    retriever, asks = infer_cfg.get("retriever") or {}, infer_cfg.get("inferencer") or {}
    inferencer = _name(asks.get("type", "GenInferencer"))
    mode = MODES.get(inferencer, "gen")
    if shows is None and any(ids):
        raise DataError("examples are chosen and there is no ice_template to show them", hint="Use ZeroRetriever.")
    if isinstance(shows, RawPromptTemplate):
        raise DataError("messages cannot show examples", where="ice_template", hint="Use a PromptTemplate.")
    renders = prompt or shows
    if renders is None and not (inferencer == "ChatInferencer" and columns == 1):
        raise DataError("there is no template", hint="infer_cfg needs a prompt_template or an ice_template.")
    if shows is not None and renders is not None and renders.ice_token is None:
        name = "prompt_template" if prompt else "ice_template"
        raise DataError(
            f"the {name} has no ice_token: there is no place for the examples",
            hint="Write ice_token='</E>' and use it.",
        )
    if strict and mode != "multiturn" and isinstance(renders, MultiTurnPromptTemplate):
        raise DataError(f"{inferencer} would show the answers of a conversation", hint="Use MultiTurnGenInferencer.")
    if inferencer == "ChatInferencer" and type(renders) is PromptTemplate and renders.by_label is None:
        renders = _turn_by_turn(renders)
    infer_mode = asks.get("infer_mode") or ("last" if inferencer == "ChatInferencer" else "every")
    if infer_mode not in TURN_MODES:
        raise DataError(f"the infer_mode is {infer_mode!r}", hint=f"It may be {', '.join(TURN_MODES)}.")
    zero = _name(retriever.get("type", "ZeroRetriever")) == "ZeroRetriever"
    labels = asks.get("labels")
    return Plan(
        shows=shows,
        renders=renders,
        mode=mode,
        labels_from=prompt if prompt is not None or shows is None or shows.ice_token is None else shows,
        labels=None if labels is None else tuple(labels),
        separator=retriever.get("ice_separator", "" if zero else "\n"),
        eos=retriever.get("ice_eos_token", "" if zero else "\n"),
        masked_by=asks.get("gen_field_replace_token") or "",
        infer_mode=infer_mode,
    )


@contextmanager
def located(where: str) -> Iterator[None]:
    """Add the place to an error that does not say where it arose."""
    try:
        yield
    except DataError as exc:
        if not exc.where.startswith(where.partition(",")[0]):  # else it says so already, and more exactly
            exc.where = f"{where}, {exc.where}" if exc.where else where
        raise


def label_list(plan: Plan, rows: Rows, *, strict: bool) -> tuple[Any, ...]:
    """The labels to score: those named, else the keys of the template, else the answers in order of appearance."""
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
