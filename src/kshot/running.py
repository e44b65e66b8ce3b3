"""A whole evaluation: every dataset on every model, rows and figures collected as they come."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

from kshot.engine import Memo, Outcome
from kshot.evaluation import run_task
from kshot.records import Sample
from kshot.runs import RunFolder
from kshot.runs.folder import SAMPLES, SUMMARY
from kshot.settings import Settings
from kshot.tally import Row, Tally
from kshot.task import Backend, Task


@dataclass(slots=True)
class Result:
    """What an evaluation gave: ``results`` as in ``summary.json``, ``samples`` as in ``samples.jsonl``."""

    results: list[Row]
    notes: list[str]
    path: Path | None = None
    first_failures: list[str] = field(default_factory=list)
    usage: list[Row] = field(default_factory=list)
    _samples: list[Row] | None = field(default=None, repr=False)

    @property
    def samples(self) -> list[Row]:
        """Every sample with its prompt, response, answer, target and scores."""
        if self._samples is None and self.path is not None:
            with (self.path / SAMPLES).open(encoding="utf-8", errors="surrogatepass", newline="\n") as lines:
                self._samples = [json.loads(line) for line in lines]
        return self._samples or []


class Source(Protocol):
    """What a user named to be evaluated, as Tasks: the three ways in meet here."""

    @property
    def label(self) -> str:
        """How the user wrote it."""
        ...

    def tasks(
        self, settings: Settings, model: object = None, facts: Mapping[str, Any] | None = None, /
    ) -> Iterator[Task[Any]]:
        """Compile; a model, where there is one, may be asked about its tokens."""
        ...

    def totals(self, tallies: Sequence[Tally], /) -> Iterator[Row]:
        """Figures over several tasks."""
        ...


class Watcher(Protocol):
    """Whoever shows progress: told of every task before it starts and of every sample when it is answered."""

    def begin(self, task: str, model: str, total: int | None, /) -> None:
        """A task starts."""
        ...

    def answered(self, outcome: Outcome[Sample], /) -> None:
        """A sample is done."""
        ...

    def note(self, text: str, /) -> None:
        """There is something to tell the user."""
        ...


class _Nobody:
    def begin(self, task: str, model: str, total: int | None) -> None: ...
    def answered(self, outcome: Outcome[Sample]) -> None: ...
    def note(self, text: str) -> None: ...


class Run:
    """One evaluation: every dataset on every model, rows and figures collected as they come."""

    def __init__(
        self,
        settings: Settings,
        memo: Memo,
        *,
        folder: RunFolder | None = None,
        watcher: Watcher | None = None,
        judge: Backend | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Say where answers are kept and who watches; ``facts`` are what an earlier run found out with its models."""
        self._settings = settings
        self._memo = memo
        self._folder = folder
        self._watcher = watcher or _Nobody()
        self._judge = judge
        self._kept = facts or {}
        self._notes: dict[str, None] = {}
        self._failures: list[str] = []
        self._facts: dict[str, Any] = {}
        self._usage: dict[tuple[str, str], list[int]] = {}

    def all(self, models: Iterable[Callable[[], Backend]], sources: Sequence[Source]) -> Result:
        """Ask every model everything; models are opened one at a time."""
        results: list[Row] = []
        samples: list[Row] = []
        with ExitStack() as stack:
            keep: Callable[[Row], None] = samples.append
            if self._folder is not None:
                keep = _writer(stack.enter_context(self._folder.replacing(SAMPLES)))
            for open_model in models:
                backend = open_model()  # one at a time: the one before is let go
                backends = {"model": backend} | ({"judge": self._judge} if self._judge else {})
                self._record(backends)
                if self._settings.model_type == "base" and getattr(backend, "has_chat_template", False):
                    self._watcher.note(f"{backend.name} has a chat template; --model-type chat would use it")
                for source in sources:
                    results += self._source(source, backends, keep)
                del backend, backends
        notes, usage = list(self._notes), [self._priced(*key, *sums) for key, sums in self._usage.items()]
        if self._folder is None:
            return Result(results, notes, None, self._failures, usage, samples)
        with self._folder.replacing(SUMMARY) as file:
            summary = {"results": results, "notes": notes} | ({"usage": usage} if usage else {})
            json.dump(summary, file, indent=2, ensure_ascii=False)
            file.write("\n")
        self._folder.write_spec(tasks=self._facts)
        return Result(results, notes, self._folder.path, self._failures, usage)

    def _source(self, source: Source, backends: Mapping[str, Backend], keep: Callable[[Row], None]) -> list[Row]:
        model = backends["model"]
        tallies: list[Tally] = []
        rows: list[Row] = []
        for task in source.tasks(self._settings, model, self._kept.get(model.name)):
            for note in task.notes:
                self._note(note)
            self._facts.setdefault(model.name, {})[task.name] = dict(task.facts)
            total = len(task.samples) if isinstance(task.samples, Sized) else None
            self._watcher.begin(task.name, model.name, total)
            with self._emitting(task, keep) as emit:
                tally = run_task(task, backends, self._memo, emit, self._watcher.answered)
            if tally.failed:
                self._failures.append(f"{task.name} on {model.name}: {tally.failed} failed ({tally.first_failure})")
            for role, spent in tally.usage.items():
                sums = self._usage.setdefault((backends[role].name, role), [0, 0])
                sums[:] = [sums[0] + spent[0], sums[1] + spent[1]]
            for note in getattr(model, "notes", ()):  # what a server did not take is known when it was asked
                self._watcher.note(note)
            rows += tally.rows()
            tallies.append(tally)
        return [*rows, *source.totals(tallies)]

    def _priced(self, model: str, role: str, read: int, wrote: int) -> Row:
        """The tokens of a model as a row of the summary, with what they cost where prices are given."""
        row: Row = {"model": model, "role": role, "prompt_tokens": read, "completion_tokens": wrote}
        prices = self._settings.price_in, self._settings.price_out
        if role == "model" and any(price is not None for price in prices):
            row["cost_usd"] = round((read * (prices[0] or 0) + wrote * (prices[1] or 0)) / 1e6, 6)
        return row

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes[text] = None
            self._watcher.note(text)

    @contextmanager
    def _emitting(self, task: Task[Any], keep: Callable[[Row], None]) -> Iterator[Callable[[Sample, Row], None]]:
        """Where the rows of a task go: to ``samples.jsonl``, and to the files that the task itself asks for."""
        export, folder = task.export, self._folder
        if export is None or folder is None:
            yield lambda _, row: keep(row)
            return
        with folder.exporting() as write:

            def emit(sample: Sample, row: Row) -> None:
                keep(row)
                write(*export(sample, row))

            yield emit

    def _record(self, backends: Mapping[str, Backend]) -> None:
        if self._folder is None:
            return
        for role, backend in backends.items():
            self._folder.note_backend(role, backend.name, backend.fingerprint)
        options = {name: getattr(self._settings, name) for name in self._settings.__slots__}
        self._folder.write_spec(options=options, versions=_versions())


def _writer(file: Any) -> Callable[[Row], None]:
    encode = json.JSONEncoder(ensure_ascii=False, default=str).encode

    def write(row: Row) -> None:
        file.write(encode(row) + "\n")

    return write


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in ("kshot", "numpy", "torch", "transformers", "datasets", "sacrebleu"):
        if package == "kshot" or package in sys.modules:
            versions[package] = metadata.version(package)
    return versions
