"""``kshot check CONFIG…``: what of each entry of a config, or task of a tree, would run, and what is missing."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kshot.core import interrupts
from kshot.core.errors import KshotError, UsageError, unforeseen
from kshot.core.visible import listed, one_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from rich.table import Table

    from kshot.configs.models import ModelEntry
    from kshot.configs.source import ConfigSource
    from kshot.core.entry_checks import EntryCheck
    from kshot.datasets.rows.source import RowsSource
    from kshot.lmeval.source import LmevalSource
    from kshot.settings import Settings

_OPTIONS = frozenset(
    (
        *("data", "dataset_path", "home", "config_root", "allow_download", "only", "model_type", "limit", "judge"),
        *("lmeval_root", "num_fewshot"),
        *("question", "options", "answer", "answer_as", "target", "instruction", "metric", "evaluation_set"),
    )
)

_NAMED = 3
"""How many entries a message names."""
_MOST_OF_A_NAME = 40
"""Columns that names of entries have, before any of them is broken."""


@dataclass(frozen=True, slots=True)
class _ModelCheck:
    """A model that the config lists: what opens it, or why nothing does."""

    name: str
    kind: str
    gets: str
    spec: str
    fault: str = ""

    def plain(self) -> dict[str, Any]:
        """Return it as plain values."""
        missing = [self.fault] if self.fault else []
        return {
            "model": self.name,
            "class": self.kind,
            "prompts": self.gets,
            "opened_as": self.spec,
            "missing": missing,
        }


@dataclass(slots=True)
class _FileCheck:
    """What there is to say of one file."""

    config: str
    entries: list[EntryCheck] = field(default_factory=list)
    models: list[_ModelCheck] = field(default_factory=list)
    fault: str = ""

    @property
    def runnable(self) -> int:
        """How many entries would run."""
        return sum(not check.missing for check in self.entries)

    @property
    def said(self) -> list[str]:
        """Why it cannot be loaded, and what may be meant otherwise in its entries."""
        notes = [f"{check.entry}: {note}" for check in self.entries for note in check.notes]
        return [self.fault, *notes] if self.fault else notes

    def plain(self) -> Iterator[dict[str, Any]]:
        """Yield its entries and its models as plain values; an entry without a name has the error of the file."""
        from kshot.core.entry_checks import EntryCheck, Lack

        if self.fault:
            broken = EntryCheck("", "", "", "", missing=(Lack("file", self.fault, ()),))
            yield {"config": self.config, **broken.plain(), "error": self.fault}
        yield from ({"config": self.config, **entry.plain()} for entry in self.entries)
        yield from ({"config": self.config, **model.plain()} for model in self.models)

    @property
    def lacks(self) -> bool:
        """Whether something of the file would not run."""
        return bool(self.fault) or self.runnable < len(self.entries) or any(model.fault for model in self.models)


def add(command: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    from kshot.cli.parser import add_settings

    command.description = (
        "Say of each entry of configs, and of each task of lm-eval: its prompts, its data, what scores it "
        "and by whose code, and what is missing; of a table, every row that cannot be used. Neither a model nor the "
        "hub is asked. The exit code is 1 if something is missing."
    )
    command.add_argument(
        "config",
        nargs="+",
        metavar="CONFIG.py|lmeval:NAME|ROWS.csv",
        help="config files of AISBench or OpenCompass, names, files and folders of lm-eval's tasks, or tables of rows",
    )
    command.add_argument("--json", action="store_true", help="print one JSON object for each entry and model")
    add_settings(command, only=_OPTIONS)


def execute(parsed: argparse.Namespace) -> int:
    """Check every entry of every file; 1 where something is missing. A file that cannot be loaded is not the last."""
    from kshot.cli.parser import settings_of
    from kshot.cli.streams import say

    settings = settings_of(parsed)
    said: set[str] = set()
    files: list[_FileCheck] = []
    for config in dict.fromkeys(parsed.config):
        try:
            file = _checked(config, settings, said)
        except UsageError as exc:
            if parsed.json:
                _show_json(_FileCheck(config, fault=str(exc)))
            raise
        files.append(file)
        for line in file.said:
            say(line)
        if parsed.json:
            _show_json(file)
        elif not file.fault:
            _show(file, first=len(files) == 1)
    if len(files) > 1 and not parsed.json:
        _show_sum(files)
    return int(any(file.lacks for file in files))


# ---- finding out ----


def _checked(config: str, settings: Settings, said: set[str]) -> _FileCheck:
    """Check a file. What it announces is told once, for all files that announce the same."""
    from kshot.cli.streams import say
    from kshot.configs.source import ConfigSource

    file = _FileCheck(config)
    source = None
    try:
        source = _source(config, settings)
        for note in source.announcements():
            if note not in said:
                said.add(note)
                say(note)
        if isinstance(source, ConfigSource):
            listed = [] if source.config.not_run else source.model_entries  # they would be for others, too
            file.models = [_model(entry, settings) for entry in listed]
            file.entries = [*source.checks(settings, _judge(source, settings))]
        else:
            file.entries = [*source.checks(settings)]
    except UsageError:  # an option that cannot be used is wrong for all files
        raise
    except KshotError as exc:
        file.fault = str(exc)
    except BrokenPipeError:
        raise
    except Exception as exc:
        if interrupts.received() is not None or os.environ.get("KSHOT_DEBUG"):
            raise
        file.fault = f"{one_line(config)}: {unforeseen(exc)}"
    finally:
        if source is not None:
            source.close()
    return file


def _source(config: str, settings: Settings) -> ConfigSource | LmevalSource | RowsSource:
    from kshot.core.specs import parse_spec

    if parse_spec(config).name == "lmeval":
        from kshot.lmeval.source import LmevalSource

        return LmevalSource(config, settings.lmeval_root)
    from kshot.configs.source import ConfigSource
    from kshot.datasets.rows.source import RowsSource
    from kshot.sources import source_of

    source = source_of(config, settings)
    if isinstance(source, RowsSource):
        return source
    if not isinstance(source, ConfigSource):
        hint = "kshot check takes CONFIG.py files, lmeval:NAME, and tables of rows."
        raise UsageError("it is not a config file", where=config, hint=hint)
    return source


def _model(entry: ModelEntry, settings: Settings) -> _ModelCheck:
    gets = "messages" if (settings.model_type or entry.model_type) == "chat" else "text"
    try:
        spec = entry.spec
        _check_opened("model", spec, settings)
    except KshotError as exc:
        return _ModelCheck(entry.abbr, entry.kind, "", "", str(exc))
    return _ModelCheck(entry.abbr, entry.kind, gets, spec)


def _judge(source: ConfigSource, settings: Settings) -> str | KshotError | None:
    """Return the judge that a run would ask, or why it cannot be opened."""
    try:
        judge = settings.judge or next(iter(source.judges), None)
        if judge is not None:
            _check_opened("judge", judge, settings)
    except KshotError as exc:
        exc.where = "" if exc.where == source.label else exc.where  # the line below the table names the file
        return exc
    return judge


def _check_opened(role: str, spec: str, settings: Settings) -> None:
    """Raise the error that a run would raise before it opens a model."""
    from kshot.backends import model_packages
    from kshot.backends.checking import check_model
    from kshot.core.extras import require
    from kshot.planning import options_for

    require(spec, *model_packages(spec))
    check_model(spec, options_for(role, settings, spec))


# ---- showing ----


def _show_json(file: _FileCheck) -> None:
    from kshot.cli.streams import say, show_json

    for row in file.plain():
        show_json(row)
    for model in file.models:
        if model.fault:
            say(model.fault)


def _show(file: _FileCheck, *, first: bool) -> None:
    """Print tables that fit the terminal, then what is missing, once for all entries that lack it."""
    from kshot.cli.screen import Screen
    from kshot.report.cells import cell

    out = Screen()
    if not first:
        out.print()
    out.print(_entries_table(file.entries))
    if file.models:
        out.print(_models_table(file.models))
    for line in _lacking(file):
        out.print(cell(line, "magenta"), soft_wrap=True)
    out.print(cell(f"{file.config}: {_would_run([file])}"), soft_wrap=True)


def _show_sum(files: Sequence[_FileCheck]) -> None:
    from kshot.cli.screen import Screen
    from kshot.report.cells import cell

    broken = sum(bool(file.fault) for file in files)
    more = f"; {broken} cannot be loaded" if broken else ""
    out = Screen()
    out.print()
    out.print(cell(f"{len(files)} files: {_would_run(files)}{more}"), soft_wrap=True)


def _would_run(files: Sequence[_FileCheck]) -> str:
    total = sum(len(file.entries) for file in files)
    runnable = sum(file.runnable for file in files)
    closed = sum(bool(model.fault) for file in files for model in file.models)
    more = f"; {closed} of the models cannot be opened" if closed else ""
    return f"{runnable} of {total} entries would run{more}"


def _entries_table(checks: Sequence[EntryCheck]) -> Table:
    from rich.cells import chop_cells

    from kshot.report.cells import block, cell

    table = _table()
    table.add_column("entry", no_wrap=True)  # with a min_width, rich draws tables that are too wide, and cuts them
    for name in ("prompts", "data", "evaluation"):
        table.add_column(name, overflow="fold")
    for check in checks:
        scored = ", ".join(filter(None, [check.evaluation, check.judge and f"judge: {check.judge}"]))
        entry = block("\n".join(chop_cells(cell(check.entry).plain, _MOST_OF_A_NAME)))
        cells = [check.prompts or "–", check.data or "–", scored or "–"]
        table.add_row(entry, *map(cell, cells), style="" if not check.missing else "magenta")
    return table


def _models_table(models: Sequence[_ModelCheck]) -> Table:
    from kshot.report.cells import cell

    table = _table()
    for name in ("model", "class", "prompts", "opened as"):
        table.add_column(name, overflow="fold")
    for model in models:
        cells = [model.name, model.kind, model.gets or "–", model.spec or "–"]
        table.add_row(*map(cell, cells), style="" if not model.fault else "magenta")
    return table


def _table() -> Table:
    from rich.table import Table

    return Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 1))


def _lacking(file: _FileCheck) -> Iterator[str]:
    """Yield what is missing: entries that lack the same share a line, which has the message of the first."""
    found: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for check in file.entries:
        for lack in check.missing:
            found.setdefault((lack.part, *lack.alike), []).append((check.entry, str(lack)))
    for lacks in found.values():
        yield f"{listed([entry for entry, _ in lacks], _NAMED, counted=True)}: {lacks[0][1]}"
    yield from (model.fault for model in file.models if model.fault)
