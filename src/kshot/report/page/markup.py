"""HTML that is safe by construction: texts are escaped where they enter, and what would hide is shown as an escape."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup, escape

from kshot.core.visible import one_line, visible


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page with a heading; ``id`` is its anchor."""

    id: str
    title: str
    html: Markup


def text(value: object) -> Markup:
    """Return a foreign name or message on one line, safe within HTML and within the value of an attribute."""
    return escape(one_line(value))


def lines(value: object) -> Markup:
    """Return a foreign text of several lines, safe within HTML."""
    return escape(visible(str(value)))


def tag(name: str, *inner: Markup | str, **attributes: object) -> Markup:
    """Return an element. Texts are escaped; an attribute that is None is left out.

    ``class_`` is the attribute ``class``; an underscore within a name is a hyphen: ``aria_label``, ``data_row``.
    """
    given = {each.rstrip("_").replace("_", "-"): value for each, value in attributes.items() if value is not None}
    written = "".join(f' {each}="{text(value)}"' for each, value in given.items())
    # A report has thousands of elements: joining texts that are escaped takes a third of the time of Markup.format.
    return Markup(f"<{name}{written}>{together(inner)}</{name}>")  # noqa: S704 - its parts are escaped


def together(parts: Iterable[Markup | str]) -> Markup:
    """Join pieces of HTML; texts among them are escaped."""
    return Markup("").join(part if isinstance(part, Markup) else lines(part) for part in parts)


def command(line: str) -> Markup:
    """Return a command as code: a line is broken between its words, never within ``--out``."""
    words = Markup(" ").join(tag("span", word) for word in line.split(" "))
    return tag("pre", tag("code", words), class_="command")


def figure(value: float | None, written: str, field: str | None = None) -> Markup:
    """Return a number as people read it, which carries its exact value: ``<data value="66.66666666666667">66.67``.

    ``field``: what it is called in its row of ``summary.json`` (``value``, ``n``, ``ci95.0``); an element around it
    names the row as ``data-row``.
    """
    if value is None:
        return tag("span", written, class_="none")
    return tag("data", written, value=repr(value), data_field=field)
