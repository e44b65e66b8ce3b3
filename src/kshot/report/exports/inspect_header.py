"""The header of a log of Inspect: what was run, and the figures of ``summary.json``."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from kshot import __version__
from kshot.core.budget import PROBE, UNUSED
from kshot.core.failed_parts import all_parts
from kshot.core.records import ResultRow
from kshot.core.shareable import shareable, well_formed_value
from kshot.core.visible import metric_label, one_line
from kshot.report.exports.inspect_samples import ScoreForm, forms_of
from kshot.report.exports.shots import shots_in_prompts
from kshot.runs.folder import SUMMARY
from kshot.runs.headline import finite, task_rows
from kshot.runs.record import RunRecord

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalMetric, EvalResults, EvalScore
    from inspect_ai.model import ModelUsage

_ROUNDING = 1e-9
"""What two ways to compute a mean may differ by."""


def figures_of(record: RunRecord, task: str, model: str) -> list[ResultRow]:
    """Return the figures of a whole task."""
    return [row for row in task_rows(record.results) if (row["task"], row["model"]) == (task, model)]


def log_header(record: RunRecord, spec: Mapping[str, Any], task: str, model: str) -> EvalLog:
    """Return a log without its samples."""
    from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSpec, EvalStats

    figures = figures_of(record, task, model)
    sessions = spec.get("sessions", ())
    created = _time(sessions[0].get("started") if sessions else None, record)
    ended = _time(sessions[-1].get("ended") if sessions else None, record)
    limit, identity = record.settings.get("limit"), spec["identity"]
    shots = shots_in_prompts(record, spec, task, model)
    total = max((row["n"] + row["failed"] for row in figures), default=0)
    return EvalLog(
        status="success",
        eval=EvalSpec(
            created=created,
            task=one_line(task),
            task_id=_digest("task", identity, task, model),
            eval_id=_digest("eval", identity, task, model),
            run_id=_digest("run", identity),
            task_args={} if shots is None else {"num_shots": shots},
            dataset=EvalDataset(name=one_line(task), samples=total),
            model=one_line(model),
            config=EvalConfig(limit=limit if type(limit) is int else None),
            packages={"kshot": _version(sessions)},
            metadata=well_formed_value(
                {"settings": shareable(record.settings), "totals": _totals(record, task, model)}
            ),
        ),
        results=_results(figures, total, [row for row in record.results if _is_category(row, task, model)]),
        stats=EvalStats(started_at=created, completed_at=ended, model_usage=_usage(record, model)),
    )


def _results(figures: Sequence[ResultRow], total: int, categories: Sequence[ResultRow]) -> EvalResults:
    from inspect_ai.log import EvalResults

    done, forms = max((row["n"] for row in figures), default=0), forms_of(figures)
    return EvalResults(
        total_samples=total,
        completed_samples=done,
        scores=[_score(row, forms[row["metric"]]) for row in figures],
        metadata=well_formed_value({"categories": list(categories)}) if categories else None,
    )


def _score(row: ResultRow, form: ScoreForm) -> EvalScore:
    """Return a figure with the ends of its interval; ``metadata`` has the row of ``summary.json`` as it is."""
    from inspect_ai.log import EvalMetric, EvalScore

    name = one_line(metric_label(row))
    low, high = row["ci95"] or (None, None)
    found = {"accuracy" if form.right is not None else "value": row["value"], "ci95_low": low, "ci95_high": high}
    metrics: dict[str, EvalMetric] = {
        metric: EvalMetric(name=metric, value=form.share(known))
        for metric, value in found.items()
        if (known := finite(value)) is not None
    }
    return EvalScore(
        name=name,
        scorer=name,
        scored_samples=row["n"],
        unscored_samples=row["failed"],
        metrics=metrics,
        metadata=well_formed_value(row),
    )


class StandardErrors:
    """The standard error of the mean of the scores of each metric, as Inspect defines it, from one sample at a time."""

    def __init__(self, figures: Sequence[ResultRow], forms: Mapping[str, ScoreForm] | None = None) -> None:
        """Take the figures of a task; ``forms`` say their scales, where they are not those of Inspect."""
        means = {row["metric"]: finite(row["value"]) for row in figures if row.get("aggregate") is None}
        self._forms = forms_of(figures) if forms is None else forms
        self._means = {name: self._forms[name].share(mean) for name, mean in means.items() if mean is not None}
        self._sums = dict.fromkeys(self._means, (0, 0.0, 0.0))

    def add(self, scores: Mapping[str, Any]) -> None:
        """Add the scores of a sample, as ``samples.jsonl`` has them."""
        for name in self._sums.keys() & scores.keys():
            if (known := finite(scores[name])) is not None:
                count, mean, squares = self._sums[name]
                value = self._forms[name].number(known)
                off = value - mean
                mean += off / (count + 1)
                self._sums[name] = count + 1, mean, squares + off * (value - mean)

    def errors(self) -> dict[str, float]:
        """Return the standard errors, by metric; that of a single score is 0.

        A figure that is not the mean of the scores, such as BLEU, has none.
        """
        return {
            name: math.sqrt(squares / (count - 1) / count) if count > 1 else 0.0
            for name, (count, mean, squares) in self._sums.items()
            if count and math.isclose(mean, self._means[name], rel_tol=_ROUNDING, abs_tol=_ROUNDING)
        }

    def write_to(self, header: EvalLog) -> None:
        """Put the standard errors beside the figures of a log."""
        from inspect_ai.log import EvalMetric

        known = {name: error for name, error in self.errors().items() if math.isfinite(error)}
        found = {one_line(self._forms[name].label or name): error for name, error in known.items()}
        for score in header.results.scores if header.results else ():
            if score.name in found:
                score.metrics["stderr"] = EvalMetric(name="stderr", value=found[score.name])


def _is_category(row: ResultRow, task: str, model: str) -> bool:
    return row["model"] == model and "category" in row and row["task"] == f"{task}[{row['category']}]"


def _totals(record: RunRecord, task: str, model: str) -> list[ResultRow]:
    """Return the figures over several tasks, this one among them or left out: they have no samples, and so no log."""
    rows = [row for row in record.results if row["model"] == model and "category" not in row]
    return [row for row in rows if isinstance(row.get("tasks"), list) and task in all_parts(row)]


def _usage(record: RunRecord, model: str) -> dict[str, ModelUsage]:
    """Return the tokens of the model, if it had no other task: ``summary.json`` counts those of all tasks together."""
    from inspect_ai.model import ModelUsage

    if len({row["task"] for row in task_rows(record.results) if row["model"] == model}) != 1:
        return {}
    rows = [row for row in record.usage if row["model"] == model and row["role"] in {"model", PROBE, UNUSED}]
    if not rows:
        return {}
    read, wrote = (sum(row[name] for row in rows) for name in ("prompt_tokens", "completion_tokens"))
    cached = sum(row.get("cached_tokens", 0) for row in rows)
    costs = [cost for row in rows if (cost := finite(row.get("cost_usd"))) is not None]
    used = ModelUsage(
        input_tokens=read - cached,
        input_tokens_cache_read=cached or None,
        output_tokens=wrote,
        total_tokens=read + wrote,
        total_cost=sum(costs) if costs else None,
    )
    return {one_line(model): used}


def _time(found: Any, record: RunRecord) -> str:
    """Return a time as Inspect writes it; if a run has recorded none, that of its figures."""
    with suppress(ValueError, TypeError):
        return datetime.fromisoformat(found).astimezone(timezone.utc).isoformat(timespec="seconds")
    seconds = 0.0 if record.path is None else (record.path / SUMMARY).stat().st_mtime
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")


def _version(sessions: Sequence[Mapping[str, Any]]) -> str:
    versions = sessions[-1].get("versions") if sessions else None
    found = versions.get("kshot") if isinstance(versions, dict) else None
    return one_line(found) if isinstance(found, str) else __version__


def _digest(*parts: Any) -> str:
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=11).hexdigest()
