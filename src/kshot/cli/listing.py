"""``kshot list``: what can be named, and where it comes from."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from kshot.cli.parser import KINDS, LISTED
from kshot.cli.streams import show, show_json
from kshot.core.visible import one_line

if TYPE_CHECKING:
    import argparse

    from kshot.core.registry import Registry


def add(shown: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    shown.add_argument("what", choices=LISTED, help="the kind of thing to show (lmeval: tasks, groups and tags)")
    shown.add_argument("--json", action="store_true", help="print JSON")
    shown.add_argument("--lmeval-root", metavar="DIR", help="folder of lm-eval's task files, or of your own")


def execute(parsed: argparse.Namespace) -> int:
    """Print a line for each name."""
    if parsed.what == "lmeval":
        from kshot.lmeval.tree import listed

        entries = [
            {"name": f"lmeval:{name}", "text": text, "from": "kshot"} for name, text in listed(parsed.lmeval_root)
        ]
    else:
        entries = _entries(parsed.what)
    if parsed.json:
        show_json(entries, indent=2)
        return 0
    from rich.cells import cell_len, set_cell_size

    names = [one_line(entry["name"]) for entry in entries]
    width = max(map(cell_len, names), default=0)
    packages = any(entry["from"] != "kshot" for entry in entries)
    for name, entry in zip(names, entries, strict=True):
        origin = f"  [{entry['from']}]" if packages else ""
        show(f"{set_cell_size(name, width)}  {one_line(entry['text'] + origin)}".rstrip())
    return 0


def _entries(kind: str) -> list[dict[str, str]]:
    """Return what ``kshot list`` shows: for each entry its spec, one line of text, and the package it comes from."""
    from kshot.core.registry import described

    module, _, name = KINDS[kind].partition(":")
    registry: Registry = getattr(importlib.import_module(module), name)
    entries = [described(entry) for entry in registry.entries()]
    others = {entry.name: [each.name for each in entries if each.same_as == entry.name] for entry in entries}
    found = [
        {
            "name": entry.written,
            "text": f"{entry.text} Also: {', '.join(others[entry.name])}." if others[entry.name] else entry.text,
            "from": entry.origin,
        }
        for entry in entries
        if not entry.same_as
    ]
    if kind != "datasets":
        return found
    from kshot.passages import BENCHMARKS

    whole = {"lookup": "Token lookup: which character stands beside the query? Six tasks.", **BENCHMARKS}
    return [*({"name": name, "text": text, "from": "kshot"} for name, text in whole.items()), *found]
