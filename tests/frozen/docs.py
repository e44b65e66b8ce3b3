"""Every command and Python block of README, docs and CONTRIBUTING: what it prints, and the samples and figures of runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.documented import RUNNING, execute, local_servers, run_blocks, write_readers_files
from tests.frozen.cases import Cases
from tests.frozen.commands import Caller, Streams, shown, streams
from tests.frozen.world import settled

LONG = {"scaling.md", "ray.md", "eight-gpus.md", "logging.md"}
"""Pages that start workers or other tools: they take as long as all others."""


def make(cases: Cases) -> None:
    """Add the cases of the pages that take seconds."""
    add_pages(cases, [page for page in RUNNING if page.name not in LONG])


def add_pages(cases: Cases, pages: list[Path]) -> None:
    from tests.tiny_models import build

    home = Path.cwd()
    model = build("llama", home / "llama")
    with streams() as printed:
        for page in pages:
            folder = home / page.stem
            folder.mkdir()
            with pytest.MonkeyPatch.context() as patch, local_servers() as local:
                write_readers_files(folder, model, patch)
                blocks = _Blocks(cases, printed, page.name)
                run_blocks(page, local(page.read_text(encoding="utf-8")), blocks.command, blocks.python)


class _Blocks:
    """Adds a case for each block of a page; the name is the command, or the number of the Python block."""

    def __init__(self, cases: Cases, printed: Streams, page: str) -> None:
        self._caller, self._printed, self._page = Caller(cases, printed), printed, page
        self._seen: list[str] = []

    def command(self, line: str, arguments: list[str]) -> None:
        done = self._caller.call(*arguments)
        name = self._name(settled(line).partition("  #")[0].strip())
        # the name of a run folder has a digest of its command, and so of the port of a server
        screen = re.sub(r"-[0-9a-f]{8}\b", "-<digest>", shown(done)) if "://" in line else shown(done)
        self._caller.cases.add(name, screen)
        for folder in re.findall(r"^run folder: (.*)$", done.out + done.err, re.MULTILINE):
            for file in ("samples.jsonl", "summary.json"):
                self._caller.cases.add(f"{name}/{file}", (Path(folder) / file).read_bytes())

    def python(self, page: Path, code: str) -> None:
        execute(page, code)
        self._caller.cases.add(self._name("python"), self._printed.readouterr().out)

    def _name(self, said: str) -> str:
        self._seen.append(said)
        count = self._seen.count(said)
        return f"{self._page}/{said}{f' ({count})' if count > 1 else ''}"
