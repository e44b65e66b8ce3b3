"""The text that a reader of an HTML page sees."""

from __future__ import annotations

import importlib
import re
import warnings
from typing import Any

from kshot.core.errors import MissingExtra
from kshot.passages.counting import EXTRA

_DROPPED = {"head", "iframe", "noscript", "object", "script", "select", "style", "svg", "template", "textarea"}
_MARKS = {f"h{depth}": "#" * depth + " " for depth in range(1, 7)}
_PARAGRAPHS = {
    "address", "article", "aside", "blockquote", "body", "details", "dl", "fieldset", "figure", "footer", "form",
    "header", "hr", "main", "nav", "ol", "p", "pre", "section", "table", "ul",
    *_MARKS,
}  # fmt: skip
_LINES = {"br", "caption", "dd", "div", "dt", "figcaption", "legend", "li", "summary", "tr"}
_CELLS = {"td", "th"}
_HIDING = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)


def visible_text(html: str) -> str:
    """Blocks on lines of their own, headings as markdown's ``#`` lines, preformatted text as it is."""
    page = _Page()
    waiting = [(_parsed(html), False)]
    while waiting:  # no recursion: pages nest deeper than Python does
        node, leaving = waiting.pop()
        if getattr(node, "name", None) is None:
            if type(node).__name__ == "NavigableString":  # comments and the like are subclasses
                page.say(str(node))
        elif leaving:
            page.leave(node.name)
        elif node.name not in _DROPPED and not _hidden(node):
            page.enter(node.name)
            waiting.append((node, True))
            waiting.extend((child, False) for child in reversed(node.contents))
    return page.text()


def _parsed(html: str) -> Any:
    try:
        bs4: Any = importlib.import_module("bs4")
        importlib.import_module("lxml")
    except ImportError as exc:
        raise MissingExtra(exc.name or "beautifulsoup4", EXTRA, "reading HTML") from exc
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it looks like a file name, or like XML: it is read all the same
        return bs4.BeautifulSoup(html, "lxml")


def _hidden(node: Any) -> bool:
    if not node.attrs:
        return False
    return "hidden" in node.attrs or bool(_HIDING.search(str(node.attrs.get("style", ""))))


class _Page:
    """Text as it is laid out: what stands between two pieces is the strongest break asked for."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._break = self._mark = ""
        self._verbatim = 0

    def say(self, text: str) -> None:
        if self._verbatim:
            self._put(text.removeprefix("\n") if self._break else text)
            return
        words = text.split()
        if text[:1].isspace():
            self._ask(" ")
        if words:
            self._put(" ".join(words))
            if text[-1].isspace():
                self._ask(" ")

    def enter(self, tag: str) -> None:
        self._separate(tag)
        self._mark = _MARKS.get(tag, self._mark)
        self._verbatim += tag == "pre"

    def leave(self, tag: str) -> None:
        self._verbatim -= tag == "pre"
        if tag in _MARKS:
            self._mark = ""  # an empty heading leaves no trace
        self._separate(tag)

    def text(self) -> str:
        body = "".join(self._pieces)
        return body + "\n" if body else ""

    def _separate(self, tag: str) -> None:
        if tag in _PARAGRAPHS:
            self._ask("\n\n")
        elif tag in _LINES:
            self._ask("\n")
        elif tag in _CELLS:
            self._ask(" ")

    def _ask(self, wanted: str) -> None:
        if len(wanted) > len(self._break) or (wanted == "\n" and self._break == " "):
            self._break = wanted

    def _put(self, text: str) -> None:
        if not text:
            return
        if self._pieces:
            self._pieces.append(self._break)
        self._pieces += [self._mark, text]
        self._break = self._mark = ""
