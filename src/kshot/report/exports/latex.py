r"""The figures of runs as LaTeX tables for a paper; they need ``\usepackage{booktabs}``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from kshot.core.visible import one_line
from kshot.report.view import Cell, TableView, cell_of

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


def latex_of(tables: Iterable[TableView], label: str, caption: str | None = None) -> str:
    r"""Return the tables one after the other; ``label`` is what ``\ref`` finds them by.

    ``caption`` stands in the place of their titles; what explains the signs in a table follows it.
    """
    found = list(map(_Layout, tables))
    labels = [label + (f"-{number}" if number > 1 else "") for number in range(1, len(found) + 1)]
    body = "\n".join(_written(table, name, caption) for table, name in zip(found, labels, strict=True))
    packages = "booktabs, longtable" if any(table.is_long for table in found) else "booktabs"
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


class _Layout:
    """Where the names and figures of a table stand. A wide one needs a smaller font, and a long one several pages.

    The intervals of a few figures stand beside them, and those of more figures are ``stacked`` below them.
    """

    def __init__(self, given: TableView) -> None:
        count = sum(column.kind == "figure" for column in given.columns)  # they stand at the end
        self.is_wide = count > _MAX_BESIDE or len(given.columns) - count > _MAX_LABELS
        table = self.table = _with_one_metric(given) if self.is_wide else given
        first = len(table.columns) - count
        self.names, self.heads = table.columns[:first], table.columns[first:]
        self.figures = [[cell if isinstance(cell, Cell) else None for cell in row[first:]] for row in table.rows]
        has_intervals = any(cell and cell.interval for cells in self.figures for cell in cells)
        self.stacked = has_intervals and count > _MAX_BESIDE
        self.beside = has_intervals and not self.stacked
        self.is_long = len(table.rows) * (2 if self.stacked else 1) > _MAX_LINES


def _with_one_metric(table: TableView) -> TableView:
    """Return a table without its column of metrics, if all of them are one: then the caption names it."""
    metrics = {each.written for each in table.cells("metric")} if "metric" in table else set()
    if len(metrics) != 1:
        return table
    return replace(table.without("metric"), notes=[f"The metric is {metrics.pop()}.", *table.notes])


def _written(found: _Layout, label: str, caption: str | None) -> str:
    table = found.table
    columns = "".join("l" if name.kind == "words" else "r" for name in found.names)
    columns += (r"r@{\hspace{0.4em}}l" if found.beside else "r") * len(found.heads)
    sentences = [_sentence(table.title if caption is None else caption), *map(latex_text, table.notes)]
    told = f"\\caption{{{' '.join(filter(None, sentences))}}}\\label{{{label}}}"
    heads = [f"${name.heading}$" if name.heading in {"n", "p"} else latex_text(name.heading) for name in found.names]
    spanned = 2 if found.beside else 1
    heads += [rf"\multicolumn{{{spanned}}}{{c}}{{{_name(each.heading, each.parts)}}}" for each in found.heads]
    size = [r"\footnotesize", r"\setlength{\tabcolsep}{3pt}"] if found.is_wide else []
    lines = list(_lines(found))
    if found.is_long:
        head = [r"\toprule", _joined(heads), r"\midrule"]
        top = [rf"\begin{{longtable}}{{{columns}}}", rf"{told}\\", *head, r"\endfirsthead", *head, r"\endhead"]
        body = [*top, *lines, r"\bottomrule", r"\end{longtable}"]
        return "\n".join(["{", *size, *body, "}", ""] if size else [*body, ""])
    top = [r"\begin{table}", r"\centering", *size, told, rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    return "\n".join([*top, _joined(heads), r"\midrule", *lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _sentence(text: str) -> str:
    """Return a text with a full stop, if it has no end of its own."""
    return latex_text(text) + ("" if not text or text.endswith((".", "!", "?", ":")) else ".")


def _name(text: str, parts: Sequence[str], place: str = "c") -> str:
    """Return a name; parts of it stand one below the other."""
    if len(parts) < len(("above", "below")):
        return latex_text(text)
    stacked = r"\\".join(map(latex_text, parts))
    return rf"\shortstack[{place}]{{{stacked}}}"


def _lines(found: _Layout) -> Iterator[str]:
    """Yield the lines, each with its intervals in columns of their own, or in a line of its own below."""
    for row, cells in zip(found.table.rows, found.figures, strict=True):
        names = [_name(each.written, each.parts, "l") for each in map(cell_of, row[: len(found.names)])]
        if found.beside:
            yield _joined([*names, *(part for cell in cells for part in (_value(cell), _interval(cell)))])
            continue
        values = _joined([*names, *map(_value, cells)])
        yield values + ("*" if found.stacked else "")  # no page ends between a figure and its interval
        if found.stacked:
            yield _joined([*([""] * len(names)), *map(_interval, cells)])


def _joined(parts: Iterable[str]) -> str:
    return f"{' & '.join(parts)} \\\\"


def _value(cell: Cell | None) -> str:
    if cell is None:
        return ""
    return rf"\textbf{{{_number(cell.written)}}}" if cell.tone == "strong" else _number(cell.written)


def _interval(cell: Cell | None) -> str:
    if cell is None or cell.interval is None:
        return ""
    return rf"{{\scriptsize [{', '.join(_number(end.text) for end in cell.interval)}]}}"


def _number(text: str) -> str:
    signs = {"-": "$-$", "+": "$+$", "†": r"\dag{}", "‡": r"\ddag{}"}
    return "".join(signs.get(sign, sign) for sign in text)
