"""``evaluate`` and ``preview``: the functions behind the command line."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kshot.backends import open_model
from kshot.backends.adapters import renamed
from kshot.backends.checking import not_taken
from kshot.backends.pool.opening import open_executor, open_pool, runs_in_pool
from kshot.backends.server.settings import ServerSettings
from kshot.backends.settings import ModelSettings
from kshot.core.errors import UsageError, naming
from kshot.core.extras import require_all
from kshot.core.memo import MemoryMemo
from kshot.core.postponed import BatchesOpen
from kshot.core.protocols import LanguageModel, Model, Source
from kshot.core.watcher import Watcher
from kshot.index.store import Store
from kshot.metrics.settings import JUDGE_OPTIONS
from kshot.planning import Plan, listed, options_for, planned
from kshot.result import Result
from kshot.runs.code import ImportedCode
from kshot.runs.folder import RunFolder
from kshot.runs.previews import Preview, previewed
from kshot.runs.progress import FolderProgress
from kshot.runs.runner import Run
from kshot.runs.watchers import Watchers, following, given_watchers
from kshot.sandbox.program import programs_wanted, unsafe_notes
from kshot.settings import Settings, settings_from
from kshot.sources import source_of
from kshot.tables.files import files_read_once

if TYPE_CHECKING:
    from typing_extensions import Unpack  # of typing since Python 3.11; type checkers know it everywhere

    from kshot.option_types import EvaluateOptions  # a stub: there is no such module at run time


def evaluate(
    model: Any = None,
    dataset: Any = "lookup",
    *,
    out: str | Path | None = None,
    reuse: str | Path | Sequence[str | Path] | None = None,
    log: str | Watcher | Sequence[str | Watcher] | None = None,
    watcher: Watcher | Sequence[Watcher] | None = None,
    **options: Unpack[EvaluateOptions],
) -> Result:
    """Evaluate models on datasets.

    ``model``: a spec such as ``"hf:PATH"``, a model, a function from a prompt to a text, or a list of them (default:
    the models of a config file, else built-in ones). ``dataset``: a name, a class, a Task, a config file, or a list.
    ``out``: the run folder (None: nothing is written). ``reuse``: another run, or several, whose answers may be used.
    ``log``: a logger such as ``"wandb"`` or ``"mlflow,experiment=nightly"``, or several (``kshot list loggers``).
    ``watcher``: an object that follows the run, or several. ``options``: those of ``kshot run``, with underscores.
    """
    settings = settings_from(options, dataset)
    while True:
        try:
            return _evaluated_once(model, dataset, settings, out=out, reuse=reuse, log=log, watcher=watcher)
        except BatchesOpen as exc:
            if settings.batch_wait is None:
                raise
            Watchers(*given_watchers(watcher)).note(f"{exc.what}; the next look is in {settings.batch_wait:g} s")
        time.sleep(settings.batch_wait)


def _evaluated_once(
    model: Any, dataset: Any, settings: Settings, *, out: str | Path | None, reuse: Any, log: Any, watcher: Any
) -> Result:
    """Evaluate; with ``--batch-api`` as far as the answers are there."""
    code = ImportedCode()
    with code.watching(), programs_wanted(unsafe=settings.unsafe_programs), files_read_once(), ExitStack() as ending:
        plan = planned(model, dataset, settings, log)
        ending.callback(_close_all, plan.sources)
        with following(watcher, plan.loggers) as watching:
            result = _evaluated(plan, out=out, reuse=reuse, watcher=watching, code=code)
            if plan.settings.report and result.path is not None and plan.settings.shard is None:
                from kshot.reporting import report_at_end

                report_at_end(result, watching.note)
        result.notes += [note for logger in plan.loggers for note in logger.notes]
        return result


def _close_all(sources: Iterable[Source[Settings]]) -> None:
    for source in sources:
        source.close()


def _evaluated(plan: Plan, *, out: str | Path | None, reuse: Any, watcher: Watcher, code: ImportedCode) -> Result:
    settings, models, sources = plan.settings, plan.models, plan.sources
    others = _runs_to_reuse(reuse)
    if out is None and others:
        raise UsageError("reuse needs out: answers are reused in a run folder")
    if out is None and settings.shard is not None:
        raise UsageError("shard needs out: the run folders of all shards are merged")
    with ExitStack() as stack:
        folder = None
        if out is not None:
            folder = stack.enter_context(RunFolder(out, plan.identity(), reuse=others, fsync=settings.fsync))
            code.record_in(folder.spec)
            folder.spec |= {"notes": list(plan.notes)} if plan.notes else {}
            settings = _with_kept_tokens(settings, folder, watcher)
            watcher = Watchers(watcher, stack.enter_context(FolderProgress(folder.path, folder.started)))
        helpers: dict[str, Model] = {}
        for role, spec in plan.helpers.items():
            helpers[role] = _opened(role, spec, settings, watcher)
            stack.callback(_close, helpers[role], watcher.note)
        run = Run(
            settings,
            folder or MemoryMemo(),
            store=Store(progress=watcher.step, executor=open_executor(settings, watcher.note, device=settings.device)),
            folder=folder,
            watcher=watcher,
            helpers=helpers,
            identity=plan.identity(),
            planned=plan.tasks,
        )
        if settings.shard is not None:
            run.note(f"shard {settings.shard} of a run: it has no figures; kshot merge joins the shards")
        for text in (text for source in sources for text in source.announcements()):
            watcher.note(text)
        for text in (*plan.notes, *unsafe_notes()):
            run.note(text)
        for text in not_taken(settings.changed(ModelSettings, ServerSettings), [*models, *plan.helpers.values()]):
            watcher.note(text)
        opened = stack.enter_context(closing(_in_turn(models, settings, watcher, plan.names)))
        return Result.of(run.all(opened, sources))


def _with_kept_tokens(settings: Settings, folder: RunFolder, watcher: Watcher) -> Settings:
    """Return the settings of a run that continues: answers that were asked with their tokens are not asked without."""
    if settings.token_logprobs or folder.spec.get("options", {}).get("token_logprobs") is not True:
        return settings
    watcher.note(f"{folder.path} was begun with --token-logprobs, which stays on for it")
    return replace(settings, token_logprobs=True)


def _runs_to_reuse(reuse: Any) -> list[str | Path]:
    """Return the runs whose answers may be used."""
    if reuse is None:
        return []
    runs = [reuse] if isinstance(reuse, (str, Path)) else reuse
    if not isinstance(runs, (list, tuple)) or not all(isinstance(run, (str, Path)) for run in runs):
        raise UsageError(f"reuse is {reuse!r:.60}; it must be a run folder, or a list of run folders")
    return list(runs)


def _opened(role: str, spec: str | Model, settings: Settings, watcher: Watcher) -> Model:
    """Open a model, which may take minutes: those who watch see it. Evaluated models run in workers if they should."""
    pooled = role == "model" and runs_in_pool(spec, settings)
    if not isinstance(spec, str) and not pooled:
        return spec  # the user has opened it
    label = f"opening {spec if isinstance(spec, str) else spec.name}"
    watcher.step(label, 0, 1)
    try:
        options = options_for(role, settings, spec) if isinstance(spec, str) else {}
        if isinstance(spec, str) and not pooled:
            return open_model(spec, options)
        return open_pool(spec, options, settings, watcher.note)
    finally:
        watcher.step(label, 1, 1)


def _in_turn(
    specs: Iterable[str | Model], settings: Settings, watcher: Watcher, called: Mapping[str, str]
) -> Generator[Model]:
    """Open one model at a time; close each model that was opened here before the next one opens.

    ``called``: what the results call a model, by spec.
    """
    names: set[str] = set()
    for spec in specs:
        own = isinstance(spec, str) or runs_in_pool(spec, settings)  # one that the user gave stays open
        model = _opened("model", spec, settings, watcher)
        model = renamed(model, called[spec]) if isinstance(spec, str) and spec in called else model
        try:
            if model.name in names:
                raise UsageError(f"two models are called {model.name!r}", hint="Give each a name of its own.")
            names.add(model.name)
            if settings.truncate and isinstance(model, LanguageModel) and not model.abilities.cuts_prompts:
                hint = "Leave --truncate out; hf:, vllm: and embedded models cut prompts that they open with it."
                raise UsageError("it does not cut prompts", where=model.name, hint=hint)
            yield model
        finally:
            if own:
                _close(model, watcher.note)


def _close(model: Model, tell: Callable[[str], None]) -> None:
    """Close a model; an error there must not lose what the model has answered."""
    try:
        model.close()
    except (Exception, SystemExit) as exc:  # noqa: BLE001 - a plug-in may raise anything
        tell(f"{model.name} could not be closed ({type(exc).__name__}: {exc})")


# ---- preview ----


def preview(dataset: Any, **options: Unpack[EvaluateOptions]) -> list[Preview]:
    """Return the first requests of each sample, exactly as a model would get them; this needs no model.

    With ``judge`` or one of its options they come with what the judge would be asked.
    """
    return list(iter_preview(dataset, settings_from(options, dataset)))


def iter_preview(dataset: Any, settings: Settings, note: Callable[[str], None] = lambda _: None) -> Iterator[Preview]:
    """Yield the previews one by one."""
    judged = any(name in settings.changed() for name in ("judge", *JUDGE_OPTIONS))
    noted: set[str] = set()  # tasks of a sweep have the same to say
    for spec in listed(dataset):
        with naming("dataset", str(spec)):
            source = source_of(spec, settings)
            require_all(source.packages(settings, scored=False))
            source.check(settings)
            for text in source.announcements():
                note(text)
            for task in source.previews(settings):
                for text in dict.fromkeys(task.notes):
                    if text not in noted:
                        note(text)
                noted.update(task.notes)
                for sample in task.samples:
                    yield previewed(task, sample, judged=judged)
            source.close()


# ---- what inspect, help and notebooks show ----


def _show_options(function: Any) -> None:
    """Write the options of a function out in its signature."""
    shown = inspect.signature(function)
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=each.annotation)
        for name, each in Settings.declared().items()
    ]
    own = [each for each in shown.parameters.values() if each.kind is not each.VAR_KEYWORD]
    function.__signature__ = shown.replace(parameters=[*own, *options])


_show_options(evaluate)
_show_options(preview)
