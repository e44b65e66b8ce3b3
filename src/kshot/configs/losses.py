"""Inferencers that compute how likely texts are: of a label, of a continuation, of a whole text, of spans of a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from kshot.configs.dataset_entry import DatasetEntry
from kshot.configs.inference import ConfigMethod, cut, first_best, likelihood, perplexity, scored_prompt, text_after
from kshot.configs.rendering import PromptKind, Rendered
from kshot.configs.rows import OPENCOMPASS
from kshot.core.errors import DataError
from kshot.core.records import Prompt, RequestGenerator, Row, Sample
from kshot.methods.likelihood import likelihoods

Scored: TypeAlias = tuple[Prompt, str]
"""A context, and the text whose likelihood is computed after it."""

CONTINUATION = "cont"
"""The column that an LLInferencer reads: the text that is scored, inside of the prompt of each label."""
SPANS = "label"
"""The column of an InferencePPLOnlyInferencer: where the scored parts of the text begin and end, in letters."""

MODES = ("ppl", "ll", "loss", "spans")
"""The ways of ``names.INFERENCERS`` that are asked here."""


def scored_texts(
    entry: DatasetEntry,
    rendered: Rendered,
    place: int,
    *,
    kind: PromptKind,
    meta: Mapping[str, Any] | None,
    system: str | None,
) -> Sequence[Scored]:
    """Return what is scored for a row, as the method of the entry's inferencer takes it."""
    if entry.mode == "ppl" and not entry.inferencer.get("normalizing_str"):
        shown = rendered.text(place, meta) if kind == "text" else rendered.chat(place, meta)
        return [scored_prompt(each, system, entry.place) for each in shown]
    if kind != "text":
        raise DataError(
            "the inferencer scores parts of a text, and a chat model reads messages",
            where=entry.place,
            hint="Use --model-type base.",
        )
    row = rendered.rows.test[place]
    if entry.mode == "ll" and CONTINUATION in row:
        where = f"{entry.place}, row {place}"
        return [_continuation(each, row, system, where) for each in rendered.text(place, meta)]
    if entry.mode in ("ll", "ppl"):
        token = rendered.plan.prompt_template.sep_token if rendered.plan.prompt_template else None
        return [cut(each, token, system, entry.place) for each in rendered.output_of(place, remain_sep=True)]
    text = rendered.whole_text(place, meta)
    if entry.mode == "loss":
        return [scored_prompt(text, system, entry.place)]
    return [
        (Prompt(text_after(system) + text[:start]), text[start:end])
        for start, end in _spans(row, len(text), f"{entry.place}, row {place}")
    ]


def _continuation(text: str, row: Row, system: str | None, where: str) -> Scored:
    """Cut a label's prompt as OpenCompass does: its context is as long as the prompt without the continuation."""
    said = str(row[CONTINUATION])
    length = len(text.replace(said, "")) if said else len(text)
    if length == len(text):
        raise DataError(
            f"LLInferencer scores the column {CONTINUATION!r}; its text {said[:60]!r} is not in the prompt of a label",
            where=where,
        )
    return Prompt(text_after(system) + text[:length]), text[length:]


def _spans(row: Row, size: int, where: str) -> list[tuple[int, int]]:
    found = row.get(SPANS)
    spans = [tuple(each[:2]) for each in found if isinstance(each, (list, tuple))] if isinstance(found, list) else []
    if not spans or not all(_is_span(span, size) for span in spans):
        raise DataError(
            f"InferencePPLOnlyInferencer finds no spans in the column {SPANS!r}: {found!r:.80}",
            where=where,
            hint=f"Give a list of [begin, end], letters of the text, which has {size}.",
        )
    return [(int(start), int(end)) for start, end in spans]


def _is_span(span: Sequence[Any], size: int) -> bool:
    whole = len(span) == 2 and all(isinstance(each, int) and not isinstance(each, bool) for each in span)  # noqa: PLR2004 - begin and end
    return whole and 0 <= span[0] < span[1] <= size


def scoring_method(entry: DatasetEntry, labels: Sequence[Any] | None) -> ConfigMethod:
    """Return the method that gets ``scored_texts`` of a sample."""
    # OpenCompass divides by all tokens of the prompt, of which the first is never scored.
    extra = 1 if entry.framework == OPENCOMPASS else 0
    known = tuple(labels or ())
    baseline = entry.inferencer.get("normalizing_str")
    methods: Mapping[str, Callable[[], ConfigMethod]] = {
        "ppl": lambda: against(known, str(baseline)) if baseline else perplexity(known, extra),
        "ll": lambda: likelihood(known),
        "loss": lambda: mean_loss(extra),
        "spans": summed_loss,
    }
    return methods[entry.mode]()


def against(labels: Sequence[Any], baseline: str) -> ConfigMethod:
    """Choose the label whose text gains the most per token by its context, compared with the ``baseline`` before it."""

    def method(sample: Sample, shown: Sequence[Scored]) -> RequestGenerator:  # noqa: ARG001 - every method takes the sample
        found = yield from likelihoods(shown, [(Prompt(baseline), text) for _, text in shown])
        gains = [
            own.logprob / own.tokens - base.logprob / base.tokens
            for own, base in zip(found[: len(shown)], found[len(shown) :], strict=True)
        ]
        return first_best(labels, gains, shown)

    return method


def mean_loss(extra: int) -> ConfigMethod:
    """Return the loss of the whole text per token; ``extra`` is added to the number of tokens."""

    def method(sample: Sample, shown: Sequence[Scored]) -> RequestGenerator:  # noqa: ARG001 - every method takes the sample
        (found,) = yield from likelihoods(shown)
        return -found.logprob / (found.tokens + extra)

    return method


def summed_loss() -> ConfigMethod:
    """Return the loss of all spans of a text, and how many tokens they have."""

    def method(sample: Sample, shown: Sequence[Scored]) -> RequestGenerator:  # noqa: ARG001 - every method takes the sample
        found = yield from likelihoods(shown)
        return -sum(each.logprob for each in found), sum(each.tokens for each in found)

    return method
