"""What a run is made of, checked as a whole before the first model is opened: nothing is loaded, computed or sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kshot.backends import check_deterministic, model_packages
from kshot.backends.adapters import as_model
from kshot.backends.checking import (
    check_accounts,
    check_answers,
    check_model,
    check_pairs,
    check_reads,
    check_truncates,
    check_values,
    is_server,
    models_in,
    options_of_spec,
)
from kshot.backends.making import names_search_engine
from kshot.backends.pool.opening import check_pool
from kshot.backends.settings import ModelSettings
from kshot.cleanups.answer_pattern import AnswerPattern
from kshot.core.errors import UsageError
from kshot.core.extras import is_installed, require_all
from kshot.core.metric import judged
from kshot.core.options import flag
from kshot.core.protocols import Model, Source
from kshot.core.specs import parse_spec, split_names, split_options
from kshot.core.watcher import PlannedTask
from kshot.loggers import logger_packages, make_logger, named_loggers
from kshot.loggers.making import GuardedLogger
from kshot.methods.search import REWRITER
from kshot.metrics.passatk import check_tests
from kshot.metrics.settings import JUDGE_OPTIONS
from kshot.retrievers.base import rehearsal
from kshot.runs.limits import check_prices
from kshot.runs.previews import Faults, planned_task, rehearse
from kshot.runs.runner import suits
from kshot.settings import Settings
from kshot.sources import TaskSource, check_data_names, helpers_of, source_of, tell_apart, without_effect
from kshot.studies.sweep import check_sweeps
from kshot.studies.wrapped import OwnSettings
from kshot.tables.files import FILE_SUFFIXES


@dataclass(frozen=True, slots=True)
class Plan:
    """The datasets and models of a run; ``helpers`` are the specs of the models beside the evaluated ones, by role."""

    settings: Settings
    sources: Sequence[Source[Settings]]
    models: Sequence[str | Model]
    helpers: Mapping[str, str]
    notes: Sequence[str] = ()
    tasks: Sequence[PlannedTask] | None = None
    """All tasks with their models, in the order of the run; None where they cannot be told before it."""
    loggers: Sequence[GuardedLogger] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    """What the results call the models of configs, by spec."""

    def identity(self) -> dict[str, Any]:
        """Return what the results depend on."""
        return {
            "models": [spec if isinstance(spec, str) else spec.name for spec in self.models],
            "datasets": [source.label for source in self.sources],
            **self.settings.identity(),
        }


def planned(model: Any, dataset: Any, settings: Settings, log: Any = None) -> Plan:
    """Return the run that the user asks for. Whatever is wrong with it, as far as it shows now, is one error.

    ``log``: the loggers that the user names, made here: nothing is logged before the run starts.
    A part with a fault is left out of the later checks, so that each fault is told once.
    """
    faults, datasets, reads = Faults(), _once(listed(dataset)), set[str]()
    _check_named(settings, faults)
    sources: list[Source[Settings]] = []
    for spec in datasets:
        with faults.collected("dataset", spec):
            source = source_of(spec, settings.noting(reads))
            source.check(settings)
            sources.append(source)
    if len(sources) > 1:
        tell_apart(sources)
    helpers = {role: spec for role, spec in {"judge": settings.judge, REWRITER: settings.rewrite}.items() if spec}
    plan = Plan(settings, sources, [], helpers, loggers=_made_loggers(log, faults) if log is not None else ())
    if len(sources) == len(datasets):  # else one that is missing may name a judge, or have passages to search
        with faults.collected():
            judge = settings.judge or next((spec for source in sources for spec in source.judges[:1]), None)
            plan = replace(plan, settings=replace(settings, judge=judge))
        _check_scoring(plan.settings, faults)
        with faults.collected():
            plan = replace(plan, helpers=helpers_of(plan.settings, sources))
    with faults.collected():
        models = _distinct(listed(model)) if model is not None else models_in(sources, settings)
        names = {} if model is not None else {k: v for each in sources for k, v in each.model_names.items()}
        plan = replace(plan, models=models, names=names)
    named = [*plan.models, *plan.helpers.values()]
    plan = replace(
        plan,
        models=_sound("model", plan.models, settings, faults),
        helpers={role: spec for role, spec in plan.helpers.items() if _sound(role, [spec], settings, faults)},
    )
    complete = len(named) == len(plan.models) + len(plan.helpers)
    found = False
    with faults.collected():
        check_data_names(settings, plan.sources)
        found = True  # else the rehearsal would look for other rows
    of_loggers = logger_packages(log) if log is not None else {}
    if _check_together(plan, faults, of_loggers, complete=complete) and found:
        plan = _rehearsed(plan, reads, faults, complete=len(sources) == len(datasets))
    faults.tell()
    return plan


def listed(given: Any) -> list[Any]:
    """Return one thing or several as a list."""
    many = list(given) if isinstance(given, (list, tuple)) else [given]
    if not many:
        raise UsageError("the list is empty", hint="Name at least one model and one dataset.")
    return many


def options_for(role: str, settings: Settings, spec: str) -> dict[str, Any]:
    """Return the options that the model of a spec is opened with in this role: only what the user has set.

    A plug-in keeps its own defaults.
    """
    return {**settings.changed(ModelSettings), **options_of_spec(settings, role, spec)}


def _once(given: Sequence[Any]) -> list[Any]:
    """Return what was given, without what was given before."""
    seen: list[Any] = []
    for spec in given:
        if not any(spec is each or (isinstance(spec, str) and spec == each) for each in seen):
            seen.append(spec)
    return seen


# ---- models ----


def _distinct(given: Sequence[Any]) -> list[str | Model]:
    """Return the models, each once; objects and functions become models."""
    models = [spec if isinstance(spec, str) else as_model(spec) for spec in _once(given)]
    names = [model if isinstance(model, str) else model.name for model in models]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two models are called {twice!r}", hint="Give each a name of its own.")
    return models


def _sound(role: str, specs: Sequence[str | Model], settings: Settings, faults: Faults) -> list[str | Model]:
    """Return the specs without a fault. One that lacks a package is not checked: all of those are named together."""
    sound: list[str | Model] = []
    for spec in specs:
        with faults.collected("model", spec):
            if isinstance(spec, str) and all(map(is_installed, model_packages(spec))):
                check_model(spec, options_for(role, settings, spec))
                if settings.truncate and role == "model":
                    check_truncates(spec)
            sound.append(spec)
    return sound


def _check_named(settings: Settings, faults: Faults) -> None:
    """Check the metrics, the clean-up and the retrievers that the user names for all datasets.

    Each has a fault of its own, where the user names it; datasets that need it have the same.
    """
    from kshot.cleanups import CLEANUPS, make_cleanup
    from kshot.metrics.making import METRICS, make_metric
    from kshot.retrievers.making import retriever_packages

    metrics = [name for names in settings.metric or () for name in split_names(names)]
    cleanups = [settings.cleanup] if settings.cleanup is not None else []
    kinds = (("metric", make_metric, METRICS, metrics), ("cleanup", make_cleanup, CLEANUPS, cleanups))
    for name, make, registry, specs in kinds:
        for spec in specs:
            with faults.collected("setting", name):
                if all(map(is_installed, registry.packages(parse_spec(spec)))):
                    make(spec)
    for spec in dict(settings.sweep).get("retriever", (settings.retriever,)):
        with faults.collected("setting", "retriever"):
            if isinstance(spec, str):
                retriever_packages(spec)


def _made_loggers(log: Any, faults: Faults) -> list[GuardedLogger]:
    """Make the loggers; one that lacks a package is left out: all of those are named together."""
    made: list[GuardedLogger] = []
    for each in named_loggers(log):
        with faults.collected("log", each):
            if all(is_installed(name) for names in logger_packages(each).values() for name in names):
                made.append(make_logger(each))
    return made


def _check_scoring(settings: Settings, faults: Faults) -> None:
    """Refuse options of the judge where nothing is judged, or that cannot be read."""
    given = [*(name for name in JUDGE_OPTIONS if name in settings.changed()), *settings.changed_of("judge")]
    with faults.collected("setting", *given):
        if given and settings.judge is None:
            raise UsageError(f"{flag(given[0])} needs a judge, and none is named", hint="Add --judge MODEL.")
        if given:
            from kshot.metrics.judge import check_judge_options

            check_judge_options(settings)
    of_rewriter = [*settings.changed_of("rewriter")]
    with faults.collected("setting", *of_rewriter):
        if of_rewriter and settings.rewrite is None:
            raise UsageError(f"{flag(of_rewriter[0])} needs a rewriter, and none is named", hint="Add --rewrite MODEL.")
    with faults.collected("setting", "answer_pattern"):
        if settings.answer_pattern is not None:
            AnswerPattern(settings.answer_pattern)


# ---- models and datasets together ----


def _check_together(plan: Plan, faults: Faults, of_loggers: Mapping[str, Sequence[str]], *, complete: bool) -> bool:
    """Refuse missing packages, all named in one error, and models that do not fit the datasets or the settings.

    ``of_loggers``: the packages that each logger needs. ``complete``: no model was left out for a fault. Return whether
    the packages are there.
    """
    settings, specs = plan.settings, [*plan.models, *plan.helpers.values()]
    of_models = {spec: model_packages(spec) for spec in specs if isinstance(spec, str)}
    installed = False
    with faults.collected():
        of_sources = {purpose: names for each in plan.sources for purpose, names in each.packages(settings).items()}
        require_all({**of_models, **of_sources, **of_loggers})
        installed = True
    for spec in specs if settings.deterministic and installed else ():
        with faults.collected():
            check_deterministic(spec)
    with faults.collected("setting", "workers"):
        check_pool(plan.models, settings)
    with faults.collected():
        if plan.models:
            check_pairs(plan.models, plan.sources, settings)
    for source in plan.sources:
        if isinstance(source, TaskSource) and source.once_only and settings.limit is None and len(plan.models) > 1:
            with faults.collected():
                what = f"its samples can be read once only, and the run has {len(plan.models)} models"
                raise UsageError(what, where=source.label, hint="Give the samples as a list.")
    helpers = [role for role, spec in plan.helpers.items() if is_server(spec)]
    served = [*(["model"] if any(is_server(spec) for spec in plan.models) else []), *helpers]
    with faults.collected():
        check_values(settings, served if plan.models else ["model", *served])  # without models, one of them is a fault
        if complete:  # else one that is left out may be the server that the key is for
            check_accounts(plan.models, plan.helpers, settings)
    if complete and settings.max_cost is not None:
        with faults.collected():
            check_prices(settings, served)
    return installed


def _rehearsed(plan: Plan, reads: set[str], faults: Faults, *, complete: bool) -> Plan:
    """Try every dataset out; a model that cannot answer what it asks is a fault too. Add the notes and the tasks.

    ``reads``: the options that making the sources has read. What has no effect shows when their tasks are compiled.
    ``complete``: no dataset was left out for a fault.
    """
    settings, judges = plan.settings, 0
    tasks: dict[int, Sequence[PlannedTask] | None] = {}
    for number, source in enumerate(plan.sources):
        asked, shown = set[type](), set[str]()
        with faults.collected("dataset", source.label), rehearsal():
            found: list[PlannedTask] = []
            for task in source.rehearsals(settings.noting(reads)):
                judges += bool(judged(task.metrics))
                check_tests(task)
                types, media = rehearse(task, judged=settings.judge is not None)
                if "ranking_type" not in task.labels:  # else the model decides what is asked
                    asked |= types
                shown |= media
                found.append(planned_task(task))
            tasks[number] = source.planned(settings, found)
        for spec in () if source.searches(settings) else plan.models:
            with faults.collected("model", spec):
                check_answers(spec, asked, source.without_logprobs)
                check_reads(spec, shown)
    if len(tasks) > 1:
        with faults.collected():
            _check_names(plan.sources, tasks)
    if settings.sweep and complete and len(tasks) == len(plan.sources):  # else one that is left out might read more
        with faults.collected():
            check_sweeps(settings, plan.sources, reads)
    notes = [*without_effect(settings, plan.sources, reads)]
    if settings.judge is not None and not judges:
        notes.append("--judge has no effect: no metric of this run asks a judge")
    return replace(plan, notes=notes, tasks=_all_tasks(plan, [tasks.get(each) for each in range(len(plan.sources))]))


def _check_names(sources: Sequence[Source[Settings]], tasks: Mapping[int, Sequence[PlannedTask] | None]) -> None:
    """Refuse datasets of one name, if one is a file or has settings of its own: figures and gates are found by it."""
    seen: dict[str, Source[Settings]] = {}
    for number, found in tasks.items():
        source = sources[number]
        for name in {task.task: None for task in found or ()}:
            if name in seen and any(
                isinstance(each, OwnSettings) or _is_file(each.label) for each in (source, seen[name])
            ):
                what = f"two datasets of the run are called {name!r}: {seen[name].label} and {source.label}"
                raise UsageError(what, hint="Give one of them another name, or run them one after the other.")
            seen[name] = source


def _is_file(label: str) -> bool:
    """Whether a config, a table or a task file is meant: files name what they hold."""
    return label.startswith("lmeval:") or split_options(label)[0].lower().endswith((".py", *FILE_SUFFIXES))


def _all_tasks(plan: Plan, of_sources: Sequence[Sequence[PlannedTask] | None]) -> list[PlannedTask] | None:
    """Return the tasks of each model, as the run does them; None if those of a dataset, or its models, are unknown."""
    searching = [source.searches(plan.settings) for source in plan.sources]
    found: list[PlannedTask] = []
    for spec in plan.models:
        for tasks, needed in zip(of_sources, searching, strict=True):
            if isinstance(spec, str):
                kind = names_search_engine(spec)
                fits = kind == needed if kind is not None else True if len(set(searching)) == 1 else None
            else:
                fits = suits(spec, searching=needed)
            if fits is None or tasks is None:
                return None
            name = spec if isinstance(spec, str) else spec.name
            found += [replace(task, model=name) for task in tasks] if fits else []
    return found
