"""The figures of a run: those of each task with their intervals, and comparisons of systems, sample by sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations

from kshot.core.protocols import Scorer
from kshot.core.records import ResultRow, Value
from kshot.core.task import TaskResult
from kshot.statistics.figures import figure, reduced
from kshot.statistics.intervals import interval, right_value, within_scale
from kshot.statistics.paired import paired


def result_rows(result: TaskResult) -> Iterator[ResultRow]:
    """Yield the figures of each category, then those of the whole task."""
    task = result.task.name
    for category in sorted({c for c in (*result.categories, *result.failed_categories) if c is not None}):
        for name, metric in result.named():
            values = result.values.get(name, [])
            chosen = [v for v, c in zip(values, result.categories, strict=True) if c == category]
            failed = result.failed_categories.count(category)
            row = _row(result, f"{task}[{category}]", name, metric, values=chosen, failed=failed)
            yield row | {"category": category}
    for name, metric in result.named():
        row = _row(result, task, name, metric, values=result.values.get(name, []), failed=result.failed)
        ties = result.ties.get(name, 0)
        counts = {"unanswered": result.unanswered, "ties": ties, "failed_replies": result.failed_replies}
        yield row | {name: count for name, count in (counts | result.counts).items() if count}


def _row(
    result: TaskResult, task: str, name: str, metric: Scorer, *, values: Sequence[Value], failed: int
) -> ResultRow:
    reduce = partial(figure, metric, name, f"dataset {task}")
    found = interval(values, reduce, right=right_value(metric)) if values else None
    return {
        "task": task,
        "model": result.model,
        **({} if result.task.kind == "plain" else {"kind": result.task.kind}),
        **result.task.labels,
        **result.task.metric_labels.get(name, {}),
        "metric": name,
        **({"rule": metric.rule} if metric.rule and metric.rule != name else {}),
        **({"detail": True} if name in metric.details else {"higher_is_better": metric.higher_is_better}),
        "value": reduce(values) if values else None,
        "n": len(values),
        "failed": failed,
        "ci95": within_scale(found, metric, values),
    }


def compared(results: Sequence[TaskResult]) -> list[ResultRow]:
    """Compare every two systems that have the same samples, sample by sample.

    ``ahead`` names the better one only if the 95 % interval of the difference excludes zero. Passages of different
    sizes are compared only by measures with a token budget: at equal k, larger passages win by their size alone.
    """
    groups: dict[str, list[TaskResult]] = {}
    for result in results:
        groups.setdefault(str(result.task.labels.get("benchmark", result.task.name)), []).append(result)
    return [
        row
        for name, group in groups.items()
        for one, other in combinations(group, 2)
        for row in _between(name, one, other, several_cuts=len({each.task.labels.get("chunks") for each in group}) > 1)
    ]


def _between(name: str, one: TaskResult, other: TaskResult, *, several_cuts: bool) -> Iterator[ResultRow]:
    chunks = one.task.labels.get("chunks"), other.task.labels.get("chunks")
    same_cut = chunks[0] == chunks[1]
    here, there = (dict(zip(each.positions, range(len(each.positions)), strict=True)) for each in (one, other))
    shared = [(here[position], there[position]) for position in here if position in there]
    for metric, scorer in one.named():
        fair = same_cut or metric in scorer.token_budgeted
        if metric in scorer.details or metric not in other.values or not shared or not fair:
            continue
        ones = [one.values[metric][i] for i, _ in shared]
        others = [other.values[metric][j] for _, j in shared]
        found = paired(ones, others, partial(reduced, scorer, metric, f"dataset {name}"))
        names = [f"{t.model} · {cut}" if several_cuts else t.model for t, cut in zip((one, other), chunks, strict=True)]
        better = names[0] if (found.difference > 0) == scorer.higher_is_better else names[1]
        yield {
            "task": name,
            "metric": metric,
            "higher_is_better": scorer.higher_is_better,
            "a": names[0],
            "b": names[1],
            "a_model": one.model,
            "b_model": other.model,
            **(dict(zip(("a_chunks", "b_chunks"), chunks, strict=True)) if several_cuts else {}),
            "difference": found.difference,
            "ci95": list(found.interval) if found.interval else None,
            "p": found.p,
            "wins": found.wins,
            "losses": found.losses,
            "ties": found.ties,
            "n": len(shared),
            "ahead": better if found.decided else None,
        }
