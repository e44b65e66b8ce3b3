"""What a user names as datasets, as sources of tasks, and the models that are needed beside the evaluated one."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from kshot.backends.pool.settings import PoolSettings
from kshot.backends.server.settings import ServersSettings
from kshot.backends.settings import ModelSettings
from kshot.core.errors import KshotError, UsageError
from kshot.core.options import flag, settings_names
from kshot.core.protocols import Model, Source
from kshot.core.registry import check_config_file
from kshot.core.settings import FolderSettings, LimitSettings, ProgramSettings, ResponseSettings, ShardSettings
from kshot.core.specs import parse_spec, split_options, with_options
from kshot.core.task import Task
from kshot.core.visible import listed
from kshot.methods.search import REWRITER
from kshot.passages import is_passages
from kshot.settings import Settings
from kshot.studies.sweep import own_values, sweep_of

_NAMES_LISTED = 12
HELPER_ROLES = ("judge", REWRITER, "corpus")
"""The roles of the models beside the evaluated one."""


@dataclass(frozen=True, slots=True)
class TaskSource(Source[Settings]):
    """The source of a Task that the user made."""

    task: Task[Any]
    _limited: dict[int, Task[Any]] = field(default_factory=dict, compare=False, repr=False)
    """The task with its first samples, by their number: an iterator gives them once only."""

    @property
    def once_only(self) -> bool:
        """Whether the samples can be read once only."""
        return iter(self.task.samples) is self.task.samples

    @property
    def label(self) -> str:
        """The name of the task."""
        return self.task.name

    def data_names(self) -> Collection[str]:
        """Return no names: its samples are there already."""
        return ()

    def tasks(
        self, settings: Settings, model: Model | None = None, facts: Mapping[str, Any] | None = None
    ) -> Iterator[Task[Any]]:
        """Return the task, with its first samples if there is a limit."""
        del model, facts  # the task is already made
        limit = settings.limit
        if limit is not None and limit not in self._limited:
            self._limited[limit] = replace(self.task, samples=list(islice(self.task.samples, limit)))
        yield self.task if limit is None else self._limited[limit]


def source_of(spec: Any, settings: Settings) -> Source[Settings]:
    """Return the source that a user named: a Task, token lookup, passages, a config file, a dataset class or its name.

    Each front end is imported when it is used, so that a run of one does not wait for the others.
    """
    source: Source[Settings]
    if isinstance(spec, Path):
        spec = str(spec)
    if settings.sweep or (isinstance(spec, str) and own_values(spec)):
        return _sweep(spec, settings)
    if isinstance(spec, str) and _has_own_settings(spec):
        return _with_own_settings(spec, settings)
    if isinstance(spec, Task):
        source = TaskSource(spec)
    elif isinstance(spec, str) and parse_spec(spec).name == "lookup":
        from kshot.lookup.source import LookupSource

        source = LookupSource(spec)
    elif isinstance(spec, str) and parse_spec(spec).name == "lmeval":
        from kshot.lmeval.source import LmevalSource

        source = LmevalSource(spec, settings.lmeval_root)
    elif isinstance(spec, str) and is_passages(spec):
        from kshot.passages.source import PassagesSource

        source = PassagesSource(spec)
    elif isinstance(spec, str) and is_config(spec):
        from kshot.configs import ConfigSource
        from kshot.retrievers.making import as_config

        _refuse_dataset_file(spec)
        check_config_file(Path(spec).expanduser())
        retriever = as_config(settings.retriever, settings.num_shots, settings.seed) if settings.retriever else None
        source = ConfigSource(
            spec,
            home=settings.home,
            config_root=settings.config_root,
            allow_download=settings.allow_download,
            retriever=retriever,
            only=settings.only or (),
        )
    else:
        source = _dataset(spec, settings)
    if settings.retriever_seeds is None:
        return source
    from kshot.studies.example_draws import ExampleDraws

    # kept, so that a run is asked the draw that it has tried out
    return ExampleDraws(source.label, source, cache(lambda whole, seed: _drawn(spec, whole, seed)))


def _refuse_dataset_file(spec: str) -> None:
    """Refuse a file whose classes derive from others of its package: it holds datasets, and the user names no class."""
    try:
        tree = ast.parse(Path(spec).expanduser().read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return  # the reader of configs says what is wrong with it
    relative = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.level]
    bases = {alias.asname or alias.name for node in relative for alias in node.names}
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
    found = [
        each.name for each in classes if any(isinstance(base, ast.Name) and base.id in bases for base in each.bases)
    ]
    if found:
        names = " or ".join(f"-d {spec}:{name}" for name in found)
        raise UsageError("it holds dataset classes, not a config", where=spec, hint=f"Name the class: {names}.")


def _dataset(spec: Any, settings: Settings) -> Source[Settings]:
    """Return the source of a table whose columns flags name, else that of a dataset class."""
    from kshot.datasets.rows.source import is_rows, rows_source
    from kshot.datasets.source import resolve

    return rows_source(spec, settings) if isinstance(spec, str) and is_rows(spec, settings) else resolve(spec)


def _sweep(spec: Any, settings: Settings) -> Source[Settings]:
    """Return the sweep of a dataset. Passages have none: their table has search engines, not values, side by side."""
    if isinstance(spec, str) and is_passages(spec):
        name = settings.sweep[0][0] if settings.sweep else next(iter(own_values(spec)))
        hint = "Run it once for each value, and compare the runs: kshot compare."
        raise UsageError(f"{flag(name)} has several values, and passages take one", where=spec, hint=hint)
    return sweep_of(spec, settings, source_of)


def tell_apart(sources: Sequence[Source[Settings]]) -> None:
    """Give the tasks of configs that have the same names different ones, once all sources of a run are known."""
    if sum(source.label.endswith(".py") for source in sources) > 1:
        from kshot.configs.source import tell_apart

        tell_apart(sources)


def _drawn(spec: Any, settings: Settings, seed: int) -> tuple[Source[Settings], Settings]:
    """Return the source of one draw of examples and its settings.

    Some retrievers have a seed of their own, not that of the run; the run or the source may name the retriever.
    """
    from kshot.retrievers.making import with_seed

    retriever = None if settings.retriever is None else with_seed(settings.retriever, seed)
    drawn = settings.with_values(seed=seed, retriever=retriever, retriever_seeds=None)
    return source_of(spec, drawn).with_seed(seed), drawn


def is_config(text: str) -> bool:
    """Whether a spec names a config file: a Python file without a class. It runs confined and is never imported."""
    spec = parse_spec(text)
    return spec.file is not None and not spec.argument


def _has_own_settings(text: str) -> bool:
    """Whether settings follow the name of a dataset whose front end does not read them there by itself."""
    return bool(parse_spec(text).options) and (
        parse_spec(text).name == "lookup" or is_passages(text) or is_config(text)
    )


def _with_own_settings(text: str, settings: Settings) -> Source[Settings]:
    """Return the source of a dataset with settings of its own."""
    from kshot.prompts.strings import decode_escapes
    from kshot.studies.wrapped import OwnSettings

    spec, reads = parse_spec(text), set[str]()

    def own(whole: Settings) -> Settings:
        changed = with_options(whole, spec)
        if "stop" in spec.options:
            changed = changed.with_values(stop=tuple(map(decode_escapes, changed.stop or ())))
        return changed.noting(reads)

    return OwnSettings(text, source_of(split_options(text)[0], own(settings)), own, reads)


def helpers_of(settings: Settings, sources: Sequence[Source[Settings]]) -> dict[str, str]:
    """Return the specs of the models beside the evaluated one, by role."""
    helpers = {"judge": settings.judge, REWRITER: settings.rewrite}
    if settings.method == "rag" and any(source.has_corpus for source in sources):
        helpers["corpus"] = settings.search or "fts5"
    elif settings.search is not None:
        raise UsageError("--search needs --method rag", hint="Name the search engines to compare with -m.")
    return {role: spec for role, spec in helpers.items() if spec is not None}


def without_effect(settings: Settings, sources: Sequence[Source[Settings]], reads: Collection[str]) -> Iterator[str]:
    """Name the options that the user has set and that change nothing; ``reads``: those that the datasets have read."""
    own = settings_names(
        ModelSettings,
        ServersSettings,
        PoolSettings,
        LimitSettings,
        ResponseSettings,
        FolderSettings,
        ProgramSettings,
        ShardSettings,
    )
    read = own.union(("seed", "judge"), reads)
    for name in settings.changed():
        if name not in read:
            yield f"{flag(name)} has no effect on {', '.join(source.label for source in sources)}"


def check_data_names(settings: Settings, sources: Sequence[Source[Settings]]) -> None:
    """Refuse ``--data`` that gives rows to no dataset, if all find their rows by names: others would be scored."""
    if not settings.data:
        return
    try:
        names = [source.data_names() for source in sources]
    except KshotError:
        return  # of a config that cannot be run; the run tells why
    known = {name: None for each in names for name in each or ()}
    if not known or None in names:
        return  # nothing reads them, which is told, or a dataset takes a place whole
    for text in settings.data or ():
        name, equals, _ = text.partition("=")
        if not equals or name not in known:
            what = f"no entry is called {name}" if equals else "it names no entry: write --data NAME=FILE_OR_FOLDER"
            hint = f"There are: {listed([*known], _NAMES_LISTED, counted=True)}."
            raise UsageError(f"--data {text}: {what}", hint=hint)
