"""The figures of a run: those of each task with their intervals, and comparisons of systems, sample by sample."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations, pairwise
from typing import Any

from kshot.core.metric import MEAN, Measure
from kshot.core.records import ResultRow
from kshot.core.task import TaskResult
from kshot.runs.swept_rows import AVERAGES, SWEEP, shared_parts, shown_columns, swept_pairs, unpaired
from kshot.statistics.figures import OWN_AGGREGATE, figure, named_rule, reduced, rule_of_rows, same_units
from kshot.statistics.intervals import interval, within_scale
from kshot.statistics.paired import Pair, Paired, averaged, compare_by_family, has_figures, holm
from kshot.statistics.permutation import LEVEL, share_test
from kshot.statistics.resampling import Reduce, are_numbers, is_mean


def result_rows(result: TaskResult) -> Iterator[ResultRow]:
    """Yield the figures of each category, then those of the whole task.

    A figure that answered samples do not have, such as one of a group whose samples all failed, has no row; the first
    one has a row without a value if otherwise the task had none.
    """
    task = result.task.name
    for category in sorted({c for c in (*result.categories, *result.failed_categories) if c is not None}):
        for measure in result.measures():
            values = result.values.get(measure.name, [])
            chosen = [v for v, c in zip(values, result.categories, strict=True) if c == category]
            failed = result.failed_categories.count(category)
            row = _row(result, f"{task}[{category}]", measure, values=chosen, failed=failed)
            if row["value"] is not None or not chosen:
                yield row | {"category": category} | result.counted(measure.name, category)
    shown = shown_columns([result]) if SWEEP in result.task.labels else {}
    rows = [
        _row(result, task, measure, values=result.values.get(measure.name, []), failed=result.failed)
        | result.counted(measure.name)
        | shown
        for measure in result.measures()
    ]
    yield from [row for row in rows if row["value"] is not None or not row["n"]] or rows[:1]


def _row(result: TaskResult, task: str, measure: Measure, *, values: Sequence[Any], failed: int) -> ResultRow:
    reduce = partial(figure, measure, f"dataset {task}")
    found = interval(values, reduce, bounds=measure.bounds, binary=measure.binary) if values else None
    return {
        "task": task,
        "model": result.model,
        **({} if result.task.kind == "plain" else {"kind": result.task.kind}),
        **result.task.labels,
        **result.task.metric_labels.get(measure.name, {}),
        "metric": measure.name,
        **named_rule(measure),
        **({"detail": True} if measure.detail else {"higher_is_better": measure.higher_is_better}),
        "value": reduce(values) if values else None,
        "n": len(values),
        "failed": failed,
        "ci95": within_scale(found, measure, values),
        **_scale(measure, reduce, values),
    }


def _scale(measure: Measure, reduce: Reduce, values: Sequence[Any]) -> ResultRow:
    """Return what a comparison with another run needs to know of a figure: its scale, and how values become it.

    ``aggregate`` is the key of one of kshot; ``own``: only the metric knows how. Without it the figure is the mean.
    """
    if measure.detail:
        return {}
    key = measure.aggregate.key or OWN_AGGREGATE
    if key == MEAN.key and values and not (are_numbers(values) and is_mean(reduce, values)):
        key = OWN_AGGREGATE
    ends = measure.bounds and [end if math.isfinite(end) else None for end in measure.bounds]
    return {
        **({"bounds": ends} if ends else {}),
        **({"binary": True} if measure.binary else {}),
        **({"token_budget": True} if measure.token_budget else {}),
        **({} if key == MEAN.key else {"aggregate": key}),
    }


def compared(results: Sequence[TaskResult], rows: Sequence[ResultRow] = ()) -> list[ResultRow]:
    """Compare every two systems that have the same samples, sample by sample; by the averages among ``rows``, too.

    ``a`` is the system that was named first, and the difference is ``b`` minus ``a``; ``won`` are the samples on which
    ``b`` is better. ``ahead`` names the better one only if p, corrected for all comparisons of the run by this measure
    (on tasks of one kind), is below 5 %. The points of a sweep are compared too, with a correction of their own.
    Passages of different sizes are compared only by measures with a token budget: at equal k, larger passages win by
    their size alone. Models that divide texts into other tokens are not compared per token.
    """
    if len(results) < 2:  # noqa: PLR2004 - two are compared
        return []
    groups: dict[str, list[TaskResult]] = {}
    for result in results:
        groups.setdefault(str(result.task.labels.get("benchmark", result.task.name)), []).append(result)
    found = [
        each
        for name, group in groups.items()
        for one, other in combinations(group, 2)
        for each in _between(name, one, other, several_cuts=len({each.task.labels.get("chunks") for each in group}) > 1)
    ]
    found += _averages(results, rows)
    found += [(SWEEP, row, pair) for row, pair in swept_pairs(results, rows, _pair_by)]
    verdicts = compare_by_family([((kind, row["metric"]), pair) for kind, row, pair in found])
    return [_comparison(row, verdict) for (_, row, _), verdict in zip(found, verdicts, strict=True)]


def _between(
    name: str, one: TaskResult, other: TaskResult, *, several_cuts: bool
) -> Iterator[tuple[str, ResultRow, Pair]]:
    """Yield what two systems are compared by: the kind of their task, who they are, and their values."""
    chunks = one.task.labels.get("chunks"), other.task.labels.get("chunks")
    same_cut = chunks[0] == chunks[1]
    shared = _shared(one, other)
    names = [f"{t.model} · {cut}" if several_cuts else t.model for t, cut in zip((one, other), chunks, strict=True)]
    theirs = {measure.name: measure for measure in other.measures()}
    for measure in one.measures():
        fair = same_cut or measure.token_budget
        if measure.detail or measure.name not in other.values or not shared or not fair:
            continue
        row = {
            "task": name,
            "metric": measure.name,
            **named_rule(measure, theirs[measure.name]),
            "higher_is_better": measure.higher_is_better,
            "a": names[0],
            "b": names[1],
            "a_model": one.model,
            "b_model": other.model,
            **(dict(zip(("a_chunks", "b_chunks"), chunks, strict=True)) if several_cuts else {}),
            "failed": unpaired(one, other),
        }
        pair = _pair(one, other, measure, shared)
        if same_units(measure.aggregate.key, pair.a, pair.b) and has_figures(pair):
            yield one.task.kind, row, pair


def _pair_by(one: TaskResult, other: TaskResult, metric: str) -> Pair:
    """Return the values of two results by a metric, on the samples that both have: see ``_pair``."""
    measure = next(measure for measure in one.measures() if measure.name == metric)
    return _pair(one, other, measure, _shared(one, other))


def _pair(one: TaskResult, other: TaskResult, measure: Measure, shared: Sequence[tuple[int, int]]) -> Pair:
    """Return the second with the first as its baseline: a difference is the second minus the first, as in compare."""
    ones = [one.values[measure.name][i] for i, _ in shared]
    others = [other.values[measure.name][j] for _, j in shared]
    reduce = partial(reduced, measure, f"dataset {one.task.name}")
    return Pair(others, ones, reduce, measure.higher_is_better, measure.bounds)


def _averages(results: Sequence[TaskResult], rows: Sequence[ResultRow]) -> Iterator[tuple[str, ResultRow, Pair]]:
    """Yield what two models are compared by on all subsets of a dataset: a sample weighs as in the average.

    Averages of figures that are not means, such as perplexities, are not compared.
    """
    by_name = {(result.model, result.task.name): result for result in results}
    averages: dict[tuple[str, str], list[ResultRow]] = {}
    for row in rows:
        if "tasks" in row:
            averages.setdefault((row["task"], row["metric"]), []).append(row)
    for same in averages.values():
        for one, other in combinations(same, 2):
            kept, parts = shared_parts(one, other, by_name, lambda result: result.task.name)
            if pair := _averaged(one, kept):
                who = {"a": one["model"], "b": other["model"], "a_model": one["model"], "b_model": other["model"]}
                shared = {name: one[name] for name in ("task", "average", "metric")} | rule_of_rows(one, other)
                better = {name: one[name] for name in ("higher_is_better",) if name in one}
                yield kept[0][0].task.kind, shared | better | who | parts, pair


def _averaged(row: ResultRow, subsets: Sequence[tuple[TaskResult, TaskResult]]) -> Pair | None:
    """Return the values of two models on all subsets, with their weights; None where they are not means."""
    metric = row["metric"]
    if row["average"] not in AVERAGES:
        return None
    pairs = [_pair_by(one, other, metric) for one, other in subsets]
    return averaged(pairs, weighted=row["average"] == "weighted")


def _shared(one: TaskResult, other: TaskResult) -> list[tuple[int, int]]:
    """Return where the samples that both have stand among the values of each."""
    here, there = (dict(zip(each.positions, range(len(each.positions)), strict=True)) for each in (one, other))
    return [(here[position], there[position]) for position in here if position in there]


def _comparison(row: ResultRow, found: Paired) -> ResultRow:
    better = row["b"] if (found.difference > 0) == row["higher_is_better"] else row["a"]
    return row | {
        "difference": found.difference,
        "ci95": list(found.interval) if found.interval else None,
        "p": found.p,
        "p_corrected": found.p_corrected,
        "family": found.family,
        "won": found.wins,
        "lost": found.losses,
        "tied": found.ties,
        "n": found.wins + found.losses + found.ties,
        "ahead": better if found.decided else None,
    }


def corrected_gaps(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """Correct the p of the gaps between tasks for all gaps of the run; the other rows stay as they are.

    ``ahead`` names the task that is more accurate, if the corrected p is below 5 %.
    """
    gaps = [row for row in rows if "gap" in row]
    if not gaps:
        return list(rows)
    corrected = iter(holm([row["p"] for row in gaps]))
    return [row | _gap_verdict(row, next(corrected), len(gaps)) if "gap" in row else row for row in rows]


def _gap_verdict(row: ResultRow, p: float, family: int) -> ResultRow:
    ahead = row["better"] if row["value"] > 0 else row["worse"]
    return {"p_corrected": p, "family": family, "ahead": ahead if p < LEVEL else None}


def falls(rows: Sequence[ResultRow]) -> list[tuple[ResultRow, ResultRow]]:
    """Return the pairs of rows, an easier and a harder one, whose shares differ by more than chance.

    The two have samples of their own, so the test is Fisher's; its p is corrected for all pairs of the run.
    """
    pairs = list(_neighbours(rows))
    ps = [share_test(*_counts(before), *_counts(after)) for before, after in pairs]
    corrected = holm(ps)
    return [
        (before, after)
        for (before, after), p in zip(pairs, corrected, strict=True)
        if p < LEVEL and before["value"] > after["value"]
    ]


def _counts(row: ResultRow) -> tuple[int, int]:
    """Return how many samples of a share are right, and how many there are."""
    return round(row["value"] * row["n"] / 100), row["n"]


def _neighbours(rows: Sequence[ResultRow]) -> Iterator[tuple[ResultRow, ResultRow]]:
    """Yield the pairs of neighbouring lengths of one lookup task under one variant; a sweep has a curve of its own."""
    lines: dict[tuple[str, str, str], list[ResultRow]] = {}
    for row in rows:
        if (
            row.get("kind") == "lookup"
            and SWEEP not in row
            and not row.get("detail")
            and "gap" not in row
            and row["value"] is not None
        ):
            lines.setdefault((row["model"], row["variant"], row["lookup"]), []).append(row)
    for line in lines.values():
        yield from pairwise(sorted(line, key=lambda row: row["length"]))
