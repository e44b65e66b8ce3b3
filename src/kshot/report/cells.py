"""Texts of tables: foreign names are literal and safe, before they are measured."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from kshot.core.visible import one_line, visible


def cell(text: object, style: str = "", **options: Any) -> Text:
    """Return a text on one line: a name, a figure, a title."""
    return Text(one_line(text), style, **options)


def block(text: str, style: str = "", **options: Any) -> Text:
    """Return a text that may have several lines: a question, an answer, a quote."""
    return Text(visible(text), style, **options)
