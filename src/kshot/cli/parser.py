"""The argument parser. Its options are made from ``Settings``, so that each option is written once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Mapping
from importlib import import_module
from typing import Any, NamedTuple, NoReturn, Protocol, cast

from kshot import __version__
from kshot.core.errors import UsageError
from kshot.core.options import flag
from kshot.core.specs import split_names
from kshot.settings import Settings, settings_from

_EXAMPLES = """examples:
  kshot run                                              (a starter suite on the built-in model)
  kshot run -d lookup:UR,UL --length 10,20,40 --variant 'sep|small|bare'
  kshot run -m hf:path/to/model -d arc:ARC-Easy --dataset-path data/arc -k 5
  kshot run -m hf:path/to/model -d my_dataset.py:MyDataset --limit 100 --out runs/first
  kshot run -d handbook -m fts5 -m hybrid                (compare search engines)
  kshot run -m openai:NAME --base-url http://localhost:8000/v1 --model-type chat -d my_dataset.py:MyDataset
  kshot run suite.toml                                   (a whole suite, as --save-run-file writes it)
  kshot preview -d my_dataset.py:MyDataset -k 2
  kshot score runs/first
"""

KINDS = {
    "datasets": "kshot.datasets.source:DATASETS",
    "retrievers": "kshot.retrievers.making:RETRIEVERS",
    "models": "kshot.backends.making:MODELS",
    "search-engines": "kshot.backends.search.specs:SEARCH_ENGINES",
    "metrics": "kshot.metrics.making:METRICS",
    "chunkers": "kshot.passages.chunkers:CHUNKERS",
    "cleanups": "kshot.cleanups:CLEANUPS",
    "loggers": "kshot.loggers.making:LOGGERS",
}
"""What ``kshot list`` can show, and the registry of each."""

LISTED = (*KINDS, "lmeval")


class CommandModule(Protocol):
    """A module with one command. Both functions import what they need when they are called."""

    def add(self, command: argparse.ArgumentParser, /) -> None:
        """Declare the arguments of the command."""
        ...

    def execute(self, parsed: argparse.Namespace, /) -> int:
        """Run the command; return the exit code."""
        ...


class Command(NamedTuple):
    """A command as ``kshot --help`` lists it, and the name of its module, which is imported when it is given."""

    help: str
    module: str

    @property
    def own(self) -> CommandModule:
        """The module."""
        return cast("CommandModule", import_module(f"kshot.cli.{self.module}"))


COMMANDS: Mapping[str, Command] = {
    "run": Command("evaluate models on datasets", "run"),
    "preview": Command("print the exact prompts, without a model", "preview"),
    "list": Command(f"list what you can name, and where it comes from: {', '.join(LISTED)}", "listing"),
    "lookup": Command("make data for token lookup", "lookup"),
    "passages": Command("inspect a passage benchmark, and export its runs", "passages"),
    "score": Command("score a run again, without its model", "score"),
    "check": Command(
        "say of each entry of a config or task of lm-eval whether it would run, and what is missing", "check"
    ),
    "merge": Command("join the shards of a run (kshot run --shard K/N) to one run", "merge"),
    "runs": Command("list runs with their figures, failures, cost and state; --watch shows those that run", "runs"),
    "show": Command("print the figures of a finished run again, or its worst categories", "show"),
    "samples": Command(
        "show single samples of a run: those that are wrong, that failed, that another run answers differently",
        "samples",
    ),
    "compare": Command("compare finished runs question by question: who is ahead, where, and what differs", "compare"),
    "gate": Command("fail a build if a finished run is not good enough", "gate"),
    "export": Command("write runs as tables, or for other tools", "export"),
    "report": Command("write runs as one HTML file to share", "report"),
    "view": Command("look at runs in the browser: samples, filters, comparisons, running runs", "view"),
    "new": Command(
        "write a class of your own to start from, with its test: dataset, metric, retriever, model, search-engine, "
        "chunker",
        "new",
    ),
}
"""In the order of ``kshot --help``."""


class _Parser(argparse.ArgumentParser):
    """A parser that reports wrong arguments in the same way as every other error.

    That of a command declares its arguments when the command is given, or its help is asked for.
    """

    def __init__(self, *args: Any, command: Command | None = None, **options: Any) -> None:
        if sys.version_info >= (3, 14):
            options["color"] = False  # on a safe stream the codes would be shown as escapes
        super().__init__(*args, **options)
        for name in (None, "store"):
            self.register("action", name, Once)
        self._command = command

    def declared(self) -> argparse.ArgumentParser:
        """Return the parser with its arguments."""
        if self._command is not None:
            command, self._command = self._command, None
            command.own.add(self)
        return self

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Read the arguments; what a command does not know is its own error, not that of ``kshot``."""
        self.declared()
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"See {self.prog} --help.")


def parser() -> argparse.ArgumentParser:
    """Make the parser of all commands."""
    top = _Parser(
        prog="kshot",
        description="Measure what language models and search engines can find.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"kshot {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    for name, command in COMMANDS.items():
        commands.add_parser(name, help=command.help, command=command)
    return top


def add_datasets(command: argparse.ArgumentParser) -> None:
    """Declare the option that names datasets."""
    command.add_argument(
        "-d",
        "--dataset",
        action="append",
        metavar="DATASET",
        help="lookup, handbook, NAME, NAME:subset,…, NAME:[category] or file.py:Class; options may follow, "
        "as in NAME,num_shots=2 (kshot list datasets; repeatable)",
    )


# ---- settings ----

_METAVARS = {int: "N", float: "X", str: "TEXT"}
_PATH = "dataset_path"
"""It may be given once for each dataset of a run."""


class Once(argparse.Action):
    """Takes the value of an option. Two values are an error: the last one would win, and nobody would know."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        """Keep the value."""
        del parser  # it turns the error into a message
        _refuse_another(self, namespace, values, option_string)
        setattr(namespace, self.dest, values)


class _OnceOrNot(argparse.BooleanOptionalAction):
    """Takes ``--option`` or ``--no-option``, but not both."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        """Keep which one it is."""
        _refuse_another(self, namespace, not (option_string or "").startswith("--no-"), option_string)
        super().__call__(parser, namespace, values, option_string)


def _refuse_another(action: argparse.Action, namespace: Any, value: Any, written: str | None) -> None:
    """Refuse a second value of an option that differs from the first; arguments without a name have one place each."""
    if written is None:
        return
    given: dict[str, Any] = vars(namespace).setdefault("given_once", {})
    if repr(given.setdefault(action.dest, value)) != repr(value):  # nan is not equal to itself
        several = " Write all values in one, with commas between them." if isinstance(value, tuple) else ""
        raise argparse.ArgumentError(action, f"it is given twice, with different values.{several}")


def add_settings(command: argparse.ArgumentParser, only: Collection[str] | None = None) -> None:
    """Declare the settings of a run, or some of them, as options of a command."""
    groups: dict[str, Any] = {"": command}
    for name, declared in Settings.declared().items():
        if only is not None and name not in only:
            continue
        title = declared.group if only is None else ""
        if title not in groups:
            groups[title] = command.add_argument_group(title)
        default = "" if declared.default is None else f" (default: {declared.default})"
        text = argparse.SUPPRESS if declared.hidden else declared.help + default
        options: dict[str, Any] = {"help": text, "dest": name, "default": None}
        options |= {"nargs": "?", "const": declared.bare} if declared.bare else {}
        if declared.choices and declared.sweeps:
            options["metavar"] = f"{{{','.join(declared.choices)}}}"  # each of several is checked with the others
        elif declared.choices:
            options["choices"] = declared.choices
        elif declared.kind is not bool:
            options["metavar"] = declared.metavar or _METAVARS[declared.kind]
        if declared.repeat or declared.whole_text or (name == _PATH and only is None):
            options["action"] = "append"
        if declared.kind is bool:
            options["action"] = _OnceOrNot
        elif declared.sweeps and not declared.whole_text:
            options["type"] = one_or_several(declared.kind)
        else:
            options["type"] = list_of(declared.kind) if declared.listed else declared.kind
        groups[title].add_argument(*declared.flags, flag(name), **options)


def list_of(kind: Any) -> Any:
    """Return the function that reads values with commas between them."""

    def read(text: str) -> tuple[Any, ...]:
        return tuple(kind(part) for part in text.split(","))

    read.__name__ = f"list of {kind.__name__}"
    return read


def one_or_several(kind: Any) -> Any:
    """Return the function that reads one value, or several with commas between them; a name may have options."""

    def read(text: str) -> Any:
        parts = split_names(text) if kind is str else text.split(",")
        values = tuple(kind(part) for part in parts)
        return values if len(values) > 1 else kind(text)

    read.__name__ = kind.__name__
    return read


def settings_of(parsed: argparse.Namespace) -> Settings:
    """Return the settings that the command line gives."""
    return settings_from(options_of(parsed), getattr(parsed, "dataset", None))


def options_of(parsed: argparse.Namespace) -> dict[str, Any]:
    """Return the given options by name. A stop text may contain escapes, such as a backslash and an n."""
    names = Settings.declared()
    chosen = {name: value for name in names if (value := getattr(parsed, name, None)) is not None}
    if "stop" in chosen:
        from kshot.prompts.strings import decode_escapes

        chosen["stop"] = tuple(decode_escapes(text) for text in chosen["stop"])
    return chosen
