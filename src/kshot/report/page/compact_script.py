"""Scripts and style sheets as browsers get them: without comments, and without the blanks that only people need.

This is no compiler: names and statements stay as they are, so that a browser's tools still show something readable.
"""

from __future__ import annotations

import re

_PIECES = re.compile(
    r"""(?P<comment>//[^\n]*|/\*[\s\S]*?\*/)|(?P<blank>\s+)|(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"""|(?P<word>[\w$]+)|(?P<sign>[\s\S])"""
)
_PATTERN = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])*/[a-z]*")
_BEFORE_PATTERN = "(,=:[!&|?{};+>"
"""A stroke after one of these begins a pattern; after anything else it divides."""
_WORDS_OF_TEMPLATE = re.compile(r"(?:\\[\s\S]|[^`\\$]|\$(?!\{))+")
_OPEN, _CLOSED = "{(,;[=&|?:>", "})],;.?:&|="
"""No line need end after the first ones, or before the others: what is there does not end a statement."""


def compact_script(script: str) -> str:
    """Return a script that does the same; texts and patterns in it stay as they are, templates lose their indents."""
    out: list[str] = []
    inside: list[str] = []  # braces and templates that are open
    at, blank, last = 0, "", ""
    while at < len(script):
        if inside and inside[-1] == "`":
            piece, at = _template_piece(script, at, inside)
            out.append(piece)
            last = piece[-1:]
            continue
        found = _PATTERN.match(script, at) if last in _BEFORE_PATTERN else None
        found = found or _PIECES.match(script, at)
        assert found is not None  # noqa: S101 - any character is a sign
        piece, at = found.group(), found.end()
        if found.lastgroup in ("comment", "blank"):
            blank = "\n" if "\n" in (piece + blank) else " "
            continue
        out.append(_between(last, blank, piece[0]))
        out.append(piece)
        last, blank = piece[-1], ""
        if piece in ("`", "{"):
            inside.append(piece)
        elif piece == "}":
            inside.pop()
    return "".join(out) + "\n"


def _template_piece(script: str, at: int, inside: list[str]) -> tuple[str, int]:
    """Return the next piece of a template, and where it ends: words, the beginning of a value, or its end."""
    words = _WORDS_OF_TEMPLATE.match(script, at)
    if words:
        lines = re.sub(r"\n\s+", "\n", words.group())
        return lines.replace(">\n", ">").replace("\n<", "<"), words.end()
    if script[at] == "`":
        inside.pop()
        return "`", at + 1
    inside.append("{")
    return "${", at + 2


def _between(before: str, blank: str, after: str) -> str:
    """Return what must stay of the blanks between two pieces."""
    if blank == "\n" and before and before not in _OPEN and after not in _CLOSED:
        return "\n"
    words = re.fullmatch(r"[\w$]{2}", before + after)
    return " " if blank and (words or (before == after and before in "+-")) else ""


def compact_style(style: str) -> str:
    """Return a style sheet without comments and indents."""
    return re.sub(r"^\s+", "", re.sub(r"/\*[\s\S]*?\*/", "", style), flags=re.MULTILINE)
