"""The argument parser. It is made from ``Settings``, so that each option is written once."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn

from kshot import __version__
from kshot.cli.commands import COMMANDS
from kshot.cli.gate import add_gates
from kshot.cli.scoring_options import add_log, add_rescoring, add_trust
from kshot.cli.settings_options import Once, add_settings, list_of
from kshot.core.errors import UsageError

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


class _Parser(argparse.ArgumentParser):
    """A parser that reports wrong arguments in the same way as every other error."""

    def __init__(self, *args: Any, **options: Any) -> None:
        if sys.version_info >= (3, 14):
            options["color"] = False  # on a safe stream the codes would be shown as escapes
        super().__init__(*args, **options)
        for name in (None, "store"):
            self.register("action", name, Once)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Read the arguments; what a command does not know is its own error, not that of ``kshot``."""
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
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)

    _add_run(commands)
    _add_preview(commands)

    listed = (*KINDS, "lmeval")
    shown = commands.add_parser("list", help=f"list what you can name, and where it comes from: {', '.join(listed)}")
    shown.add_argument("what", choices=listed, help="the kind of thing to show (lmeval: tasks, groups and tags)")
    shown.add_argument("--json", action="store_true", help="print JSON")
    shown.add_argument("--lmeval-root", metavar="DIR", help="folder of lm-eval's task files, or of your own")

    _add_lookup(commands)
    _add_passages(commands)

    again = commands.add_parser(
        "score",
        help="score a run again, without its model",
        description="Score a run again from its journal, without its model.",
    )
    again.add_argument("run", metavar="RUN", help="run folder")
    add_rescoring(again)
    for command in COMMANDS.values():
        command.add(commands)
    return top


def _add_run(commands: Any) -> None:
    run = commands.add_parser(
        "run",
        help="evaluate models on datasets",
        description="Evaluate models on datasets. Without -d, run a starter suite of token lookup and passage search.",
    )
    run.add_argument(
        "config",
        nargs="*",
        metavar="FILE",
        help="a run file (suite.toml), or config files of AISBench or OpenCompass (CONFIG.py), or in their form",
    )
    _add_datasets(run)
    run.add_argument(
        "-m",
        "--model",
        action="append",
        metavar="MODEL",
        help="embedded, hf:PATH_OR_ID, vllm:PATH_OR_ID, openai:MODEL, anthropic:MODEL, replay:FILE, file.py:Class, "
        "or a search engine; options may follow, as in hf:PATH,dtype=float16 (kshot list models, "
        "kshot list search-engines; repeatable; default: embedded, or fts5 for passages)",
    )
    run.add_argument(
        "--out",
        metavar="DIR",
        help="run folder (default: one under runs/, named after the command, so that the same command continues it)",
    )
    run.add_argument(
        "--reuse",
        action="append",
        metavar="RUN",
        help="reuse the answers of another run wherever the request is the same (repeatable)",
    )
    add_log(run)
    run.add_argument("--json", action="store_true", help="print the results as JSON")
    run.add_argument(
        "--save-run-file",
        metavar="FILE.toml",
        help="write a run file that asks for the same as this command, and run it",
    )
    add_gates(run)
    add_settings(run)


def _add_preview(commands: Any) -> None:
    look = commands.add_parser(
        "preview",
        help="print the exact prompts, without a model",
        description="Print the exact prompts and continuations. This needs no model.",
    )
    look.add_argument("config", nargs="*", metavar="FILE", help="a run file, or config files, to preview")
    look.add_argument(
        "--diff", metavar="OTHER.py", help="show how the prompts differ from those of this config or dataset"
    )
    _add_datasets(look)
    look.add_argument("-m", "--model", action="append", metavar="MODEL", help=argparse.SUPPRESS)
    look.add_argument("--json", action="store_true", help="print one JSON object for each sample")
    add_settings(look)


def _add_lookup(commands: Any) -> None:
    lookup = commands.add_parser("lookup", help="make data for token lookup")
    actions = lookup.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=_Parser)
    make = actions.add_parser("generate", help="write JSONL files under the published names")
    make.add_argument("--group", choices=("unique", "nonunique"), required=True)
    make.add_argument(
        "--length", type=list_of(int), nargs="+", required=True, metavar="L", help="lengths, such as 10 20 or 10,20"
    )
    make.add_argument("--samples", type=int, default=1500, metavar="N", help="records in each file (default: 1500)")
    make.add_argument("--seed", type=int, default=2025, metavar="S", help="seed of the records (default: 2025)")
    make.add_argument("--out", default=".", metavar="DIR", help="folder to write GROUP/FILE to (default: here)")
    make.add_argument("--hard", action="store_true", help="the query occurs only in the first half")
    make.add_argument("--divisor", type=int, default=5, metavar="D", help="at most length/D occurrences (default: 5)")
    make.add_argument("--vocab", default=None, metavar="CHARS", help="characters to use (default: letters and digits)")


def _add_passages(commands: Any) -> None:
    passages = commands.add_parser("passages", help="inspect a passage benchmark, and export its runs")
    actions = passages.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=_Parser)
    check = actions.add_parser("check", help="read a question file and print its data card")
    check.add_argument("file", metavar="FILE", help="question file, folder or URL (or: handbook)")
    check.add_argument("--json", action="store_true", help="print JSON")
    best = actions.add_parser(
        "ceiling", help="print the best score that the passages allow, and what none of them contains"
    )
    best.add_argument("--all", action="store_true", help="list every component that no passage contains, in full")
    one = actions.add_parser("question", help="print one question in full, and the passages that answer it")
    one.add_argument("number", metavar="CHAPTER.NUMBER", help="such as 4.20")
    cut = actions.add_parser("chunks", help="print the passages")
    for action in (best, one, cut):
        action.add_argument(
            "-d", "--dataset", default="fastbook", metavar="DATASET", help="handbook or fastbook (default: fastbook)"
        )
        action.add_argument("--json", action="store_true", help="print JSON")
        add_settings(action, only={"data", "chunker", "within", "components", "measures"})
    export = actions.add_parser("export", help="write a run's rankings as TREC files and a BEIR folder")
    export.add_argument("run", metavar="RUN", help="run folder")
    export.add_argument("out", metavar="DIR", help="folder to write to")
    add_trust(export)


def _add_datasets(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "-d",
        "--dataset",
        action="append",
        metavar="DATASET",
        help="lookup, handbook, NAME, NAME:subset,…, NAME:[category] or file.py:Class; options may follow, "
        "as in NAME,num_shots=2 (kshot list datasets; repeatable)",
    )
