"""``evaluate``, ``preview`` and ``score``: the command line's work, as functions."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from kshot.backends import names_engine, open_backend
from kshot.backends.search.search_engine import searched
from kshot.core.corpus import Corpus
from kshot.core.engine import MemoryMemo
from kshot.core.errors import RunError, UsageError
from kshot.core.records import Failed, Request, Response
from kshot.core.task import Backend, Task, Waiting
from kshot.index.store import Store
from kshot.methods.search import REWRITER
from kshot.passages import is_passages
from kshot.runs import Journal, RunFolder, read_spec
from kshot.runs.folder import JOURNAL
from kshot.runs.results import Row, Tally, spread_rows
from kshot.runs.runner import Result, Run, Source, Watcher, searches
from kshot.runs.task_run import start
from kshot.settings import MODEL_OPTIONS, SERVER_OPTIONS, Settings, settings_from


@dataclass(frozen=True, slots=True)
class Preview:
    """What a sample's method would ask first."""

    task: str
    id: str
    requests: tuple[Request, ...]


@dataclass(frozen=True, slots=True)
class _Value:
    """A Task that was given as it is."""

    task: Task[Any]

    @property
    def label(self) -> str:
        return self.task.name

    def tasks(self, settings: Settings, *_: object) -> Iterator[Task[Any]]:
        limit = settings.limit
        yield self.task if limit is None else replace(self.task, samples=list(islice(self.task.samples, limit)))

    def totals(self, _: Sequence[Tally]) -> Iterator[Row]:
        return iter(())


@dataclass(frozen=True, slots=True)
class _Draws:
    """The same thing for every seed of the choice of examples, and the spread that this choice alone causes."""

    spec: Any
    label: str

    def tasks(self, settings: Settings, model: object = None, *_: object) -> Iterator[Task[Any]]:
        if not settings.num_shots and not settings.shots:
            raise UsageError("--retriever-seeds needs examples to choose", hint="Add --num-shots K.")
        from kshot.retrievers import parse_seeds

        for seed in parse_seeds(settings.retriever_seeds or ""):
            drawn = replace(settings, seed=seed, retriever_seeds=None)
            for task in source_of(self.spec, drawn).tasks(drawn, model):
                labels = {**task.labels, "of": task.name, "example_seed": seed}
                yield replace(task, name=f"{task.name}@{seed}", labels=labels)

    def totals(self, tallies: Sequence[Tally]) -> Iterator[Row]:
        return spread_rows(tallies)


def source_of(spec: Any, settings: Settings) -> Source:
    """Find what a user named: a Task, token lookup, passages, a config file, a dataset class or its name.

    Each way in is imported when it is taken: a run of one need not wait for the others.
    """
    source: Source
    if isinstance(spec, Path):
        spec = str(spec)
    if isinstance(spec, Task):
        source = _Value(spec)
    elif isinstance(spec, str) and spec.partition(":")[0] == "lookup":
        from kshot.lookup.suite import LookupSource

        source = LookupSource(spec)
    elif isinstance(spec, str) and is_passages(spec):
        from kshot.passages.source import PassagesSource

        source = PassagesSource(spec)
    elif isinstance(spec, str) and is_config(spec):
        from kshot.configs import ConfigSource
        from kshot.retrievers.making import as_config

        retriever = as_config(settings.retriever, settings.num_shots, settings.seed) if settings.retriever else None
        source = ConfigSource(spec, config_root=settings.config_root, retriever=retriever)
    else:
        from kshot.datasets.naming import resolve

        source = resolve(spec)
    return _Draws(spec, source.label) if settings.retriever_seeds is not None else source


def is_config(spec: str) -> bool:
    """Whether this names a config file: a Python file without a class. It is only ever run confined, never imported."""
    return spec.endswith(".py")


def evaluate(
    model: Any = None,
    dataset: Any = "lookup",
    *,
    out: str | Path | None = None,
    reuse: str | Path | None = None,
    watcher: Watcher | None = None,
    **options: Any,
) -> Result:
    """Evaluate models on datasets.

    ``model``: a spec such as ``"hf:PATH"``, a backend, or a list (default: those of a config file, else the embedded
    model). ``dataset``: a name, a class, a Task, a config file, or a list.
    ``out``: the run folder (none: nothing is written). ``options``: those of ``kshot run``, with underscores.
    """
    settings = settings_from(options)
    datasets = _listed(dataset)
    sources = [source_of(spec, settings) for spec in datasets]
    models = list(dict.fromkeys(_listed(model))) if model is not None else _models_in(sources, settings)
    settings = _judged(settings, sources)
    identity = {
        "models": [spec if isinstance(spec, str) else spec.name for spec in models],
        "datasets": [source.label for source in sources],
        **settings.identity(),
    }
    if out is None and reuse is not None:
        raise UsageError("reuse needs out: answers are taken over into a run folder")
    with ExitStack() as stack:
        folder = stack.enter_context(RunFolder(out, identity, reuse=reuse)) if out is not None else None
        tell = watcher.note if watcher is not None else lambda _: None
        staff = {role: _open(spec, settings) for role, spec in _staff(settings, sources).items()}
        for helper in staff.values():
            stack.callback(_close, helper, tell)
        store = Store(progress=watcher.step) if watcher is not None else Store()
        run = Run(settings, folder or MemoryMemo(), folder=folder, watcher=watcher, staff=staff, store=store)
        _check_pairs(models, sources, settings)
        return run.all(stack.enter_context(closing(_in_turn(models, settings, tell))), sources)


def _models_in(sources: Sequence[Source], settings: Settings) -> list[Any]:
    """The models to run when the user names none: a config's own, else those in the box that the sources need."""
    found = [entry.spec for source in sources for entry in getattr(source, "models", ())]
    needed = {"fts5" if searches(source, settings) else "embedded": None for source in sources}
    return list(dict.fromkeys(found)) or list(needed)


def _staff(settings: Settings, sources: Sequence[Source]) -> dict[str, str]:
    """The backends beside the model, by role."""
    staff = {"judge": settings.judge, REWRITER: settings.rewrite}
    if settings.method == "rag" and any(hasattr(source, "searches") for source in sources):
        staff["corpus"] = settings.search or "fts5"
    elif settings.search is not None:
        raise UsageError("--search is the search engine of --method rag", hint="Engines to compare are given with -m.")
    return {role: spec for role, spec in staff.items() if spec is not None}


def _check_pairs(models: Sequence[Any], sources: Sequence[Source], settings: Settings) -> None:
    """Refuse a dataset that none of the models can be put to, before anything is loaded."""
    kinds = {names_engine(spec) if isinstance(spec, str) else None for spec in models}
    for source in sources:
        searching = searches(source, settings)
        if None not in kinds and searching not in kinds:
            named = ", ".join(str(spec) for spec in models)
            who = "search engines" if searching else "language models"
            raise UsageError(
                f"{source.label} is put to {who}, and there is none among: {named}",
                hint="Add -m fts5 (kshot list engines), or --method rag." if searching else "Add -m MODEL.",
            )


def _judged(settings: Settings, sources: Sequence[Source]) -> Settings:
    """Let the judge that a config names judge, unless the user names one."""
    judges = [entry.spec for source in sources for entry in getattr(source, "judges", [])[:1]]
    return replace(settings, judge=judges[0]) if judges and settings.judge is None else settings


def _listed(given: Any) -> list[Any]:
    many = list(given) if isinstance(given, (list, tuple)) else [given]
    if not many:
        raise UsageError("at least one model and one dataset are needed")
    return many


def _in_turn(specs: Iterable[Any], settings: Settings, tell: Callable[[str], None]) -> Generator[Backend]:
    """Open one at a time; what was opened here gives its memory back before the next one takes its own."""
    for spec in specs:
        model = _open(spec, settings)
        try:
            yield model
        finally:
            if isinstance(spec, str):
                _close(model, tell)


def _close(model: Any, tell: Callable[[str], None]) -> None:
    """Close a backend that can be closed; what it has answered is not lost because that fails."""
    if callable(close := getattr(model, "close", None)):
        try:
            close()
        except Exception as exc:  # noqa: BLE001 - anything may go wrong in a plug-in
            tell(f"{model.name} could not be closed ({type(exc).__name__}: {exc})")


def _open(spec: Any, settings: Settings) -> Backend:
    if not isinstance(spec, str):
        return spec  # type: ignore[no-any-return]
    options = {name: getattr(settings, name) for name in (*MODEL_OPTIONS, *SERVER_OPTIONS)}
    if settings.chat_template is not None:
        from kshot.prompts.chat import read_template

        options["chat_template"] = read_template(settings.chat_template)
    opened: Backend = open_backend(spec, options)
    return opened


# ---- preview ----


def preview(dataset: Any, **options: Any) -> list[Preview]:
    """Give each sample's first requests, exactly as a model would get them; no model is needed."""
    return list(iter_preview(dataset, settings_from(options)))


def iter_preview(dataset: Any, settings: Settings, note: Callable[[str], None] = lambda _: None) -> Iterator[Preview]:
    """Preview as a stream."""
    for spec in _listed(dataset):
        source = source_of(spec, settings)
        look = getattr(source, "previews", source.tasks)
        for task in look(settings):
            for text in task.notes:
                note(text)
            for sample in task.samples:
                asking = start(task, sample)
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


class _UnaskedEngine:
    """Stands for a search engine that is not there."""

    def __init__(self, name: str, fingerprint: str) -> None:
        self.name, self.fingerprint = name, fingerprint

    def over(self, corpus: Corpus, _: object) -> _Unasked:
        return _Unasked(self.name, searched(self.fingerprint, corpus))


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
    settings = settings_from(options)
    sources = [source_of(label, settings) for label in identity["datasets"]]
    if not (path / JOURNAL).exists():
        raise RunError("it has no journal", where=str(path))
    roles = {label: label.partition(" ")[0] for label in prints}
    staff = {role: _unasked(label, prints[label]) for label, role in roles.items() if role in _staff(settings, sources)}
    models = [label for label, role in roles.items() if role not in staff]
    with RunFolder(path, identity) as folder:
        facts = spec.get("tasks", {})
        again = Run(settings, _Stored(path), folder=folder, watcher=watcher, staff=staff, facts=facts)
        return again.all((_unasked(label, prints[label]) for label in models), sources)


def _unasked(label: str, fingerprint: str) -> Any:
    """Stand in for what a run's spec lists: ``NAME`` of a model, or ``ROLE NAME``."""
    role, _, name = label.partition(" ")
    if role in {"engine", "corpus"} and name:
        return _UnaskedEngine(name, fingerprint)
    return _Unasked(name if role in {"judge", REWRITER} and name else label, fingerprint)
