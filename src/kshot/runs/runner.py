"""A whole evaluation: every dataset on every model, rows and figures collected as they come."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

from kshot import __version__
from kshot.core.corpus import Corpus
from kshot.core.engine import Memo, Outcome
from kshot.core.records import Generate, Loglik, Sample, Search
from kshot.core.task import Backend, Task
from kshot.runs import RunFolder
from kshot.runs.folder import SAMPLES, SUMMARY
from kshot.runs.results import Row, Tally, compared
from kshot.runs.task_run import run_task
from kshot.settings import Settings


@dataclass(slots=True)
class Result:
    """What an evaluation gave: ``results`` and ``comparisons`` as in ``summary.json``, ``samples`` as in their file."""

    results: list[Row]
    notes: list[str]
    path: Path | None = None
    first_failures: list[str] = field(default_factory=list)
    comparisons: list[Row] = field(default_factory=list)
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


def searches(source: Source, settings: Settings) -> bool:
    """Whether a source is put to search engines; most are put to language models, and say nothing of it."""
    asked = getattr(source, "searches", None)
    return asked is not None and bool(asked(settings))


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

    def step(self, label: str, done: int, total: int, /) -> None:
        """Something long goes on before a task can start: an index is built."""
        ...


class _Nobody:
    def begin(self, task: str, model: str, total: int | None) -> None: ...
    def answered(self, outcome: Outcome[Sample]) -> None: ...
    def note(self, text: str) -> None: ...
    def step(self, label: str, done: int, total: int) -> None: ...


class Run:
    """One evaluation: every dataset on every model, rows and figures collected as they come."""

    def __init__(
        self,
        settings: Settings,
        memo: Memo,
        *,
        folder: RunFolder | None = None,
        watcher: Watcher | None = None,
        staff: Mapping[str, Any] | None = None,
        facts: Mapping[str, Any] | None = None,
        store: Any = None,
    ) -> None:
        """Say where answers are kept and who watches.

        ``staff`` are the backends beside the model, by role: judge, rewriter, corpus (the search engine of rag).
        ``facts`` are what an earlier run found out with its models; ``store`` is where search engines keep indexes.
        """
        self._settings = settings
        self._memo = memo
        self._folder = folder
        self._watcher = watcher or _Nobody()
        self._staff = dict(staff or {})
        self._store = store
        self._kept = facts or {}
        self._notes: dict[str, None] = {}
        self._failures: list[str] = []
        self._tallies: list[Tally] = []
        self._facts: dict[str, Any] = {}
        self._usage: dict[tuple[str, str], list[int]] = {}

    def all(self, models: Iterable[Backend], sources: Sequence[Source]) -> Result:
        """Ask every model everything; the next one is taken when the one before is done with."""
        results: list[Row] = []
        samples: list[Row] = []
        with ExitStack() as stack:
            keep: Callable[[Row], None] = samples.append
            if self._folder is not None:
                keep = _writer(stack.enter_context(self._folder.replacing(SAMPLES)))
            for model in models:
                self._record({"engine" if is_engine(model) else "model": model, **self._staff})
                if self._settings.model_type == "base" and getattr(model, "has_chat_template", False):
                    self._watcher.note(f"{model.name} has a chat template; --model-type chat would use it")
                for source in sources:
                    if suits(model, searches(source, self._settings)):
                        results += self._source(source, model, keep)
                # How it was computed differs from run to run, and must not be part of what resuming reproduces.
                for note in getattr(model, "notes", ()):
                    self._watcher.note(note)
        comparisons = compared(self._tallies)
        notes, usage = list(self._notes), [self._priced(*key, *sums) for key, sums in self._usage.items()]
        if self._folder is None:
            return Result(results, notes, None, self._failures, comparisons, usage, samples)
        with self._folder.replacing(SUMMARY) as file:
            more = {"comparisons": comparisons, "usage": usage}
            body = {"results": results, "notes": notes} | {name: rows for name, rows in more.items() if rows}
            file.write(json.dumps(body, indent=2, ensure_ascii=False) + "\n")
        self._folder.write_spec(tasks=self._facts)
        return Result(results, notes, self._folder.path, self._failures, comparisons, usage)

    def _roles(self, model: Any, corpus: Corpus | None) -> dict[str, Backend]:
        """Who answers what; a search engine is put over the task's corpus first."""
        roles = {"model": model, **self._staff}
        if corpus is not None:
            engine = roles.get("corpus", model)
            found = engine.over(corpus, self._store) if is_engine(engine) else engine
            roles |= {"corpus": found} if "corpus" in self._staff else {"corpus": found, "model": found}
        return roles

    def _source(self, source: Source, model: Any, keep: Callable[[Row], None]) -> list[Row]:
        tallies: list[Tally] = []
        rows: list[Row] = []
        for task in source.tasks(self._settings, model, self._kept.get(model.name)):
            for note in task.notes:
                self._note(note)
            self._facts.setdefault(model.name, {})[task.name] = dict(task.facts)
            total = len(task.samples) if isinstance(task.samples, Sized) else None
            self._watcher.begin(task.name, model.name, total)
            with self._emitting(task, keep) as emit:
                roles = self._roles(model, task.corpus)
                tally = run_task(task, roles, self._memo, emit, self._watcher.answered)
            if tally.failed:
                self._failures.append(f"{task.name} on {model.name}: {tally.failed} failed ({tally.first_failure})")
            for role, spent in tally.usage.items():
                sums = self._usage.setdefault((roles[role].name, role), [0, 0])
                sums[:] = [sums[0] + spent[0], sums[1] + spent[1]]
            rows += tally.rows()
            tallies.append(tally)
        self._tallies += tallies
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

    def _record(self, backends: Mapping[str, Any]) -> None:
        if self._folder is None:
            return
        for role, backend in backends.items():
            self._folder.note_backend(role, backend.name, backend.fingerprint)
        options = {name: getattr(self._settings, name) for name in self._settings.__slots__}
        self._folder.write_spec(options=options, versions=_versions())


def is_engine(model: Any) -> bool:
    """Whether this is a search engine, which is put over a corpus before it can be asked."""
    return hasattr(model, "over")


def suits(model: Any, searching: bool) -> bool:  # noqa: FBT001 - what the source does
    """Whether a model can be put to a source: engines where passages are searched, language models elsewhere."""
    if searching:
        return is_engine(model) or Search in model.answers or object in model.answers
    return not is_engine(model) and any(kind in model.answers for kind in (Generate, Loglik, object))


def _writer(file: Any) -> Callable[[Row], None]:
    encode = json.JSONEncoder(ensure_ascii=False, default=str).encode

    def write(row: Row) -> None:
        file.write(encode(row) + "\n")

    return write


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "kshot": __version__}
    for package in ("numpy", "torch", "transformers", "datasets", "sacrebleu", "sentence_transformers", "bm25s"):
        if package in sys.modules:
            with suppress(metadata.PackageNotFoundError):  # run from a folder that nobody installed
                versions[package] = metadata.version(package)
    return versions
