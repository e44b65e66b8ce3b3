"""Calling the command line in this process, and keeping what it prints and writes."""

from __future__ import annotations

import io
import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.commands import Done, kshot
from tests.frozen.cases import Cases

WIDTHS = (80, 120)


@dataclass
class _Read:
    out: str
    err: str


class Streams:
    """What is printed, as pytest's ``capsys`` gives it."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        sys.stdout, sys.stderr = (
            io.TextIOWrapper(io.BytesIO(), "utf-8", newline="", write_through=True) for _ in range(2)
        )

    def readouterr(self) -> _Read:
        """Return what was printed since it was last asked for."""
        texts = [stream.buffer.getvalue().decode("utf-8", "replace") for stream in (sys.stdout, sys.stderr)]
        self._begin()
        return _Read(*texts)


@contextmanager
def streams() -> Iterator[Streams]:
    """Keep what is printed until the block ends."""
    before = sys.stdout, sys.stderr
    try:
        yield Streams()
    finally:
        sys.stdout, sys.stderr = before


class Caller:
    """Runs commands in the working folder, and adds a case for what each prints, and for each file of a run."""

    def __init__(self, cases: Cases, printed: Streams) -> None:
        self.cases, self._printed = cases, printed

    def call(self, *arguments: str, columns: int = 100) -> Done:
        """Run one command."""
        os.environ["COLUMNS"] = str(columns)
        return kshot(self._printed, *arguments)

    def screen(self, name: str, *arguments: str, columns: int = 100) -> Done:
        """Add what a command prints."""
        done = self.call(*arguments, columns=columns)
        self.cases.add(name, shown(done))
        return done

    def at_both_widths(self, words: Sequence[str]) -> None:
        """Add what a command prints on a narrow and on a wide terminal."""
        for columns in WIDTHS:
            self.screen(f"{' '.join(words)} @{columns}", *words, columns=columns)

    def run(self, name: str, *arguments: str) -> None:
        """Run with a folder of this name, and add its files."""
        self.screen(f"{name}/screen", *arguments, "--out", name)
        self.run_files(name, Path(name))

    def run_files(self, name: str, folder: Path) -> None:
        """Add the files of a run, but for how far it was at what time."""
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "progress.json"):
            content = path.read_bytes()
            self.cases.add(
                f"{name}/{path.relative_to(folder)}", _briefly(content) if path.name == "spec.json" else content
            )

    def files(self, name: str, places: Iterable[Path]) -> None:
        """Add each file, and each file below a folder."""
        for place in places:
            for path in sorted(path for path in [place, *place.rglob("*")] if path.is_file()):
                self.cases.add(f"{name}/{path.as_posix()}", path.read_bytes())


def lines(table: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the words of each line of a table of commands: ``NAME | COMMAND``, or a command alone."""
    for line in table.strip().splitlines():
        name, _, command = line.rpartition(" | ")
        yield name.strip(), shlex.split(command)


def _briefly(spec: bytes) -> str:
    """Return a ``spec.json`` without the options that nobody gave, so that a new option changes no case."""
    found = json.loads(spec)
    found["options"] = {name: value for name, value in found["options"].items() if value not in (None, False)}
    return json.dumps(found, indent=2, ensure_ascii=False)


def shown(done: Done) -> str:
    """Return the exit code, and both streams."""
    return f"exit code {done.code}\n{done.out}---- stderr\n{done.err}"
