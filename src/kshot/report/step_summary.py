"""The summary of a run on the page of a GitHub job: gates first, then figures, the baseline, and what failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import PurePath

from kshot.core.failed_parts import mark_legend
from kshot.core.records import ResultRow
from kshot.core.visible import metric_label
from kshot.report.gates import gate_finding, gate_label, gate_legend, gate_subjects, pairing_lines, verdict_of
from kshot.report.markdown_table import Markdown, markdown_table, markdown_text
from kshot.report.table import marked_figure, number, short_names
from kshot.report.verdicts import p_value
from kshot.runs.first_failures import first_failures
from kshot.runs.record import RunRecord
from kshot.runs.swept_rows import SAME, task_label

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


def _table(header: Sequence[str], rows: Sequence[Sequence[object]], numbers: Sequence[int] = ()) -> str:
    cells = [[None if value is None else _name(value) for value in row] for row in rows[:_MAX_ROWS]]
    more = f"\n… and {len(rows) - _MAX_ROWS} more rows\n" if len(rows) > _MAX_ROWS else ""
    return markdown_table(header, cells, numbers) + more


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
    yield _table(["gate", "check", "task", "found"], rows) + _legend(gate_legend(gates))


_ORDER = (False, None, True)


def _figures(results: Sequence[ResultRow]) -> Iterator[str]:
    """Yield the figures of tasks and averages; the subsets of averages are folded."""
    rows = [row for row in results if not row.get("detail") and not {"category", "gap", SAME} & row.keys()]
    names = short_names(dict.fromkeys(str(row["model"]) for row in rows))
    averaged = any("average" in row for row in rows)
    folded: dict[bool, list[ResultRow]] = {True: [], False: []}
    for row in rows:
        folded["example_seed" in row or (averaged and "subset" in row)].append(row)
    parts, whole = folded[True], folded[False]
    if whole:
        yield _results(whole, names)
    if parts:
        title = f"{len(parts)} figures of subsets and draws"
        yield f"<details><summary>{title}</summary>\n\n{_results(parts, names)}\n</details>"


def _results(rows: Sequence[ResultRow], names: dict[str, str]) -> str:
    models = len(names) > 1
    failed = any(row["failed"] for row in rows)
    header = ["task", *(["model"] if models else []), "metric", "value", "95 %", "n", *(["failed"] if failed else [])]
    lines = [
        [
            *(task_label(row), *([names[str(row["model"])]] if models else []), metric_label(row)),
            *(
                marked_figure(row),
                _ends(row["ci95"]),
                row["n"],
                *([row["failed"]] if failed else []),
            ),
        ]
        for row in rows
    ]
    return _table(header, lines, range(2 + models, len(header))) + _legend(mark_legend(rows))


def _legend(lines: Sequence[str]) -> str:
    return "".join(f"\n{_name(line)}\n" for line in lines)


def _number(value: float | None, sign: str = "") -> str:
    return "–" if value is None else number(value, 2, sign)


def _ends(interval: Sequence[float] | None, sign: str = "", between: str = "–") -> str | None:
    return None if interval is None else between.join(number(end, 1, sign) for end in interval)


def _baseline(gates: Sequence[ResultRow]) -> Iterator[str]:
    """Yield a table for each baseline."""
    compared = [row for row in gates if row["gate"] == "fail_if_worse" and "difference" in row]
    for path in dict.fromkeys(row["baseline_path"] for row in compared):
        rows = [row for row in compared if row["baseline_path"] == path]
        yield f"### Compared with {_name(path)}"
        lines = [
            [
                *(subject, metric_label(row), marked_figure(row, side="baseline"), marked_figure(row, side="run")),
                *(_number(row["difference"], "+"), _ends(row["ci95"], "+", " to ")),
                *(None if row["p_corrected"] is None else p_value(row), row["verdict"] or "not told apart"),
                *(row["n"], row.get("won"), row.get("lost")),
            ]
            for row, subject in zip(rows, gate_subjects(rows), strict=True)
        ]
        header = ["task", "metric", "baseline", "run", "difference", "95 %", "p", "verdict", "paired", "won", "lost"]
        yield _table(header, lines, (2, 3, 4, 5, 6, 8, 9, 10)) + _legend(mark_legend(rows))


def _listed(title: str, lines: Iterable[str]) -> Iterator[str]:
    shown = [f"- {_name(line)}" for line in islice(lines, _MAX_ROWS)]
    if shown:
        yield f"### {title}"
        yield "\n".join(shown)
