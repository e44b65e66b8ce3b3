"""One command of the command line: it is parsed and run, and an error of it becomes one line."""

from __future__ import annotations

import os
import re
import signal
import sys
import traceback
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

from kshot.cli.parser import COMMANDS, parser
from kshot.cli.streams import OutputError, drop_output, flushed, protect, protected, say
from kshot.core import interrupts
from kshot.core.budget import LimitReached
from kshot.core.errors import KshotError, UsageError, unforeseen
from kshot.core.postponed import BatchesOpen
from kshot.core.shareable import COMMAND

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

OK, WRONG, LIMIT_REACHED, BATCHES_OPEN = 0, 2, 4, 5  # cli/gate.py has the others
_OF_RUN_FILES = ("run", "preview")


def command() -> int:
    """Run the command of this process; what is printed after it, as by threads, is safe for a terminal too."""
    protect()
    return main()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. An error that the user can fix becomes one message on stderr and exit code 2."""
    token = COMMAND.set(tuple(sys.argv[1:] if arguments is None else arguments))
    try:
        with protected(), interrupts.interruptible():
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
    finally:
        COMMAND.reset(token)


def _parsed(arguments: Sequence[str] | None) -> int:
    top = parser()
    try:
        parsed = top.parse_args(arguments)
    except UsageError as exc:
        say(exc)
        return WRONG
    if parsed.command is None:
        top.print_help()
        return OK
    return _guarded(parsed)


def _guarded(parsed: argparse.Namespace) -> int:
    """Run a command; any error becomes one line on stderr."""
    from kshot.cli.run_file import applied

    try:
        with applied(parsed) if parsed.command in _OF_RUN_FILES else nullcontext():
            _check_homes(vars(parsed).values())
            return COMMANDS[parsed.command].own.execute(parsed)
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
    if os.environ.get("KSHOT_DEBUG"):
        sys.stderr.write(traceback.format_exc())
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
