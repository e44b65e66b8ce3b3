"""The summary of a run on the page of a GitHub job: gates first, then figures, the baseline, and what failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import PurePath

from kshot.core.failed_parts import mark_legend
from kshot.core.records import ResultRow
from kshot.report.comparison_view import comparison_view
from kshot.report.figures_view import figures_view, model_names
from kshot.report.gates import gate_finding, gate_label, gate_legend, gate_subjects, pairing_lines, verdict_of
from kshot.report.markdown_table import Markdown, markdown_table, markdown_text
from kshot.report.view import Cell, Column, Content, TableView, cell_of, words
from kshot.runs.record import RunRecord, first_failures
from kshot.runs.swept_rows import SAME

MAX_BYTES = 1 << 20
"""GitHub refuses the summary of a step that is larger."""

_MAX_ROWS = 100
"""Rows of a table; the run folder has all."""

_MAX_NAME = 200
_CUT = "\n\n… and more: the page of a job has no place for it. The run folder has all.\n"


def step_summary(
    record: RunRecord, gates: Sequence[ResultRow], notes: Sequence[str] = (), room: int = MAX_BYTES
) -> str:
    """Return the summary as Markdown, in at most ``room`` bytes. Names of models and tasks are texts in it.

    ``notes`` are those of the gates.
    """
    title = PurePath(record.path).name if record.path is not None else "evaluation"
    parts = [f"## kshot: {_name(title)}", *_gates(gates), *_figures(record.results), *_baseline(gates)]
    parts += [*_listed("Notes", (*pairing_lines(gates), *notes)), *_listed("Failed samples", first_failures(record))]
    text = "\n\n".join(part.rstrip("\n") for part in parts) + "\n\n"
    if len(text.encode()) <= room:
        return text
    lines, size = [], len(_CUT.encode())
    for line in text.splitlines(keepends=True):
        size += len(line.encode())
        if size > room:
            break
        lines.append(line)
    return "".join(lines) + _CUT if lines else ""


def _name(text: object) -> Markdown:
    """Return a name; a very long one is cut."""
    whole = str(text)
    return markdown_text(whole if len(whole) <= _MAX_NAME else f"{whole[: _MAX_NAME - 1]}…")


def _table(view: TableView) -> str:
    """Return the first rows of a view; counts are plain, and the marks of differences stand beside their figures."""
    right = {at for at, column in enumerate(view.columns) if column.kind != "words"}
    cells = [[_shown(*each) for each in zip(view.columns, row, strict=True)] for row in view.rows[:_MAX_ROWS]]
    more = f"\n… and {len(view.rows) - _MAX_ROWS} more rows\n" if len(view.rows) > _MAX_ROWS else ""
    return markdown_table([column.heading for column in view.columns], cells, right) + more


def _shown(column: Column, content: Content) -> Markdown | None:
    found = cell_of(content)
    if column.kind == "interval":
        return _name(found.low_high) if found.interval else None
    if isinstance(found.number, int):
        return _name(found.number)
    text = found.text if column.name in {"difference", "metric"} else found.written
    return None if content is None else _name(text)


_SIGNS = {True: "✅ passed", False: "❌ failed", None: "➖ skipped"}


def _gates(gates: Sequence[ResultRow]) -> Iterator[str]:
    if not gates:
        return
    yield f"{'❌' if any(row['passed'] is False for row in gates) else '✅'} **{verdict_of(gates)}**"
    order = sorted(zip(gates, gate_subjects(gates), strict=True), key=lambda pair: _ORDER.index(pair[0]["passed"]))
    rows = [
        [
            _SIGNS[row["passed"]] if row["gate"] is not None else "❗ error",
            *(gate_label(row), subject, gate_finding(row)),
        ]
        for row, subject in order
    ]
    yield _table(TableView(words("gate", "check", "task", "found"), rows)) + _legend(gate_legend(gates))


_ORDER = (False, None, True)


def _figures(results: Sequence[ResultRow]) -> Iterator[str]:
    """Yield the figures of tasks and averages; the subsets of averages are folded."""
    rows = [row for row in results if not row.get("detail") and not {"category", "gap", SAME} & row.keys()]
    averaged = any("average" in row for row in rows)
    folded: dict[bool, list[ResultRow]] = {True: [], False: []}
    for row in rows:
        folded["example_seed" in row or (averaged and "subset" in row)].append(row)
    parts, whole = folded[True], folded[False]
    if whole:
        yield _results(whole, rows)
    if parts:
        title = f"{len(parts)} figures of subsets and draws"
        yield f"<details><summary>{title}</summary>\n\n{_results(parts, rows)}\n</details>"


def _results(rows: Sequence[ResultRow], among: Sequence[ResultRow]) -> str:
    view = figures_view(rows, systems=model_names(rows, among))
    return _table(view.only("task", "model", "metric", "value", "95 %", "n", "failed")) + _legend(mark_legend(rows))


def _legend(lines: Sequence[str]) -> str:
    return "".join(f"\n{_name(line)}\n" for line in lines)


def _baseline(gates: Sequence[ResultRow]) -> Iterator[str]:
    """Yield a table for each baseline."""
    compared = [row for row in gates if row["gate"] == "fail_if_worse" and "difference" in row]
    for path in dict.fromkeys(row["baseline_path"] for row in compared):
        rows = [row for row in compared if row["baseline_path"] == path]
        yield f"### Compared with {_name(path)}"
        view = comparison_view(rows, tasks=gate_subjects(rows), digits=lambda _: (2, 1))
        view = view.changed("verdict", lambda found: Cell(_VERDICTS[found.tone])).renamed({"n": "paired"})
        yield _table(view.only(*_COMPARED, "n", "won", "lost")) + _legend(mark_legend(rows))


_COMPARED = ("task", "metric", "baseline", "run", "difference", "95 %", "p", "verdict")
_VERDICTS = {"good": "better", "bad": "worse", "": "not told apart"}


def _listed(title: str, lines: Iterable[str]) -> Iterator[str]:
    shown = [f"- {_name(line)}" for line in islice(lines, _MAX_ROWS)]
    if shown:
        yield f"### {title}"
        yield "\n".join(shown)
