"""Scripts and style sheets as browsers get them: without comments, blanks and long names, which only people need.

This is no compiler: statements, and all names that another script may know, stay as they are.
"""

from __future__ import annotations

import re

from kshot.report.page.script_pieces import script_pieces
from kshot.report.page.short_names import with_short_names

_CLOSING_TAG = re.compile(r"</[a-zA-Z]\w*>")
_QUOTED_WORD = re.compile(r"""(\s[\w-]+=)"([\w-]+)"(?=[\s>]|/>)""")
"""htm reads neither the names of closing tags nor the quotes around one word."""
_OPEN, _CLOSED = "{(,;[=&|?:>", "})],;.?:&|="
"""No line need end after the first ones, or before the others: what is there does not end a statement."""


def compact_script(script: str) -> str:
    """Return a script that does the same; texts and patterns in it stay as they are.

    Templates are those of htm: they lose their indents, the names of closing tags, and quotes around one word.

    Statements end with ";". A loop without a body, as in ``while (next());``, would lose its end: write ``{}``.
    """
    compact = _CompactScript()
    for text, kind, _ in script_pieces(with_short_names(script)):
        if kind == "template":
            compact.add_template(text)
        else:
            compact.add(text, blank=kind == "blank")
    return "".join(compact.out) + "\n"


class _CompactScript:
    """Collects the pieces of a script, and leaves out what nobody needs."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self._blank = ""
        self._statements = [""]  # the first word of each statement that is open
        self._ended = ""  # the first word of the statement that ended last

    @property
    def last(self) -> str:
        """The last character."""
        return self.out[-1][-1] if self.out else ""

    def add_template(self, piece: str) -> None:
        """Add words of a template, the beginning of a value in it, or its end."""
        if piece == "${":
            self._statements.append("")
        elif piece == "`":
            self._statements.pop()
        lines = re.sub(r"\n\s+", "\n", piece).replace(">\n", ">").replace("\n<", "<")
        self.out.append(_QUOTED_WORD.sub(r"\1\2", _CLOSING_TAG.sub("</>", lines)).replace(" />", "/>"))

    def add(self, piece: str, *, blank: bool) -> None:
        """Add a piece of code."""
        if blank:
            self._blank = "\n" if "\n" in (piece + self._blank) else " "
            return
        between, self._blank = _between(self.last, self._blank, piece[0]), ""
        if between == "\n":
            self._statements[-1] = "unknown"
        if piece == "const" and not self._statements[-1] and self._ended == "const" and self.last == ";":
            self._statements[-1] = piece
            self.out[-1] = ","  # one declaration of several names
            return
        self.out += [between] * bool(between)
        self._shorten(piece)
        self.out.append(piece)
        self._follow(piece)

    def _follow(self, piece: str) -> None:
        if piece in ("`", "{", "(", "["):
            self._statements[-1] = self._statements[-1] or piece
            self._statements.append("")
        elif piece in ("}", ")", "]"):
            self._statements.pop()
        elif piece == ";":
            self._ended, self._statements[-1] = self._statements[-1], ""
        else:
            self._statements[-1] = self._statements[-1] or piece

    def _shorten(self, piece: str) -> None:
        """Take back the last ";" or "," within brackets, and the brackets around the only name of a function."""
        out, last = self.out, self.last
        needless = (last == ";" and piece == "}") or (last == "," and piece in "}])" and out[-2] not in ("[", ","))
        if needless:
            out.pop()
        elif piece == "=>" and last == ")" and out[-3] == "(" and not (out[-4:-3] and _is_word(out[-4])):
            out[-3:] = [out[-2]] if _is_word(out[-2]) else out[-3:]


def _is_word(piece: str) -> bool:
    return re.fullmatch(r"[\w$]+", piece) is not None


def _between(before: str, blank: str, after: str) -> str:
    """Return what must stay of the blanks between two pieces."""
    if blank == "\n" and before and before not in _OPEN and after not in _CLOSED:
        return "\n"
    words = re.fullmatch(r"[\w$]{2}", before + after)
    return " " if blank and (words or (before == after and before in "+-")) else ""


def compact_style(style: str) -> str:
    """Return a style sheet without comments and indents."""
    return re.sub(r"^\s+", "", re.sub(r"/\*[\s\S]*?\*/", "", style), flags=re.MULTILINE)
