"""``kshot score``, and what it shares with ``kshot merge``: both score answers without asking a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshot.cli.gate import add_gates, finish, gating

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from kshot.result import Result


def add(command: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    command.description = "Score a run again from its journal, without its model."
    command.add_argument("run", metavar="RUN", help="run folder")
    add_rescoring(command)


def execute(parsed: argparse.Namespace) -> int:
    """Score a run again, and show the figures."""
    from functools import partial

    from kshot.rescoring import score

    return rescored(parsed, parsed.run, partial(score, parsed.run))


def add_rescoring(command: argparse.ArgumentParser) -> None:
    """Declare what both commands take: which code of the user may run, where the rows are, loggers and gates."""
    command.add_argument(
        "-d",
        "--dataset",
        action="append",
        metavar="FILE.py:CLASS",
        help="name a dataset of the run again: its file has changed or moved, or the folder has no digest of it "
        "(repeatable)",
    )
    add_trust(command)
    command.add_argument(
        "--dataset-path", metavar="PATH", help="file or folder of the rows, if it is not where the run had it"
    )
    command.add_argument(
        "--unsafe-programs",
        action="store_true",
        help="run the programs that a model wrote (pass@k) even where the system cannot confine them",
    )
    add_log(command)
    command.add_argument("--json", action="store_true", help="print the results as JSON")
    add_gates(command)


def rescored(parsed: argparse.Namespace, folder: str, call: Callable[..., Result]) -> int:
    """Score with the options of both commands, show the figures, and check the gates of the run in the folder."""
    from kshot.cli.progress import Progress
    from kshot.cli.streams import results_apart

    wanted = gating(parsed)
    with wanted.telling(folder), results_apart(), Progress() as progress:
        wanted.gates.check_baselines(folder)
        result = call(
            dataset=parsed.dataset,
            trust=parsed.trust or (),
            dataset_path=parsed.dataset_path,
            unsafe_programs=parsed.unsafe_programs,
            log=parsed.log,
            watcher=progress,
        )
    return finish(result, wanted, as_json=parsed.json)


def add_trust(command: argparse.ArgumentParser) -> None:
    """Declare the files of the user that may run."""
    command.add_argument(
        "--trust",
        action="append",
        metavar="FILE.py",
        help="a file of yours that the run uses and that has changed since: its code may run (repeatable)",
    )


def add_log(command: argparse.ArgumentParser) -> None:
    """Declare the loggers."""
    command.add_argument(
        "--log",
        action="append",
        metavar="LOGGER",
        help="log the run to wandb, mlflow, trackio or file.py:Class; options may follow, as in wandb,mode=offline "
        "(kshot list loggers; repeatable)",
    )
