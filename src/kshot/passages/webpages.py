"""The visible text of an HTML page."""

from __future__ import annotations

import importlib
import re
import warnings
from typing import Any

from kshot.core.extras import importing

HTML_PACKAGES = ("beautifulsoup4", "lxml")

_INVISIBLE_TAGS = {"head", "iframe", "noscript", "object", "script", "select", "style", "svg", "template", "textarea"}
_HEADING_MARKS = {f"h{depth}": "#" * depth + " " for depth in range(1, 7)}
_PARAGRAPH_TAGS = {
    "address", "article", "aside", "blockquote", "body", "details", "dl", "fieldset", "figure", "footer", "form",
    "header", "hr", "main", "nav", "ol", "p", "pre", "section", "table", "ul",
    *_HEADING_MARKS,
}  # fmt: skip
_LINE_TAGS = {"br", "caption", "dd", "div", "dt", "figcaption", "legend", "li", "summary", "tr"}
_CELL_TAGS = {"td", "th"}
_HIDDEN_STYLE = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)


def visible_text(html: str) -> str:
    """Return blocks on lines of their own, headings as markdown's ``#`` lines, and preformatted text as it is."""
    page = _Page()
    stack = [(_parsed(html), False)]
    while stack:  # no recursion: pages nest deeper than Python allows
        node, leaving = stack.pop()
        if getattr(node, "name", None) is None:  # only tags of bs4 have a name
            if type(node).__name__ == "NavigableString":  # comments and the like are subclasses
                page.add_text(str(node))
        elif leaving:
            page.leave(node.name)
        elif node.name not in _INVISIBLE_TAGS and not _hidden(node):
            page.enter(node.name)
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(node.contents))
    return page.text()


def _parsed(html: str) -> Any:
    with importing("reading HTML", *HTML_PACKAGES):
        bs4: Any = importlib.import_module("bs4")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # bs4 warns of text that looks like a file name or XML; it is read nevertheless
        return bs4.BeautifulSoup(html, "lxml")


def _hidden(node: Any) -> bool:
    if not node.attrs:
        return False
    return "hidden" in node.attrs or bool(_HIDDEN_STYLE.search(str(node.attrs.get("style", ""))))


class _Page:
    """Text as it is laid out: between two pieces stands the strongest break that was wanted there."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._break = self._mark = ""
        self._preformatted = 0

    def add_text(self, text: str) -> None:
        if self._preformatted:
            self._append(text.removeprefix("\n") if self._break else text)
            return
        words = text.split()
        if text[:1].isspace():
            self._want_break(" ")
        if words:
            self._append(" ".join(words))
            if text[-1].isspace():
                self._want_break(" ")

    def enter(self, tag: str) -> None:
        self._separate(tag)
        self._mark = _HEADING_MARKS.get(tag, self._mark)
        self._preformatted += tag == "pre"

    def leave(self, tag: str) -> None:
        self._preformatted -= tag == "pre"
        if tag in _HEADING_MARKS:
            self._mark = ""  # an empty heading leaves no trace
        self._separate(tag)

    def text(self) -> str:
        body = "".join(self._pieces)
        return body + "\n" if body else ""

    def _separate(self, tag: str) -> None:
        if tag in _PARAGRAPH_TAGS:
            self._want_break("\n\n")
        elif tag in _LINE_TAGS:
            self._want_break("\n")
        elif tag in _CELL_TAGS:
            self._want_break(" ")

    def _want_break(self, wanted: str) -> None:
        if len(wanted) > len(self._break) or (wanted == "\n" and self._break == " "):
            self._break = wanted

    def _append(self, text: str) -> None:
        if not text:
            return
        if self._pieces:
            self._pieces.append(self._break)
        self._pieces += [self._mark, text]
        self._break = self._mark = ""
