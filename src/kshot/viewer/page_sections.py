"""The sections on runs and comparisons, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kshot.report.comparison import headline_rows
from kshot.report.page.markup import Section
from kshot.report.page.page_run import PageRun
from kshot.report.page.run_sections import comparison_sections, differing_settings, run_sections
from kshot.report.page.samples_read import read_run_samples
from kshot.runs.comparing import Comparison
from kshot.runs.record import read_record
from kshot.runs.spec_file import read_spec


def page_sections(folder: Path, key: str, name: str, *, samples: bool) -> list[dict[str, str]]:
    """Return the sections on a finished run; without ``samples``, those that need not read all of them."""
    run = PageRun(key, name, read_record(folder), read_spec(folder))
    return _written(run_sections([run], {key: read_run_samples(run)} if samples else None))


def comparison_page(found: Comparison, keys: Sequence[str]) -> dict[str, Any]:
    """Return the sections and counts of a comparison of two runs with these keys."""
    labels = [each["label"] for each in found.runs]
    sections = comparison_sections(found, dict(zip(labels, keys, strict=True)))
    return {"sections": _written([*sections, *differing_settings(found)]), **_counts(found)}


def _written(sections: Iterable[Section]) -> list[dict[str, str]]:
    return [{"id": each.id, "title": each.title, "html": str(each.html)} for each in sections]


def _counts(found: Comparison) -> dict[str, int | None]:
    """Return how many questions one side alone gets right, both, or neither, by the headlines that say right or wrong.

    Where none does, only which side has the higher score is counted. If a sample is compared with several ones of the
    other run, such as those of two models, no sum is a number of samples, and none is told.
    """
    rows = [row for row in headline_rows(found.rows) if "average" not in row]
    for side, task in (("baseline", "task"), ("run", "run_task")):
        if len({(row[f"{side}_model"], row.get(task) or row["task"]) for row in rows}) < len(rows):
            return dict.fromkeys(("won", "lost", "both", "neither"))
    binary = [row for row in rows if row.get("both") is not None]
    counts: dict[str, int | None] = {name: sum(row[name] for row in binary or rows) for name in ("won", "lost")}
    return counts | {name: sum(row[name] for row in binary) if binary else None for name in ("both", "neither")}
