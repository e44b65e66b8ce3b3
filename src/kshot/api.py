"""``evaluate`` and ``preview``: the functions behind the command line."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from kshot.backends import check_deterministic, model_packages, open_model
from kshot.backends.adapters import as_model
from kshot.backends.choosing import check_pairs, models_in, not_taken
from kshot.backends.server.settings import ServerSettings
from kshot.backends.settings import ModelSettings
from kshot.cleanups.answer_pattern import AnswerPattern
from kshot.core.errors import UsageError
from kshot.core.extras import require_all
from kshot.core.memo import MemoryMemo
from kshot.core.options import flag
from kshot.core.protocols import LanguageModel, Model, Source, Watcher
from kshot.index.store import Store
from kshot.metrics.settings import JUDGE_OPTIONS
from kshot.runs.code import ImportedCode
from kshot.runs.folder import RunFolder
from kshot.runs.previews import Preview, previewed
from kshot.runs.runner import Result, Run
from kshot.settings import Settings, settings_from
from kshot.sources import helpers_of, source_of, without_effect


def evaluate(
    model: Any = None,
    dataset: Any = "lookup",
    *,
    out: str | Path | None = None,
    reuse: str | Path | Sequence[str | Path] | None = None,
    watcher: Watcher | None = None,
    **options: Any,
) -> Result:
    """Evaluate models on datasets.

    ``model``: a spec such as ``"hf:PATH"``, a model, a function from a prompt to a text, or a list of them (default:
    the models of a config file, else built-in ones). ``dataset``: a name, a class, a Task, a config file, or a list.
    ``out``: the run folder (None: nothing is written). ``reuse``: another run, or several, whose answers may be used.
    ``options``: those of ``kshot run``, with underscores.
    """
    code = ImportedCode()
    with code.watching():
        settings = settings_from(options)
        return _evaluated(model, dataset, settings, out=out, reuse=reuse, watcher=watcher, code=code)


def _evaluated(
    model: Any,
    dataset: Any,
    settings: Settings,
    *,
    out: str | Path | None,
    reuse: Any,
    watcher: Watcher | None,
    code: ImportedCode,
) -> Result:
    sources = [source_of(spec, settings) for spec in _listed(dataset)]
    packages = {purpose: names for source in sources for purpose, names in source.packages(settings).items()}
    for source in sources:
        source.check(settings)
    models = _distinct(_listed(model)) if model is not None else models_in(sources, settings)
    settings = _with_judge(settings, sources)
    _check_scoring(settings)
    named_helpers = helpers_of(settings, sources)
    _require_packages([*models, *named_helpers.values()], packages)
    if settings.deterministic:
        for spec in (*models, *named_helpers.values()):
            check_deterministic(spec)
    identity = {
        "models": [spec if isinstance(spec, str) else spec.name for spec in models],
        "datasets": [source.label for source in sources],
        **settings.identity(),
    }
    others = _runs_to_reuse(reuse)
    if out is None and others:
        raise UsageError("reuse needs out: answers are reused in a run folder")
    with ExitStack() as stack:
        folder = stack.enter_context(RunFolder(out, identity, reuse=others)) if out is not None else None
        if folder is not None:
            code.record_in(folder.spec)
        tell = watcher.note if watcher is not None else lambda _: None
        helpers: dict[str, Model] = {}
        for role, spec in named_helpers.items():
            helpers[role] = _open(spec, settings)
            stack.callback(_close, helpers[role], tell)
        store = Store(progress=watcher.step) if watcher is not None else Store()
        run = Run(settings, folder or MemoryMemo(), store=store, folder=folder, watcher=watcher, helpers=helpers)
        check_pairs(models, sources, settings)
        for text in without_effect(settings, sources):
            run.note(text)
        for text in not_taken(settings.changed(ModelSettings, ServerSettings), [*models, *named_helpers.values()]):
            tell(text)
        return run.all(stack.enter_context(closing(_in_turn(models, settings, tell))), sources)


def _distinct(given: Sequence[Any]) -> list[str | Model]:
    """Return the models, each once; objects and functions become models."""
    seen: list[Any] = []
    for spec in given:
        if not any(spec is each or (isinstance(spec, str) and spec == each) for each in seen):
            seen.append(spec)
    models = [spec if isinstance(spec, str) else as_model(spec) for spec in seen]
    names = [model if isinstance(model, str) else model.name for model in models]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two models are called {twice!r}", hint="Give each a name of its own.")
    return models


def _runs_to_reuse(reuse: Any) -> list[str | Path]:
    """Return the runs whose answers may be used."""
    if reuse is None:
        return []
    runs = [reuse] if isinstance(reuse, (str, Path)) else reuse
    if not isinstance(runs, (list, tuple)) or not all(isinstance(run, (str, Path)) for run in runs):
        raise UsageError(f"reuse is {reuse!r:.60}; it must be a run folder, or a list of run folders")
    return list(runs)


def _require_packages(models: Sequence[str | Model], of_sources: Mapping[str, Sequence[str]]) -> None:
    """Name every package that the run needs and that is missing, in one error, before anything is opened."""
    of_models = {spec: model_packages(spec) for spec in models if isinstance(spec, str)}
    require_all({**of_models, **of_sources})


def _with_judge(settings: Settings, sources: Sequence[Source[Settings]]) -> Settings:
    """Use the judge that a config names, unless the user names one."""
    judges = [spec for source in sources for spec in source.judges[:1]]
    return replace(settings, judge=judges[0]) if judges and settings.judge is None else settings


def _check_scoring(settings: Settings) -> None:
    """Refuse options of the judge where nothing is judged, or that cannot be read, before anything is opened."""
    given = [name for name in (*JUDGE_OPTIONS, "judge_price_in", "judge_price_out") if name in settings.changed()]
    if given and settings.judge is None:
        raise UsageError(f"{flag(given[0])} needs a judge, and none is named", hint="Add --judge MODEL.")
    if given:
        from kshot.metrics.judge_options import check_judge_options

        check_judge_options(settings)
    if settings.answer_pattern is not None:
        AnswerPattern(settings.answer_pattern)


def _listed(given: Any) -> list[Any]:
    many = list(given) if isinstance(given, (list, tuple)) else [given]
    if not many:
        raise UsageError("the list is empty", hint="Name at least one model and one dataset.")
    return many


def _in_turn(specs: Iterable[str | Model], settings: Settings, tell: Callable[[str], None]) -> Generator[Model]:
    """Open one model at a time; close each model that was opened here before the next one opens."""
    names: set[str] = set()
    for spec in specs:
        model = _open(spec, settings)
        try:
            if model.name in names:
                raise UsageError(f"two models are called {model.name!r}", hint="Give each a name of its own.")
            names.add(model.name)
            if settings.truncate and isinstance(model, LanguageModel) and not model.abilities.cuts_prompts:
                hint = "Leave --truncate out; hf:, vllm: and embedded models cut prompts that they open with it."
                raise UsageError("it does not cut prompts", where=model.name, hint=hint)
            yield model
        finally:
            if isinstance(spec, str):
                _close(model, tell)


def _close(model: Model, tell: Callable[[str], None]) -> None:
    """Close a model; an error there must not lose what the model has answered."""
    try:
        model.close()
    except (Exception, SystemExit) as exc:  # noqa: BLE001 - a plug-in may raise anything
        tell(f"{model.name} could not be closed ({type(exc).__name__}: {exc})")


def _open(spec: str | Model, settings: Settings) -> Model:
    if not isinstance(spec, str):
        return spec
    # Only what the user has set: a plug-in keeps its own defaults.
    return open_model(spec, settings.changed(ModelSettings, ServerSettings))


# ---- preview ----


def preview(dataset: Any, **options: Any) -> list[Preview]:
    """Return the first requests of each sample, exactly as a model would get them; this needs no model.

    With ``judge`` or one of its options they come with what the judge would be asked.
    """
    return list(iter_preview(dataset, settings_from(options)))


def iter_preview(dataset: Any, settings: Settings, note: Callable[[str], None] = lambda _: None) -> Iterator[Preview]:
    """Yield the previews one by one."""
    judged = any(name in settings.changed() for name in ("judge", *JUDGE_OPTIONS))
    for spec in _listed(dataset):
        source = source_of(spec, settings)
        require_all(source.packages(settings, scored=False))
        source.check(settings)
        for task in source.previews(settings):
            for text in task.notes:
                note(text)
            for sample in task.samples:
                yield previewed(task, sample, judged=judged)
