"""Writes ``src/kshot/option_types.py`` from ``Settings``: ``.venv/bin/python tests/option_types.py``."""

import sys
import textwrap
from pathlib import Path

import kshot
from kshot.settings import Settings

PLACE = Path(kshot.__file__).parent / "option_types.py"
HEAD = '''"""The options of ``evaluate`` and ``preview`` with their types, for editors and type checkers.

``tests/option_types.py`` writes this file from ``Settings``, and a test compares them.
"""

from collections.abc import Sequence
from os import PathLike
from typing import Literal, TypedDict


class EvaluateOptions(TypedDict, total=False):
    """Every option of ``kshot run``, with underscores. None stands for the default."""
'''


def type_of(declared):
    """Return the type of what ``evaluate`` takes for an option."""
    if declared.choices:
        one = f"Literal[{', '.join(repr(choice).replace(chr(39), chr(34)) for choice in declared.choices)}]"
    else:
        one = f"{declared.kind.__name__} | int" if declared.numbers else declared.kind.__name__
    if declared.kind is str and any(word in (declared.metavar or "") for word in ("FILE", "PATH", "DIR")):
        return "str | PathLike[str] | " + ("Sequence[str | PathLike[str]] | None" if declared.several else "None")
    if declared.sweeps:
        kind = declared.kind.__name__
        many = f"list[{kind}] | tuple[{kind}, ...]" if kind == "str" else f"Sequence[{kind}]"
        return f"{one} | {many} | None"
    return f"{one} | list[{one}] | tuple[{one}, ...] | None" if declared.several else f"{one} | None"


def written():
    """Return the text of the module."""
    parts = [HEAD]
    for name, declared in Settings.declared().items():
        default = "" if declared.default in (None, False, ()) else f" (default: {declared.default})"
        text = (declared.help + default).replace("\\", "\\\\")
        text = text[0].upper() + text[1:]
        doc = textwrap.fill(f'"""{text}."""', 116, break_long_words=False, break_on_hyphens=False)
        line = f"    {name}: {type_of(declared)}"
        line = (
            line
            if len(line) <= 120
            else f"    {name}: (\n        {type_of(declared)}\n    )".replace(" | ", "\n        | ")
        )
        parts.append(f"\n{line}\n" + textwrap.indent(doc, "    ") + "\n")
    return "".join(parts)


if __name__ == "__main__":
    PLACE.write_text(written(), encoding="utf-8")
    sys.stdout.write(f"{PLACE}\n")
