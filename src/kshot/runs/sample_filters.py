"""Choosing samples of a run by outcome, name, score or text. Rows are judged one by one, as they are read."""

from __future__ import annotations

import difflib
import heapq
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from kshot.core.arguments import checked_flag, checked_number, checked_text, checked_texts
from kshot.core.errors import UsageError
from kshot.core.records import ResultRow
from kshot.core.visible import listed, metric_label
from kshot.runs.headline import TaskOnModel, finite, headlines, task_rows
from kshot.runs.record import RunRecord

SampleVerdict: TypeAlias = Literal["right", "partly", "wrong", "failed", "unrated"]
"""``partly``: the score is between the ends of its scale. ``unrated``: the score says neither, or there is none."""

HEADLINE = "headline"
"""How pages name the metric that stands for each task."""

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class MetricScale:
    """A metric, the ends of its scale (None: not known, or infinite), its direction, and the rule that it scores."""

    metric: str
    worst: float | None
    best: float | None
    upwards: bool = True
    rule: str = ""

    @property
    def label(self) -> str:
        """The metric with its rule."""
        return metric_label({"metric": self.metric, "rule": "" if self.rule == self.metric else self.rule})

    def score(self, row: ResultRow) -> float | None:
        """Return the score of a sample; None if it has none."""
        scores = row.get("scores")
        return finite(scores.get(self.metric)) if isinstance(scores, dict) else None

    def verdict(self, row: ResultRow) -> SampleVerdict:
        """Return whether a sample is right."""
        if row.get("failed"):
            return "failed"
        score = self.score(row)
        if score is None or self.best is None or (not self.upwards and _is_likelihood(row.get("answer"))):
            return "unrated"
        if self.is_right(score):
            return "right"
        far = self.worst is None or _reaches(score, self.worst, upwards=not self.upwards)  # TER has no worst score
        return "wrong" if far else "partly"

    def is_right(self, score: float) -> bool:
        """Whether a score is the best of the scale."""
        return self.best is not None and _reaches(score, self.best, upwards=self.upwards)


def _reaches(score: float, end: float, *, upwards: bool) -> bool:
    beyond = score >= end if upwards else score <= end
    return beyond or math.isclose(score, end, rel_tol=_ROUNDING, abs_tol=_ROUNDING)


def _is_likelihood(answer: Any) -> bool:
    """Whether an answer is the likelihood of a text: a text is neither right nor wrong."""
    return isinstance(answer, dict) and "nll" in answer


def with_rules(samples: Iterable[ResultRow], results: Sequence[ResultRow]) -> Iterator[ResultRow]:
    """Yield samples with the ``rule`` that a figure of their task goes by, where its name does not say it."""
    rules = {_key(row): row["rule"] for row in task_rows(results) if row.get("rule")}
    for row in samples:
        rule = rules.get((str(row.get("task")), str(row.get("model", ""))))
        yield row if rule is None else {**row, "rule": rule}


def metric_scales(results: Sequence[ResultRow], metric: str | None = None) -> dict[TaskOnModel, MetricScale]:
    """Return the scale by which the samples of each task and model are right or wrong.

    That is the scale of the headline (of search engines, AC_MRR@10 or nDCG@10), or of ``metric`` where a task has it. A
    metric that no task has is an error.
    """
    rows = list(task_rows(results))
    main = {_key(row): row for row in headlines(rows, _key)}
    if metric is None:
        return {key: _scale(row, row) for key, row in main.items()}
    chosen = {_key(row): row for row in reversed(rows) if row["metric"] == metric}
    if not chosen:
        known = ", ".join(dict.fromkeys(row["metric"] for row in rows)) or "none"
        raise UsageError(f"this run has no metric {metric!r:.80}", hint=f"It has: {known}.")
    return {key: _scale(row, main.get(key, row)) for key, row in chosen.items()}


def _key(row: ResultRow) -> TaskOnModel:
    return row["task"], str(row.get("model", ""))


def _scale(row: ResultRow, headline: ResultRow) -> MetricScale:
    """Return the scale of a metric; a detail has the direction of the headline that it breaks down."""
    low, high = _bounds(row)
    upwards = bool(row.get("higher_is_better", headline.get("higher_is_better", True)))
    worst, best = (low, high) if upwards else (high, low)
    return MetricScale(row["metric"], worst, best, upwards, str(row.get("rule", "")))


def _bounds(row: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return the ends of a scale. A folder of version 0.1 does not say them: they are those of the metrics it had."""
    found = row.get("bounds", _early_bounds(row))
    if not isinstance(found, (list, tuple)) or len(found) != 2:  # noqa: PLR2004 - its two ends
        return None, None
    low, high = map(finite, found)
    return low, high


def _early_bounds(row: Mapping[str, Any]) -> tuple[float, float]:
    ranked = "benchmark" in row and ("search" not in row or "@" in row["metric"])
    return (0.0, 1.0) if ranked else (0.0, 100.0)


_MAX_LISTED = 10
_MAX_COMPARED = 80
"""Characters of a name that are compared with those of another."""

_NEAR = 0.6
"""So alike are names that may be meant, as ``difflib`` measures it."""


def meant(
    part: str, name: str, known: Sequence[str], others: Iterable[str] | None = None, nobody: str = "this run has no"
) -> Sequence[str]:
    """Return what a user means by a name: that very one, all of a dataset or subset, or the one that begins so.

    ``part`` says what has the name. ``others``: names that may be suggested, where those known are not all;
    ``nobody``: how the message begins if there is none.
    """
    folded = name.casefold()
    inside = (f"{name}:", f"{name}@", f"{name},")  # a subset, a draw of examples, options
    subsets = [one for one in known if one.startswith(inside) or one.endswith(f":{name}")] if part == "task" else []
    for found in ([name] if name in known else [], subsets, [one for one in known if one.casefold() == folded]):
        if found:
            return found
    begun = [one for one in known if one.casefold().startswith(folded)] if name and part != "id" else []
    if len(begun) > 1:
        what = f"{name!r:.80} is the beginning of {len(begun)} {_PLURALS[part]}"
        raise UsageError(what, hint=f"Name one: {listed(begun, _MAX_LISTED)}.")
    if not begun:
        hint = _suggestion(part, name, known if others is None else others)
        raise UsageError(f"{nobody} {part} {name!r:.80}", hint=hint)
    return begun


_PLURALS = {"task": "tasks", "model": "models", "category": "categories", "id": "ids"}


def _suggestion(part: str, name: str, known: Iterable[str]) -> str:
    """Return which names there are: all of them, or the nearest of many."""
    matcher = difflib.SequenceMatcher(a="", b=name[:_MAX_COMPARED].casefold(), autojunk=False)
    first: dict[str, None] = {}

    def with_nearness() -> Iterator[tuple[float, str]]:
        for one in known:
            if len(first) <= _MAX_LISTED:
                first[one] = None
            matcher.set_seq1(one[:_MAX_COMPARED].casefold())
            yield matcher.quick_ratio(), one

    nearest = heapq.nlargest(30, with_nearness())  # the same id may stand in several tasks
    near = list(dict.fromkeys(one for ratio, one in nearest if ratio >= _NEAR))[:3]
    if len(first) > _MAX_LISTED and near:
        return f"Did you mean {' or '.join(near)}?"
    return f"Its {_PLURALS[part]}: {listed(list(first), _MAX_LISTED)}." if first else f"Its samples have no {part}."


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
