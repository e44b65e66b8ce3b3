"""Choosing samples of a run by outcome, name, score or text. Rows are judged one by one, as they are read."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from kshot.core.arguments import checked_flag, checked_number, checked_text, checked_texts
from kshot.core.errors import UsageError
from kshot.core.records import ResultRow
from kshot.runs.chosen_names import meant
from kshot.runs.headline import TaskOnModel
from kshot.runs.record import RunRecord
from kshot.runs.sample_verdicts import MetricScale, SampleVerdict, metric_scales

Names: TypeAlias = str | Sequence[str]
_NO_SCALE = MetricScale("", None, None)
_SEARCHED = ("prompt", "response", "options", "reasoning", "answer", "answers", "target", "failed")


@dataclass(frozen=True, slots=True)
class SampleFilter:
    """What a sample must be to be chosen; None: anything. ``scales`` say whether it is right."""

    scales: Mapping[TaskOnModel, MetricScale]
    verdicts: frozenset[SampleVerdict] | None = None
    tasks: Collection[str] | None = None
    models: Collection[str] | None = None
    ids: Collection[str] | None = None
    categories: Collection[str] | None = None
    contains: str | None = None
    below: float | None = None
    above: float | None = None

    def __call__(self, row: ResultRow) -> bool:
        """Whether a sample is chosen. The cheap questions come first."""
        return (
            self._named(row)
            and (self.verdicts is None or self.scale(row).verdict(row) in self.verdicts)
            and self._scored(row)
            and (self.contains is None or any(self.contains in text.casefold() for text in searched_texts(row)))
        )

    def scale(self, row: ResultRow) -> MetricScale:
        """Return the scale by which a sample is right."""
        return self.scales.get((name_of(row, "task"), name_of(row, "model")), _NO_SCALE)

    def chosen_scales(self) -> dict[TaskOnModel, MetricScale]:
        """Return the scales of the tasks and models that are chosen."""
        return {
            (task, model): scale
            for (task, model), scale in self.scales.items()
            if (self.tasks is None or task in self.tasks) and (self.models is None or model in self.models)
        }

    def _named(self, row: ResultRow) -> bool:
        wanted = ("task", self.tasks), ("model", self.models), ("id", self.ids), ("category", self.categories)
        return all(names is None or name_of(row, part) in names for part, names in wanted)

    def _scored(self, row: ResultRow) -> bool:
        if self.below is None and self.above is None:
            return True
        score = self.scale(row).score(row)
        if score is None or row.get("failed"):
            return False
        return (self.below is None or score < self.below) and (self.above is None or score > self.above)


def sample_filter(
    record: RunRecord,
    *,
    wrong: bool = False,
    right: bool = False,
    failed: bool = False,
    task: Names = (),
    model: Names = (),
    id: Names = (),  # noqa: A002 - the key of a sample's row
    category: Names = (),
    contains: str | None = None,
    metric: str | None = None,
    below: float | None = None,
    above: float | None = None,
) -> SampleFilter:
    """Return a filter of the samples of a run; a sample must meet every criterion.

    ``wrong`` is not fully right, by the headline of the task or by ``metric``; of ``wrong``, ``right`` and ``failed``
    any one is enough, and so is one of several names. A task may be named by its beginning, by its dataset or by its
    subset. ``contains`` looks into prompt, reply, options, answer, target and failure, whatever the case of letters. A
    name that the run does not have is an error.
    """
    kinds: dict[str, tuple[bool, tuple[SampleVerdict, ...]]] = {
        "wrong": (wrong, ("wrong", "partly")),
        "right": (right, ("right",)),
        "failed": (failed, ("failed",)),
    }
    verdicts = {each for name, (chosen, those) in kinds.items() if checked_flag(name, chosen) for each in those}
    names = {"task": task, "model": model, "category": category, "id": id}
    wanted = {part: checked_texts(part, given) for part, given in names.items()}
    text = checked_text("contains", contains)
    if text == "":
        raise UsageError("contains is empty", hint="Name a text, or leave it out.")
    found = _resolved(record, {part: names for part, names in wanted.items() if names})
    return SampleFilter(
        metric_scales(record.results, checked_text("metric", metric)),
        frozenset(verdicts) or None,
        tasks=found.get("task"),
        models=found.get("model"),
        ids=found.get("id"),
        categories=found.get("category"),
        contains=None if text is None else text.casefold(),
        below=checked_number("below", below),
        above=checked_number("above", above),
    )


def name_of(row: ResultRow, part: str) -> str:
    """Return the task, model, id or category of a sample; "" if it has none."""
    found = row.get(part)
    return "" if found is None else str(found)


def searched_texts(row: ResultRow) -> Iterator[str]:
    """Yield what ``contains`` looks into; numbers count where they are an answer or a target, not beside an option."""
    for part in _SEARCHED:
        value = row.get(part)
        yield from texts_in(value)
        if isinstance(value, (int, float)):
            yield json.dumps(value)


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text within a value: the contents of messages, the texts of options, the ids of passages."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from texts_in(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name != "role":
                yield from texts_in(each)


# ---- names that a user writes ----


def _resolved(record: RunRecord, wanted: Mapping[str, Sequence[str]]) -> dict[str, frozenset[str]]:
    """Return the names of the run that the user means, by the part of a row that has them."""
    if not wanted:
        return {}
    known: dict[str, dict[str, None]] = {part: {} for part in wanted}
    ids = set(wanted.get("id", ()))
    for row in record.iter_samples():
        for part, names in known.items():
            name = name_of(row, part)
            if part != "id" or name in ids:  # a run may have millions of ids: only those that are wanted are kept
                names[name] = None
    return {
        part: frozenset(
            each
            for name in names
            for each in meant(part, name, [one for one in known[part] if one], _others(record, part))
        )
        for part, names in wanted.items()
    }


def _others(record: RunRecord, part: str) -> Iterable[str] | None:
    """Return all ids, to name those that are like the one that is missing; of the other parts all names are known."""
    return (name_of(row, "id") for row in record.iter_samples()) if part == "id" else None
