"""``evaluate``, ``preview`` and ``score``: the command line's work, as functions."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

from kshot.backends import open_backend
from kshot.datasets.naming import resolve
from kshot.engine import Memo, MemoryMemo, Outcome
from kshot.errors import RunError, UsageError
from kshot.evaluation import run_task
from kshot.lookup.suite import LookupSource
from kshot.prompts.chat import read_template
from kshot.records import Failed, Request, Response, Sample
from kshot.runs import Journal, RunFolder, read_spec
from kshot.runs.folder import JOURNAL, SAMPLES, SUMMARY
from kshot.settings import MODEL_OPTIONS, Settings, settings_from
from kshot.tally import Row, Tally
from kshot.task import Backend, Task, Waiting


@dataclass(slots=True)
class Result:
    """What an evaluation gave: ``results`` as in ``summary.json``, ``samples`` as in ``samples.jsonl``."""

    results: list[Row]
    notes: list[str]
    path: Path | None = None
    first_failures: list[str] = field(default_factory=list)
    _samples: list[Row] | None = None

    @property
    def samples(self) -> list[Row]:
        """Every sample with its prompt, response, answer, target and scores."""
        if self._samples is None and self.path is not None:
            with (self.path / SAMPLES).open(encoding="utf-8", errors="surrogatepass", newline="\n") as lines:
                self._samples = [json.loads(line) for line in lines]
        return self._samples or []


@dataclass(frozen=True, slots=True)
class Preview:
    """What a sample's method would ask first."""

    task: str
    id: str
    requests: tuple[Request, ...]


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


@dataclass(frozen=True, slots=True)
class _Value:
    """A Task that was given as it is."""

    task: Task[Any]

    @property
    def label(self) -> str:
        return self.task.name

    def tasks(self, *_: object) -> Iterator[Task[Any]]:
        yield self.task

    def totals(self, _: Sequence[Tally]) -> Iterator[Row]:
        return iter(())


def source_of(spec: Any) -> Source:
    """Find what a user named: a Task, token lookup, a dataset class or its name, a file."""
    if isinstance(spec, Task):
        return _Value(spec)
    if isinstance(spec, str) and spec.partition(":")[0] == "lookup":
        return LookupSource(spec)
    return resolve(spec)


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


def evaluate(
    model: Any,
    dataset: Any,
    *,
    out: str | Path | None = None,
    reuse: str | Path | None = None,
    watcher: Watcher | None = None,
    **options: Any,
) -> Result:
    """Evaluate models on datasets.

    ``model``: a spec such as ``"hf:PATH"``, a backend, or a list. ``dataset``: a name, a class, a Task, or a list.
    ``out``: the run folder (none: nothing is written). ``options``: those of ``kshot run``, with underscores.
    """
    settings = settings_from(options)
    models, datasets = _listed(model), _listed(dataset)
    sources = [source_of(spec) for spec in datasets]
    identity = {
        "models": [spec if isinstance(spec, str) else spec.name for spec in models],
        "datasets": [source.label for source in sources],
        **settings.identity(),
    }
    if out is None and reuse is not None:
        raise UsageError("reuse needs out: answers are taken over into a run folder")
    with ExitStack() as stack:
        folder = stack.enter_context(RunFolder(out, identity, reuse=reuse)) if out is not None else None
        judge = _open(settings.judge, settings) if settings.judge else None
        run = _Run(settings, folder or MemoryMemo(), folder, watcher or _Nobody(), judge)
        return run.all((partial(_open, spec, settings) for spec in models), sources)


def _listed(given: Any) -> list[Any]:
    many = list(given) if isinstance(given, (list, tuple)) else [given]
    if not many:
        raise UsageError("at least one model and one dataset are needed")
    return many


def _open(spec: Any, settings: Settings) -> Backend:
    if not isinstance(spec, str):
        return spec  # type: ignore[no-any-return]
    options = {name: getattr(settings, name) for name in MODEL_OPTIONS}
    if settings.chat_template is not None:
        options["chat_template"] = read_template(settings.chat_template)
    return open_backend(spec, options)


class _Run:
    """One evaluation: every dataset on every model, rows and figures collected as they come."""

    def __init__(
        self, settings: Settings, memo: Memo, folder: RunFolder | None, watcher: Watcher, judge: Backend | None
    ) -> None:
        self._settings = settings
        self._memo = memo
        self._folder = folder
        self._watcher = watcher
        self._judge = judge
        self._kept: Mapping[str, Any] = {}
        self._notes: dict[str, None] = {}
        self._failures: list[str] = []
        self._facts: dict[str, Any] = {}

    def all(self, models: Iterable[Callable[[], Backend]], sources: Sequence[Source]) -> Result:
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
                for source in sources:
                    results += self._source(source, backends, keep)
                del backend, backends
        notes = list(self._notes)
        if self._folder is None:
            return Result(results, notes, None, self._failures, samples)
        with self._folder.replacing(SUMMARY) as file:
            json.dump({"results": results, "notes": notes}, file, indent=2, ensure_ascii=False)
            file.write("\n")
        self._folder.write_spec(tasks=self._facts)
        return Result(results, notes, self._folder.path, self._failures)

    def _source(self, source: Source, backends: Mapping[str, Backend], keep: Callable[[Row], None]) -> list[Row]:
        model = backends["model"]
        tallies: list[Tally] = []
        rows: list[Row] = []
        for task in source.tasks(self._settings, model, self._kept.get(model.name)):
            for note in task.notes:
                if note not in self._notes:
                    self._notes[note] = None
                    self._watcher.note(note)
            self._facts.setdefault(model.name, {})[task.name] = dict(task.facts)
            total = len(task.samples) if isinstance(task.samples, Sized) else None
            self._watcher.begin(task.name, model.name, total)
            with self._emitting(task, keep) as emit:
                tally = run_task(task, backends, self._memo, emit, self._watcher.answered)
            if tally.failed:
                self._failures.append(f"{task.name} on {model.name}: {tally.failed} failed ({tally.first_failure})")
            rows += tally.rows()
            tallies.append(tally)
        return [*rows, *source.totals(tallies)]

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

    def use_facts(self, facts: Mapping[str, Any]) -> None:
        """Take over what an earlier run found out with its models at hand."""
        self._kept = facts


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


# ---- preview ----


def preview(dataset: Any, **options: Any) -> list[Preview]:
    """Give each sample's first requests, exactly as a model would get them; no model is needed."""
    return list(iter_preview(dataset, settings_from(options)))


def iter_preview(dataset: Any, settings: Settings, note: Callable[[str], None] = lambda _: None) -> Iterator[Preview]:
    """Preview as a stream."""
    for spec in _listed(dataset):
        for task in source_of(spec).tasks(settings):
            for text in task.notes:
                note(text)
            for sample in task.samples:
                asking = task.ask(sample)
                yield Preview(task.name, sample.id, tuple(next(asking)))
                asking.close()


# ---- score ----


class _Unasked:
    """Stands for a model that is not there: whatever the journal lacks has failed."""

    answers = (object,)

    def __init__(self, name: str, fingerprint: str) -> None:
        self.name, self.fingerprint = name, fingerprint

    def serve(self, waiting: Waiting) -> Iterator[tuple[Request, Response]]:
        for request in waiting:
            yield request, Failed("not_asked", "the run holds no answer to this request")


class _Stored:
    """A run's journal, read only: failures count as they stand, and nothing is added."""

    def __init__(self, path: Path) -> None:
        self._journal = Journal(path / JOURNAL, read_only=True, use_failures=True)

    def get(self, key: str) -> Response | None:
        return self._journal.get(key)

    def put(self, key: str, asked: str, response: Response) -> None:
        """Nothing was asked, so there is nothing to keep."""


def score(run: str | Path, *, watcher: Watcher | None = None) -> Result:
    """Score a run again from its journal, without its models: after a change of metrics or post-processing."""
    path = Path(run).expanduser()
    spec = read_spec(path)
    identity, prints = spec["identity"], spec.get("fingerprints", {})
    options = dict(spec.get("options", {}))
    judge_spec = str(options.get("judge"))
    settings = settings_from(options)
    sources = [source_of(label) for label in identity["datasets"]]
    if not (path / JOURNAL).exists():
        raise RunError("it has no journal", where=str(path))
    judge = _Unasked(judge_spec, prints[f"judge {judge_spec}"]) if f"judge {judge_spec}" in prints else None
    models = {name: value for name, value in prints.items() if not name.startswith("judge ")}
    with RunFolder(path, identity) as folder:
        again = _Run(settings, _Stored(path), folder, watcher or _Nobody(), judge)
        again.use_facts(spec.get("tasks", {}))
        return again.all((partial(_Unasked, name, value) for name, value in models.items()), sources)
