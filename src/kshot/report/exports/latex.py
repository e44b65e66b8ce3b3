r"""The figures of runs as LaTeX tables for a paper; they need ``\usepackage{booktabs}``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from kshot.core.visible import one_line
from kshot.report.exports.paper_tables import NUMBER_LABELS, Cell, ColumnName, FiguresTable, joined_name

_MAX_LINES = 45
"""Lines that fit on a page; a longer table goes on on the next one."""

_MAX_BESIDE = 3
"""Figures that fit on a line with their intervals beside them; those of more figures stand below."""

_MAX_LABELS = 5
"""Label columns that fit on a line in the size of the text."""

_SPECIAL = {character: f"\\{character}" for character in "{}$&#%_"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    '"': r"\char34{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "↓": r"$\downarrow$",
    "†": r"\dag{}",
    "‡": r"\ddag{}",
}
_LIGATURE = re.compile("(?<=[-,'`?!])(?=[-,'`])")
"""Where fonts join two signs to another one: ``--``, ``?```."""

_KNOWN = re.compile("[ -~\xa0-\xaa\xac-\xba\xbc-\xcf\xd1-\xdd\xdf-\xef\xf1-\xfd\xff–—‘’“”…•\n]*")
"""The characters that pdfLaTeX knows without more packages."""


def latex_text(text: object) -> str:
    """Return a foreign text on one line, so that LaTeX prints exactly this text."""
    shown = one_line(text)
    parts = (_SPECIAL.get(character, character) for character in shown)
    start = "{}" if shown.startswith(("[", "*")) else ""  # the end of the line before would take them for its own
    return start + _LIGATURE.sub("{}", "".join(parts))


def latex_of(tables: Iterable[FiguresTable], label: str, caption: str | None = None) -> str:
    r"""Return the tables one after the other; ``label`` is what ``\ref`` finds them by.

    ``caption`` stands in the place of their titles; what explains the signs in a table follows it.
    """
    found = list(tables)
    labels = [label + (f"-{number}" if number > 1 else "") for number in range(1, len(found) + 1)]
    body = "\n".join(_written(table, name, caption) for table, name in zip(found, labels, strict=True))
    packages = "booktabs, longtable" if any(_is_long(table) for table in found) else "booktabs"
    engine = (
        "" if _KNOWN.fullmatch(body) else "% Some names have characters that need XeLaTeX or LuaLaTeX and a font.\n"
    )
    return f"% Made by kshot. In the preamble: \\usepackage{{{packages}}}\n{engine}{body}"


def label_of(run: str, part: str) -> str:
    """Return a label for the tables of a part of a run."""
    return f"tab:{re.sub('[^A-Za-z0-9-]+', '-', run).strip('-') or 'run'}-{part}"


def is_label(text: str) -> bool:
    r"""Whether LaTeX takes a text as the name of a ``\label`` in every document."""
    return re.fullmatch("[A-Za-z0-9:._/-]+", text) is not None


def _is_wide(table: FiguresTable) -> bool:
    """Whether a page has room for the table only in a smaller font."""
    return len(table.columns) > _MAX_BESIDE or len(table.labels) > _MAX_LABELS


def _narrowed(table: FiguresTable) -> FiguresTable:
    """Return a wide table without its column of metrics, if all of them are one: then the caption names it."""
    if not _is_wide(table) or "metric" not in table.labels:
        return table
    at = table.labels.index("metric")
    metrics = {joined_name(labels[at]) for labels, _ in table.lines}
    if len(metrics) != 1:
        return table
    lines = [([*labels[:at], *labels[at + 1 :]], cells) for labels, cells in table.lines]
    notes = [f"The metric is {metrics.pop()}.", *table.notes]
    return replace(table, labels=[*table.labels[:at], *table.labels[at + 1 :]], lines=lines, notes=notes)


def _is_stacked(table: FiguresTable) -> bool:
    """Whether intervals stand below their figures."""
    has_intervals = any(cell and cell.interval for _, cells in table.lines for cell in cells)
    return len(table.columns) > _MAX_BESIDE and has_intervals


def _is_long(table: FiguresTable) -> bool:
    return len(table.lines) * (2 if _is_stacked(table) else 1) > _MAX_LINES


def _written(given: FiguresTable, label: str, caption: str | None) -> str:
    table, is_wide = _narrowed(given), _is_wide(given)
    beside = not _is_stacked(table) and any(cell and cell.interval for _, cells in table.lines for cell in cells)
    columns = "".join("r" if name in NUMBER_LABELS else "l" for name in table.labels)
    columns += (r"r@{\hspace{0.4em}}l" if beside else "r") * len(table.columns)
    sentences = [_sentence(table.title if caption is None else caption), *map(latex_text, table.notes)]
    told = f"\\caption{{{' '.join(filter(None, sentences))}}}\\label{{{label}}}"
    heads = [f"${name}$" if name in {"n", "p"} else latex_text(name) for name in table.labels]
    heads += [rf"\multicolumn{{{2 if beside else 1}}}{{c}}{{{_name(name)}}}" for name in table.columns]
    size = [r"\footnotesize", r"\setlength{\tabcolsep}{3pt}"] if is_wide else []
    lines = list(_lines(table, beside=beside))
    if _is_long(table):
        head = [r"\toprule", _joined(heads), r"\midrule"]
        top = [rf"\begin{{longtable}}{{{columns}}}", rf"{told}\\", *head, r"\endfirsthead", *head, r"\endhead"]
        body = [*top, *lines, r"\bottomrule", r"\end{longtable}"]
        return "\n".join(["{", *size, *body, "}", ""] if size else [*body, ""])
    top = [r"\begin{table}", r"\centering", *size, told, rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    return "\n".join([*top, _joined(heads), r"\midrule", *lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _sentence(text: str) -> str:
    """Return a text with a full stop, if it has no end of its own."""
    return latex_text(text) + ("" if not text or text.endswith((".", "!", "?", ":")) else ".")


def _name(name: str | ColumnName, place: str = "c") -> str:
    """Return a name; parts of it stand one below the other."""
    if isinstance(name, str):
        return latex_text(name)
    parts = r"\\".join(map(latex_text, name))
    return rf"\shortstack[{place}]{{{parts}}}" if len(name) > 1 else parts


def _lines(table: FiguresTable, *, beside: bool) -> Iterator[str]:
    """Yield the lines, each with its intervals in columns of their own, or in a line of its own below."""
    stacked = _is_stacked(table)
    for labels, cells in table.lines:
        names = [_name(label, "l") for label in labels]
        if beside:
            yield _joined([*names, *(part for cell in cells for part in (_value(cell), _interval(cell)))])
            continue
        values = _joined([*names, *map(_value, cells)])
        yield values + ("*" if stacked else "")  # no page ends between a figure and its interval
        if stacked:
            yield _joined([*([""] * len(names)), *map(_interval, cells)])


def _joined(parts: Iterable[str]) -> str:
    return f"{' & '.join(parts)} \\\\"


def _value(cell: Cell | None) -> str:
    if cell is None:
        return ""
    return rf"\textbf{{{_number(cell.value)}}}" if cell.ahead else _number(cell.value)


def _interval(cell: Cell | None) -> str:
    if cell is None or cell.interval is None:
        return ""
    return rf"{{\scriptsize [{', '.join(map(_number, cell.interval))}]}}"


def _number(text: str) -> str:
    signs = {"-": "$-$", "+": "$+$", "†": r"\dag{}", "‡": r"\ddag{}"}
    return "".join(signs.get(sign, sign) for sign in text)
