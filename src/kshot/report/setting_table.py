"""What differs between the settings of runs, as a table or, for many runs, as a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Group, RenderableType

from kshot.core.options import flag
from kshot.core.visible import one_line
from kshot.report.cells import cell, cut, shared_start
from kshot.report.drawn_table import drawn
from kshot.report.sample_look import written
from kshot.report.view import Column, TableView, words

_MIN_COLUMN = 16
"""A value that gets fewer terminal columns than this cannot be read; then the settings are a list."""

_MAX_VALUE = 60
_MAX_NAME = 28
_CONTEXT = 12
"""Characters before the first difference that are shown of long texts."""

_LONGEST = 500
"""Characters that may have to be measured: no terminal is wider."""

_SPACE = 2


def settings_view(settings: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> TableView:
    """Return settings down and runs across, with whole values."""
    rows = [[setting_name(row), *(setting_text(value, row) for value in row["values"])] for row in settings]
    return TableView(words("setting", *labels), rows)


def setting_table(settings: Sequence[Mapping[str, Any]], labels: Sequence[str], width: int) -> RenderableType:
    """Draw the settings that differ: settings down, runs across where there is room."""
    names = [cut(setting_name(row), _MAX_NAME) for row in settings]
    own = max(map(cell_len, ("setting", *names)))
    room = (width - own) // max(len(labels), 1) - _SPACE
    title = cell("What differs between the settings", "bold")
    if room < _MIN_COLUMN:
        return Group(title, _listed(settings, names, labels, width))
    room = min(room, _MAX_VALUE)
    columns = [Column(name, wraps=False) for name in ("setting", *(cut(label, room) for label in labels))]
    rows = [[name, *shown_values(row, room)] for name, row in zip(names, settings, strict=True)]
    return Group(title, drawn(TableView(columns, rows)))


def _listed(
    settings: Sequence[Mapping[str, Any]], names: Sequence[str], labels: Sequence[str], width: int
) -> RenderableType:
    """Draw a line for each value of each setting, with the runs that have it."""
    lines = []
    for name, row in zip(names, settings, strict=True):
        values = shown_values(row, max(width // 3, _MIN_COLUMN))
        for at, value in enumerate(dict.fromkeys(values)):
            having = ", ".join(label for label, each in zip(labels, values, strict=True) if each == value)
            lines.append(["" if at else name, value, having])
    return drawn(TableView(words("setting", "value", "runs"), lines))


def setting_name(row: Mapping[str, Any]) -> str:
    """Return the name of a setting; options as the command line writes them."""
    name: str = row["setting"]
    return one_line(flag(name) if "default" in row else name)


def shown_values(row: Mapping[str, Any], room: int) -> list[str]:
    """Return the values for so many terminal columns: of long texts what begins shortly before the first difference."""
    texts = [setting_text(value, row) for value in row["values"]]
    if all(len(text) <= room and cell_len(text) <= room for text in texts):
        return texts
    same = shared_start(*texts)
    start = max(len(same) - _CONTEXT, 0) if len(same) + _CONTEXT > room else 0
    ends = [text[start : start + _LONGEST] for text in texts]
    return [cut(f"…{end}" if start else end, room) for end in ends]


def setting_text(value: Any, row: Mapping[str, Any]) -> str:
    """Return the value that a run has of a setting; None is its default, if it is known."""
    if value is None and row.get("default") is not None:
        value = row["default"]
    elif value is None:
        return "not set" if "default" in row else "–"
    if isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value):
        return one_line(", ".join(value))
    return one_line(written(value))
