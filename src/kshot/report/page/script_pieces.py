"""The words, texts, signs and blanks of a script, one by one; templates are told apart from code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

_PIECES = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|/\*[\s\S]*?\*/)|(?P<other>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"""|(?P<word>[\w$]+)|(?P<sign>=>|\.\.\.|[\s\S])"""
)
_PATTERN = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])*/[a-z]*")
_BEFORE_PATTERN = "(,=:[!&|?{};+>"
"""A stroke after one of these begins a pattern; after anything else it divides."""
_IN_TEMPLATE = re.compile(r"`|\$\{|(?:\\[\s\S]|[^`\\$]|\$(?!\{))+")

Kind: TypeAlias = Literal["blank", "word", "sign", "template", "other"]


class Piece(NamedTuple):
    """A piece of a script. A comment is a blank; ``within`` is the innermost bracket around it, "${" in a template."""

    text: str
    kind: Kind
    within: str


def script_pieces(script: str) -> Iterator[Piece]:
    """Cut a script into pieces; together they are the script."""
    brackets = [""]
    at, last = 0, ""
    while at < len(script):
        within, kind = brackets[-1], "template"
        found = _IN_TEMPLATE.match(script, at) if within == "`" else None
        if found is None:
            found = (_PATTERN.match(script, at) if last and last in _BEFORE_PATTERN else None) or _PIECES.match(
                script, at
            )
            kind = (found and found.lastgroup) or "other"
        assert found is not None  # noqa: S101 - any character is a sign
        text = found.group()
        if (text in ("}", ")", "]") and kind == "sign") or (text == "`" and within == "`"):
            brackets.pop()
        elif text == "${" or (text in ("`", "{", "(", "[") and kind == "sign"):
            brackets.append(text)
        yield Piece(text, kind, within)  # type: ignore[arg-type]
        last = last if kind == "blank" else text[-1]
        at = found.end()
