"""Writes ``src/kshot/option_types.pyi`` from ``Settings``: ``.venv/bin/python tests/option_types.py``."""

import sys
import textwrap
from pathlib import Path

import kshot
from kshot.settings import Settings

PLACE = Path(kshot.__file__).parent / "option_types.pyi"
HEAD = '''"""The options of ``evaluate`` and ``preview`` with their types, for editors and type checkers.

``tests/option_types.py`` writes this file from ``Settings``, and a test compares them.
"""

from collections.abc import Sequence
from os import PathLike
from typing import Literal, TypedDict


class EvaluateOptions(TypedDict, total=False):
    """Every option of ``kshot run``, with underscores. None stands for the default."""
'''


def written():
    """Return the text of the stub."""
    parts = [HEAD]
    for name, declared in Settings.declared().items():
        default = "" if declared.default in (None, False, ()) else f" (default: {declared.default})"
        text = (declared.help + default).replace("\\", "\\\\")
        text = text[0].upper() + text[1:]
        doc = textwrap.fill(f'"""{text}."""', 116, break_long_words=False, break_on_hyphens=False)
        line = f"    {name}: {declared.annotation}"
        line = (
            line
            if len(line) <= 120
            else f"    {name}: (\n        {declared.annotation}\n    )".replace(" | ", "\n        | ")
        )
        parts.append(f"\n{line}\n" + textwrap.indent(doc, "    ") + "\n")
    return "".join(parts)


if __name__ == "__main__":
    PLACE.write_text(written(), encoding="utf-8")
    sys.stdout.write(f"{PLACE}\n")
