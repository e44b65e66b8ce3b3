"""The commands: ``kshot run``, ``preview``, ``list``, ``score``, ``lookup`` and ``passages``."""

from __future__ import annotations

import os
import re
import signal
import sys
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING

from kshot.cli.commands import COMMANDS
from kshot.cli.streams import OutputError, drop_output, flushed, protect, protected, results_apart, say, show, show_json
from kshot.core import interrupts
from kshot.core.budget import LimitReached
from kshot.core.command_line import COMMAND
from kshot.core.errors import KshotError, UsageError, unforeseen
from kshot.core.options import flag
from kshot.core.postponed import BatchesOpen
from kshot.core.visible import one_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

STARTER = {
    "length": (10, 20, 40, 80, 120),
    "variant": ("sep|small|bare", "sep|small|simple_rule"),
    "samples": 50,
}
"""The options of ``kshot run`` without arguments: all six lookup tasks, bare and with the rule, and passage search."""

_STARTERS = ["lookup", "handbook"]
_OF_DATASETS = (
    *("dataset_path", "instruction", "ranking_type", "evaluation_set", "example_set", "cot", "retriever", "accuracy"),
    *("letters", "description", "target_delimiter", "fewshot_delimiter", "examples_as", "average"),
    *("question", "options", "answer", "answer_as", "target"),
)

OK, WRONG, LIMIT_REACHED, BATCHES_OPEN = 0, 2, 4, 5  # cli/gate.py has the others


def command() -> int:
    """Run the command of this process; what is printed after it, as by threads, is safe for a terminal too."""
    protect()
    return main()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. An error that the user can fix becomes one message on stderr and exit code 2."""
    token = COMMAND.set(tuple(sys.argv[1:] if arguments is None else arguments))
    try:
        with protected(), interrupts.interruptible():
            return _main(arguments)
    finally:
        COMMAND.reset(token)


def _main(arguments: Sequence[str] | None) -> int:
    try:
        with flushed():
            return _parsed(arguments)
    except BrokenPipeError:
        drop_output()
        return OK
    except OutputError as exc:
        drop_output()
        say(exc)
        return WRONG


def _parsed(arguments: Sequence[str] | None) -> int:
    from kshot.cli.options import parser

    try:
        parsed = parser().parse_args(arguments)
    except UsageError as exc:
        say(exc)
        return WRONG
    if parsed.command is None:
        parser().print_help()
        return OK
    return _guarded(parsed)


def _guarded(parsed: argparse.Namespace) -> int:
    """Run a command; any error becomes one line on stderr."""
    try:
        own = COMMANDS.get(parsed.command)
        if own is not None:
            _check_homes(vars(parsed).values())
            return own.execute(parsed)
        from kshot.cli.run_file import applied

        with applied(parsed):
            _check_homes(vars(parsed).values())
            return _COMMANDS[parsed.command](parsed)
    except (BrokenPipeError, OutputError):
        raise
    except BaseException as exc:  # noqa: BLE001 - a signal may come out of a library as any error
        if interrupts.received() is not None or isinstance(exc, KeyboardInterrupt):
            return _stopped(interrupts.received() or signal.SIGINT, parsed.command)
        return _failed(exc)


def _stopped(number: int, name: str) -> int:
    """Say that a signal has ended the command."""
    with suppress(OSError):  # after SIGHUP there may be no terminal
        sys.stderr.write("\n")  # after ^C
        say(interrupts.stop_word(number) + ("; the same command continues from here" if name == "run" else ""))
    return interrupts.stop_code(number)


def _failed(exc: BaseException) -> int:
    """Say what went wrong, and how to see more of an error that nobody has foreseen."""
    if isinstance(exc, SystemExit):
        say("your code called sys.exit; the command did not finish")
        return WRONG
    _show_traceback()
    if isinstance(exc, KshotError):
        say(exc)
        if isinstance(exc, BatchesOpen):
            return BATCHES_OPEN
        return LIMIT_REACHED if isinstance(exc, LimitReached) else WRONG
    say(unforeseen(exc))
    return WRONG


def _check_homes(values: Iterable[object]) -> None:
    """Refuse ``~name`` of a user that does not exist: Python would say nothing of the path."""
    for value in values:
        if isinstance(value, (list, tuple)):
            _check_homes(value)
        text = value if isinstance(value, str) else ""
        for home in re.findall(r"(?:^|[:=])(~[^/:,=]+)/", text):
            if os.path.expanduser(home) == home:  # noqa: PTH111 - pathlib raises where this returns
                raise UsageError(f"there is no user {home[1:]!r}", where=text)


def _show_traceback() -> None:
    if os.environ.get("KSHOT_DEBUG"):
        sys.stderr.write(traceback.format_exc())


def _run(parsed: argparse.Namespace) -> int:
    from dataclasses import replace

    from kshot.api import evaluate
    from kshot.cli.folder_names import default_folder
    from kshot.cli.gate import finish, gating
    from kshot.cli.merge import finish_shard, shard_folder
    from kshot.cli.progress import Progress
    from kshot.cli.run_file import RunFileWriter, in_folder
    from kshot.cli.settings_options import options_of
    from kshot.passages import is_passages
    from kshot.settings import settings_from

    options = options_of(parsed)
    models, datasets = parsed.model, [*parsed.config, *(parsed.dataset or ())]
    if not datasets:
        other = next((name for name in _OF_DATASETS if name in options), None)
        if other is not None:
            raise UsageError(f"{flag(other)} needs a dataset, and none is named", hint="Add -d NAME.")
        datasets, options = _STARTERS, STARTER | options
    usual = "config" if parsed.config else "fts5" if is_passages(datasets[0]) else "embedded"
    if parsed.out == "":
        raise UsageError("--out is empty", hint="Name a folder, or leave it out.")
    if "\0" in (parsed.out or ""):
        raise UsageError("--out has a zero byte, and no folder can be called so")
    settings = settings_from(options, datasets)
    whole = replace(settings, shard=None)
    out = parsed.out or default_folder(models or [usual], datasets, whole, _work_folder(parsed))
    if settings.shard is not None and not parsed.out:
        out = shard_folder(out, settings.shard)
    out = in_folder(parsed, out)
    wanted = gating(parsed)
    if settings.shard is not None and (wanted.gates or wanted.junit or wanted.summary):
        hint = "Give the gates to kshot merge."
        raise UsageError("a shard has no figures, so gates cannot check it", hint=hint)
    saving = [] if parsed.save_run_file is None else [RunFileWriter(parsed, parsed.save_run_file)]
    with wanted.telling(out):
        wanted.gates.check_baselines(out)
        with results_apart(), Progress() as progress:
            watchers = [progress, *wanted.watchers(), *saving]
            more = {"reuse": parsed.reuse, "log": parsed.log, "watcher": watchers}
            result = evaluate(models, datasets, out=out, **more, **options)
    if settings.shard is not None:
        return finish_shard(result, settings.shard, as_json=parsed.json)
    return finish(result, wanted, as_json=parsed.json)


def _work_folder(parsed: argparse.Namespace) -> str | None:
    """Return the folder that the only config names for its results."""
    if len(parsed.config) != 1 or parsed.dataset:
        return None
    from pathlib import Path

    from kshot.configs.loader import work_folder

    return work_folder(Path(parsed.config[0]), parsed.home, parsed.config_root)


def _score(parsed: argparse.Namespace) -> int:
    from functools import partial

    from kshot.cli.scoring_options import rescored
    from kshot.rescoring import score

    return rescored(parsed, parsed.run, partial(score, parsed.run))


def _preview(parsed: argparse.Namespace) -> int:
    from dataclasses import replace

    from kshot.api import iter_preview
    from kshot.cli.preview import as_json, as_text
    from kshot.cli.settings_options import settings_of

    settings = settings_of(parsed)
    if settings.limit is None and not parsed.json and sys.stdout.isatty():  # a pipe or a file gets all samples
        settings = replace(settings, limit=3)
        say("these are the first 3 samples of each subset; --limit N shows more")
    write = as_json if parsed.json else as_text
    datasets = [*parsed.config, *(parsed.dataset or ())]
    if not datasets:
        raise UsageError("there is nothing to preview", hint="Name a config file, or a dataset with -d.")

    texts = (write(shown) for shown in iter_preview(datasets, settings, say))
    if parsed.diff is None:
        for text in texts:
            show(text)
        return OK
    others = [write(shown) for shown in iter_preview([parsed.diff], settings, say)]
    return _print_difference(others, list(texts), parsed.diff, datasets[0])


def _print_difference(before: list[str], after: list[str], old: str, new: str) -> int:
    import difflib

    first, second = ("\n".join(texts).split("\n") for texts in (before, after))
    found = list(difflib.unified_diff(first, second, one_line(old), one_line(new), lineterm="", n=2))
    show("\n".join(found) if found else "the prompts are the same")
    return OK


def _list(parsed: argparse.Namespace) -> int:
    entries = _task_files(parsed.lmeval_root) if parsed.what == "lmeval" else _entries(parsed.what)
    if parsed.json:
        show_json(entries, indent=2)
        return OK
    from rich.cells import cell_len, set_cell_size

    names = [one_line(entry["name"]) for entry in entries]
    width = max(map(cell_len, names), default=0)
    packages = any(entry["from"] != "kshot" for entry in entries)
    for name, entry in zip(names, entries, strict=True):
        origin = f"  [{entry['from']}]" if packages else ""
        show(f"{set_cell_size(name, width)}  {one_line(entry['text'] + origin)}".rstrip())
    return OK


def _task_files(root: str | None) -> list[dict[str, str]]:
    """Return the names that ``lmeval:`` may have, in the form of ``_entries``."""
    from kshot.lmeval.tree import listed

    return [{"name": f"lmeval:{name}", "text": text, "from": "kshot"} for name, text in listed(root)]


def _entries(kind: str) -> list[dict[str, str]]:
    """Return what ``kshot list`` shows: for each entry its spec, one line of text, and the package it comes from."""
    import importlib

    from kshot.cli.options import KINDS
    from kshot.core.registry import Registry, described

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


def _lookup(parsed: argparse.Namespace) -> int:
    from kshot.lookup.generate import VOCAB, write

    vocab = VOCAB if parsed.vocab is None else parsed.vocab
    for length in dict.fromkeys(length for lengths in parsed.length for length in lengths):
        options = {"hard": parsed.hard, "divisor": parsed.divisor, "vocab": vocab}
        show(one_line(write(parsed.out, parsed.group, length, parsed.samples, parsed.seed, **options)))
    return OK


def _passages(parsed: argparse.Namespace) -> int:
    from kshot.cli.passages import passages

    return passages(parsed)


_COMMANDS = {
    "run": _run,
    "preview": _preview,
    "list": _list,
    "score": _score,
    "lookup": _lookup,
    "passages": _passages,
}
