"""One sample of each way: how many functions, modules and returns there are on the way, and what is imported.

These are reported, and never a failure: they are meant to fall. ``tests/frozen/follow.py`` says what is counted.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType

from tests.frozen.cases import Cases
from tests.frozen.follow import PARTS
from tests.frozen.materials import write_materials

WAYS = {
    "class": "run -m embedded -d examples/planets.py:Planets --limit 1",
    "config": "run -m embedded opencompass/configs/datasets/gsm8k/gsm8k_gen.py --limit 1",
    "lm-eval": "run -m embedded -d lmeval:planets --lmeval-root examples/lmeval --limit 1",
    "passages": "run -m fts5 -d handbook --limit 1",
    "lookup": "run -m embedded -d lookup:UR --length 10 --limit 1",
}
_IMPORTS = "imports "
_MADE = ("_", "kshot_plugin_")
"""How names of modules begin that are made while a program runs."""
_MOST = 8


def make(cases: Cases) -> None:
    """Add the counts, and for each module the ways that import it."""
    if not hasattr(CodeType, "co_qualname"):
        cases.skip("", "Python 3.11 is the first that names the function of a call")
        return
    write_materials()
    Path("temporary").mkdir()
    os.environ |= {"TMPDIR": str(Path("temporary").absolute()), "PYTHONHASHSEED": "0"}
    imports = defaultdict(list)
    for way, command in WAYS.items():
        words = [sys.executable, "-m", "tests.frozen.follow", *shlex.split(command), "--out", way]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=600)
        found = json.loads(done.stdout.splitlines()[-1])
        for part, counts in found["counts"].items():
            cases.note(f"{way} {part}", "/".join(map(str, counts)))
        for name in found["imported"]:
            if not name.startswith(_MADE):
                imports[name].append(way)
    for name, ways in imports.items():
        cases.note(f"{_IMPORTS}{name}", ",".join(ways))


def report(recorded: Mapping[str, str], found: Mapping[str, str]) -> Iterator[str]:
    """Yield what is counted now, with what was recorded, and how the imports differ."""
    if not found:
        return
    yield "walk: functions/modules/returns/calls before, in and after the run of one sample (recorded)"
    for way in WAYS:
        parts = []
        for part in PARTS:
            now, before = (each.get(f"{way} {part}", "0/0/0/0") for each in (found, recorded))
            parts.append(now if now == before else f"{now} ({before})")
        yield f"  {way:8}  {'  '.join(parts)}"
    for way in WAYS:
        sets = [
            {name for name, ways in each.items() if name.startswith(_IMPORTS) and way in ways.split(",")}
            for each in (recorded, found)
        ]
        for sign, names in (("+", sets[1] - sets[0]), ("-", sets[0] - sets[1])):
            if names:
                shown = sorted(name.removeprefix(_IMPORTS) for name in names)
                more = f" and {len(shown) - _MOST} more" if len(shown) > _MOST else ""
                yield f"  {way:8}  imports {sign}{len(shown)}: {', '.join(shown[:_MOST])}{more}"
