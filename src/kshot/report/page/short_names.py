"""Scripts with short names for what they alone know: each becomes a letter wherever it stands."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from string import ascii_letters

from kshot.report.page.script_pieces import Piece, script_pieces

_NAME = re.compile(r"[A-Za-z_$][\w$]*")


def with_short_names(script: str) -> str:
    """Return a script that does the same with shorter names.

    A name is replaced if the script declares it within a block and never uses the same word for anything that others
    may know: a member (``a.name``), a key (``{ name: 1 }``), or the short form of both (``{ name }``). Whatever is not
    clear from the words beside it keeps its name.
    """
    pieces = list(script_pieces(script))
    words = [piece for piece in pieces if piece.kind != "blank"]
    uses = Counter(piece.text for piece in words if piece.kind == "word" and _NAME.fullmatch(piece.text))
    free = _free_names(uses)
    names = sorted(_own_names(words), key=lambda name: (-uses[name] * len(name), name))
    short = {name: other for name, other in zip(names, free, strict=False) if len(other) < len(name)}
    return "".join(short.get(piece.text, piece.text) if piece.kind == "word" else piece.text for piece in pieces)


def _free_names(uses: Counter[str]) -> Iterator[str]:
    yield from (letter for letter in ascii_letters if letter not in uses)
    yield from (name for name in (f"${letter}" for letter in ascii_letters) if name not in uses)


def _own_names(words: Sequence[Piece]) -> set[str]:
    declared = set(_parameters(words))
    known: set[str] = {"async"}
    ends = Piece("", "sign", "")
    lists = False  # whether the words stand in a list of names, as in "const [a, b] ="
    for before, word, after in zip([ends, *words], words, [*words[1:], ends], strict=False):
        if before.text in ("const", "let"):
            lists = word.text == "["
        elif word.text == "]":
            lists = False
        if word.kind != "word":
            continue
        if before.text in ("const", "let") or (lists and word.within == "[") or after.text == "=>":
            (declared if word.within else known).add(word.text)
        if _is_known(before, word, after.text):
            known.add(word.text)
    return declared - known


def _parameters(words: Sequence[Piece]) -> Iterator[str]:
    """Yield the names of what functions take, ``(a, b) =>``; those in a list or of members are left out."""
    opened: list[list[str]] = []
    for at, word in enumerate(words):
        if word.kind == "sign" and word.text == "(":
            opened.append([])
        elif word.kind == "sign" and word.text == ")":
            names = opened.pop()
            yield from names if words[at + 1 : at + 2] and words[at + 1].text == "=>" else ()
        elif word.kind == "word" and word.within == "(" and words[at - 1].text in ("(", ","):
            opened[-1].append(word.text)


def _is_known(before: Piece, word: Piece, after: str) -> bool:
    """Whether a word is a member or a key, or may be one."""
    if before.text in (".", "async", "function", "get", "set"):
        return True
    return word.within == "{" and before.text in ("{", ",") and after in (",", "}", "=", "(", ":")
