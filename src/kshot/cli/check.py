"""``kshot check CONFIG…``: what of each entry of a config would run, by whose code, and what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kshot.configs.checking import EntryCheck

_OPTIONS = frozenset(("data", "dataset_path", "home", "config_root", "allow_download", "only", "model_type", "limit"))


_NAMED = 3
"""How many entries a message names."""


def add(commands: Any) -> None:
    """Declare the command and its arguments."""
    from kshot.cli.settings_options import add_settings

    command = commands.add_parser(
        "check",
        help="say of each entry of a config whether it would run, by whose code, and what is missing",
        description="Say of each entry of configs: its prompts, its data, what scores it and by whose code, and what "
        "is missing. No model is asked. The exit code is 1 if something is missing.",
    )
    command.add_argument("config", nargs="+", metavar="CONFIG.py", help="config files of AISBench or OpenCompass")
    command.add_argument("--json", action="store_true", help="print one JSON object for each entry")
    add_settings(command, only=_OPTIONS)


def execute(parsed: argparse.Namespace) -> int:
    """Check every entry; 1 where something is missing."""
    from kshot.cli.settings_options import settings_of
    from kshot.cli.streams import say
    from kshot.configs.source import ConfigSource
    from kshot.core.visible import visible_json
    from kshot.sources import source_of

    settings = settings_of(parsed)
    lacking = False
    for config in parsed.config:
        source = source_of(config, settings)
        if not isinstance(source, ConfigSource):
            from kshot.core.errors import UsageError

            raise UsageError("it is not a config file", where=config, hint="kshot check takes CONFIG.py files.")
        for note in source.announcements():
            say(note)
        checks = []
        for check in source.checks(settings):
            checks.append(check)
            if parsed.json:
                print(visible_json({"config": config, **check.plain()}))
        if not parsed.json:
            _show(config, checks)
        lacking = lacking or any(check.missing for check in checks)
    return int(lacking)


def _show(config: str, checks: Sequence[EntryCheck]) -> None:
    """Print a table that fits the terminal, then what is missing, once for all entries that lack it."""
    from rich.table import Table

    from kshot.cli.screen import Screen
    from kshot.report.cells import cell

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 1))
    for name in ("entry", "prompts", "data", "evaluation"):
        table.add_column(name, overflow="fold")
    for check in checks:
        cells = [check.entry, check.prompts or "–", check.data or "–", check.evaluation or "–"]
        table.add_row(*map(cell, cells), style="" if not check.missing else "yellow")
    out = Screen()
    out.print(table)
    lacking: dict[str, list[str]] = {}
    for check in checks:
        for message in check.missing:
            lacking.setdefault(message.replace(check.entry, "ENTRY"), []).append(check.entry)
    for message, entries in lacking.items():
        more = len(entries) - _NAMED
        shown = ", ".join(entries[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        out.print(cell(f"{shown}: {message.replace('ENTRY', entries[0])}", "yellow"), soft_wrap=True)
    runnable = sum(not check.missing for check in checks)
    out.print(cell(f"{config}: {runnable} of {len(checks)} entries would run"))
