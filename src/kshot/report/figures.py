"""Figures as cells, written for people once, with their marks, intervals, exact numbers and places; and as a table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat

from kshot.core.failed_parts import failure_mark, side_mark
from kshot.core.records import ResultRow
from kshot.core.visible import metric_label
from kshot.report.view import Cell, Column, Content, TableView, Tone, numbers, words
from kshot.runs.headline import finite
from kshot.runs.swept_rows import task_label

_LARGE = 1e6
"""From here on, all digits of a number would break a table."""

_LEADING_ZERO = re.compile(r"(?<!\d)0(?=\.)")


def number(value: float, digits: int, sign: str = "") -> str:
    """Write a number with so many digits after the point, or with three digits and its power of ten if it is large.

    ``sign`` is ``+`` to show it always.
    """
    return f"{value:{sign}.{digits}f}" if abs(value) < _LARGE else f"{value:{sign}.2e}"


def rounded(value: float, digits: int) -> float:
    """Return a difference as it is shown: none that is rounded to 0 has a minus."""
    return round(value, digits) + 0.0  # which turns -0.0 into 0.0


def signed(value: float, digits: int) -> str:
    """Write a difference with its sign."""
    return number(rounded(value, digits), digits, "+")


def marked_figure(row: ResultRow, digits: int = 2, side: str = "") -> str:
    """Write a figure and its mark if many samples failed; of a comparison, that of a side (``baseline``, ``run``)."""
    value, mark = (row[f"{side}_value"], side_mark(row, side)) if side else (row.get("value"), failure_mark(row))
    return ("–" if value is None else number(value, digits)) + mark


def figure_cell(
    row: ResultRow,
    digits: tuple[int, int] | None = None,
    name: str = "value",
    sign: str = "",
    *,
    source: str | None = None,
    tone: Tone = "",
) -> Cell:
    """Return a figure of a row with its interval. ``digits``: for both, if not those of all tables.

    ``name`` is ``difference`` in comparisons.
    """
    value, mark = finite(row.get(name)), failure_mark(row)
    if value is None:
        return Cell("–", mark=mark)
    ends = ends_of(row)
    if digits is None and row.get("kind") == "passages":
        written, *of_ends = _of_search(row, ends)
    else:
        more, few = digits or (2, 1)
        written, of_ends = number(value, more, sign), [number(end, few, sign) for end in ends]
    pair = [Cell(text, end, source, f"ci95.{at}") for at, (text, end) in enumerate(zip(of_ends, ends, strict=True))]
    interval = (pair[0], pair[1]) if pair else None
    return Cell(written, value, source, name, mark, tone, interval, signed=bool(sign))


def ends_of(row: ResultRow) -> Sequence[float]:
    """Return the ends of the interval of a figure, or nothing; a file of a stranger may have anything there."""
    given = row.get("ci95")
    found = [finite(end) for end in given] if isinstance(given, (list, tuple)) else []
    known = [end for end in found if end is not None]
    return known if len(known) == len(found) == len(("low", "high")) else ()


def _of_search(row: ResultRow, ends: Sequence[float]) -> list[str]:
    """Return a figure of search as it is written, and then the two ends of its interval, if it has one."""
    digits = 1 if row["value"] > 1 or max(ends, default=0) > 1 else 3
    return [f"{row['value']:.{digits}f}", *(_LEADING_ZERO.sub("", f"{end:.{digits}f}") for end in ends)]


def field_cell(row: ResultRow, name: str, digits: int | None = None, *, source: str | None = None) -> Cell:
    """Return a field of a row, such as ``n`` or ``won``, with so many digits after the point."""
    value, mark = finite(row.get(name)), failure_mark(row) if name == "value" else ""
    if value is None:
        return Cell("–", mark=mark)
    exact = row[name] if digits is None else value
    return Cell(f"{exact:,}" if digits is None else number(value, digits), exact, source, name, mark)


# ---- names ----

_OPTIONS = re.compile(r",\s*[A-Za-z_]\w*\s*=")
"""Where the options of a spec begin."""


def short_names(models: Iterable[str]) -> dict[str, str]:
    """Return a name for each model that no other has: as little of the end of its spec as that takes.

    ``hf:models/a/b`` becomes ``hf:b``, ``replay:runs.json#bm25`` becomes ``bm25``, and
    ``openai:org/m@http://host/v1,top_k=1`` becomes ``openai:m@host,top_k=1``.
    """
    forms = {model: _forms(model) for model in models}
    chosen = dict.fromkeys(forms, 0)
    while True:
        names = {model: forms[model][place] for model, place in chosen.items()}
        shared = Counter(names.values())
        longer = [model for model, name in names.items() if shared[name] > 1 and chosen[model] < len(forms[model]) - 1]
        if not longer:
            return names
        for model in longer:
            chosen[model] += 1


def _forms(model: str) -> list[str]:
    """Return the names that the spec of a model can have, from the shortest to the whole spec."""
    start = found.start() if (found := _OPTIONS.search(model)) else len(model)
    kind, colon, argument = model[:start].partition(":")
    name, _, url = argument.partition("@")
    _, slashes, address = url.partition("://")
    if kind == "replay" and "#" in argument:
        path, _, system = argument.rpartition("#")
        forms = [system, *(f"replay:{tail}#{system}" for tail in _tails(path))]
    elif slashes:
        forms = [f"{kind}:{tail}@{address.partition('/')[0]}" for tail in _tails(name)]
    else:
        forms = [f"{kind}{colon}{tail}" for tail in _tails(argument)]
    return [*(form + model[start:] for form in forms), model]


def _tails(path: str) -> list[str]:
    """Return the last part of a path, its last two parts, and so on."""
    parts = path.rstrip("/").split("/")
    return ["/".join(parts[-count:]) for count in range(1, len(parts) + 1)]


def figures_view(
    rows: Sequence[ResultRow],
    *,
    systems: Sequence[str] | None = None,
    digits: Callable[[ResultRow], tuple[int, int] | None] = lambda _: (2, 1),
    sources: Sequence[str] | None = None,
) -> TableView:
    """Return a row for each figure; there is a column of failed samples if any failed.

    ``systems`` are the names of what the figures are of, as ``model_names`` returns them; ``sources`` are their places.
    """
    failed = any(row.get("failed") for row in rows)
    lines = []
    for row, system, source in zip(rows, systems or repeat(""), sources or repeat(None), strict=False):
        figure = figure_cell(row, digits(row), source=source)
        line: list[Content] = [task_label(row), *([system] if systems else []), metric_label(row)]
        line += [field_cell(row, "n", source=source) if "n" in row else None, figure, figure]
        line += [Cell(str(row.get("failed") or ""), row.get("failed") or 0)] if failed else []
        lines.append(line)
    columns = words("task", *["model"] * bool(systems), "metric")
    columns += numbers("n", "value", "95 %")
    return TableView([*columns, *[Column("failed", "number", tone="bad")] * failed], lines)


def model_names(rows: Sequence[ResultRow], among: Sequence[ResultRow] | None = None) -> list[str] | None:
    """Return the short name of the model of each row; None if there is only one in all rows that stand together."""
    names = short_names(dict.fromkeys(str(row.get("model", "")) for row in among or rows))
    return [names[str(row.get("model", ""))] for row in rows] if len(names) > 1 else None
