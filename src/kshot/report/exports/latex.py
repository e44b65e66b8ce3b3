r"""The figures of runs as LaTeX tables for a paper; they need ``\usepackage{booktabs}``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kshot.core.visible import one_line
from kshot.report.exports.figures import Cell, FiguresTable

_MAX_LINES = 45
"""Lines that fit on a page; a longer table goes on on the next one."""

_NUMBERS = {"n", "failed", "p"}
"""Label columns that stand to the right."""

_SPECIAL = {character: f"\\{character}" for character in "{}$&#%_"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    '"': r"\char34{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "↓": r"$\downarrow$",
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


def latex_of(tables: Iterable[FiguresTable], label: str) -> str:
    r"""Return the tables one after the other; ``label`` is what ``\ref`` finds them by."""
    found = list(tables)
    plain = re.sub(r"[^A-Za-z0-9-]+", "-", label).strip("-") or "run"
    labels = [f"tab:{plain}" + (f"-{number}" if number > 1 else "") for number in range(1, len(found) + 1)]
    body = "\n".join(_written(table, name) for table, name in zip(found, labels, strict=True))
    packages = "booktabs, longtable" if any(_is_long(table) for table in found) else "booktabs"
    engine = (
        "" if _KNOWN.fullmatch(body) else "% Some names have characters that need XeLaTeX or LuaLaTeX and a font.\n"
    )
    return f"% Made by kshot. In the preamble: \\usepackage{{{packages}}}\n{engine}{body}"


def _is_long(table: FiguresTable) -> bool:
    return len(table.lines) > _MAX_LINES


def _written(table: FiguresTable, label: str) -> str:
    columns = "".join("r" if name in _NUMBERS else "l" for name in table.labels)
    columns += r"r@{\hspace{0.4em}}l" * len(table.columns)
    named = f"{latex_text(table.title)}. " if table.title else ""
    caption = f"\\caption{{{named}{' '.join(latex_text(note) for note in table.notes)}}}\\label{{{label}}}"
    heads = [f"${name}$" if name in {"n", "p"} else latex_text(name) for name in table.labels]
    heads += [rf"\multicolumn{{2}}{{c}}{{{latex_text(name)}}}" for name in table.columns]
    lines = [_line(labels, cells) for labels, cells in table.lines]
    if _is_long(table):
        top = [rf"\begin{{longtable}}{{{columns}}}", rf"{caption}\\", r"\toprule", f"{_joined(heads)}", r"\midrule"]
        return "\n".join([*top, r"\endhead", *lines, r"\bottomrule", r"\end{longtable}", ""])
    top = [r"\begin{table}", r"\centering", caption, rf"\begin{{tabular}}{{{columns}}}", r"\toprule", _joined(heads)]
    return "\n".join([*top, r"\midrule", *lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _line(labels: Sequence[str], cells: Iterable[Cell | None]) -> str:
    return _joined([*(latex_text(label) for label in labels), *(part for cell in cells for part in _cell(cell))])


def _joined(parts: Iterable[str]) -> str:
    return f"{' & '.join(parts)} \\\\"


def _cell(cell: Cell | None) -> tuple[str, str]:
    """Return a figure and its interval, each for a column of its own, so that points stand below each other."""
    if cell is None:
        return "", ""
    value = rf"\textbf{{{_number(cell.value)}}}" if cell.ahead else _number(cell.value)
    if cell.interval is None:
        return value, ""
    return value, rf"{{\scriptsize [{', '.join(map(_number, cell.interval))}]}}"


def _number(text: str) -> str:
    return text.replace("-", "$-$").replace("+", "$+$")
