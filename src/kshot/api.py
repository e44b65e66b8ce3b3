"""``evaluate``, ``preview`` and ``score``: the functions behind the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from kshot.backends import check_deterministic, model_packages, open_model
from kshot.backends.adapters import as_model
from kshot.backends.choosing import check_pairs, models_in, not_taken
from kshot.backends.server.settings import PriceSettings, ServerSettings
from kshot.backends.settings import ModelSettings
from kshot.cleanups.answer_pattern import AnswerPattern
from kshot.core.errors import RunError, UsageError
from kshot.core.extras import require_all
from kshot.core.memo import MemoryMemo
from kshot.core.options import flag, settings_names
from kshot.core.protocols import LanguageModel, Model, Source, Watcher
from kshot.core.records import Hit, Ranking
from kshot.core.specs import parse_spec
from kshot.core.task import Task
from kshot.index.store import Store
from kshot.methods.search import REWRITER
from kshot.metrics.settings import JUDGE_OPTIONS
from kshot.passages import is_passages
from kshot.runs.absent import StoredResponses, absent_model
from kshot.runs.folder import JOURNAL, RunFolder, read_spec
from kshot.runs.previews import Preview, previewed
from kshot.runs.runner import Result, Run
from kshot.settings import Settings, settings_from

HELPER_ROLES = ("judge", REWRITER, "corpus")
"""The roles of the models beside the evaluated one."""


@dataclass(frozen=True, slots=True)
class _TaskSource(Source[Settings]):
    """The source of a Task that the user made."""

    task: Task[Any]

    @property
    def label(self) -> str:
        return self.task.name

    def reads(self, settings: Settings) -> Collection[str]:
        del settings  # everything else was decided when the task was made
        return ("limit",)

    def tasks(
        self, settings: Settings, model: Model | None = None, facts: Mapping[str, Any] | None = None
    ) -> Iterator[Task[Any]]:
        del model, facts  # the task is already made
        limit = settings.limit
        yield self.task if limit is None else replace(self.task, samples=list(islice(self.task.samples, limit)))


def source_of(spec: Any, settings: Settings) -> Source[Settings]:
    """Return the source that a user named: a Task, token lookup, passages, a config file, a dataset class or its name.

    Each front end is imported when it is used, so that a run of one does not wait for the others.
    """
    source: Source[Settings]
    if isinstance(spec, Path):
        spec = str(spec)
    if isinstance(spec, Task):
        source = _TaskSource(spec)
    elif isinstance(spec, str) and parse_spec(spec).name == "lookup":
        from kshot.lookup.source import LookupSource

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
        from kshot.datasets.source import resolve

        source = resolve(spec)
    if settings.retriever_seeds is None:
        return source
    from kshot.studies.example_draws import ExampleDraws

    return ExampleDraws(source.label, source, lambda whole, seed: _drawn(spec, whole, seed))


def _drawn(spec: Any, settings: Settings, seed: int) -> tuple[Source[Settings], Settings]:
    """Return the source of one draw of examples and its settings.

    Some retrievers have a seed of their own, not that of the run; the run or the source may name the retriever.
    """
    from kshot.retrievers.making import with_seed

    retriever = None if settings.retriever is None else with_seed(settings.retriever, seed)
    drawn = replace(settings, seed=seed, retriever=retriever, retriever_seeds=None)
    return source_of(spec, drawn).with_seed(seed), drawn


def is_config(text: str) -> bool:
    """Whether a spec names a config file: a Python file without a class. It runs confined and is never imported."""
    spec = parse_spec(text)
    if spec.file is None or spec.argument:
        return False
    if spec.options:
        name, value = next(iter(spec.options.items()))
        raise UsageError(
            "a config file takes no options after its name", where=text, hint=f"Write {flag(name)} {value}."
        )
    return True


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
    settings = settings_from(options)
    sources = [source_of(spec, settings) for spec in _listed(dataset)]
    packages = {purpose: names for source in sources for purpose, names in source.packages(settings).items()}
    for source in sources:
        source.check(settings)
    models = _distinct(_listed(model)) if model is not None else models_in(sources, settings)
    settings = _with_judge(settings, sources)
    _check_scoring(settings)
    named_helpers = _helpers(settings, sources)
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
        tell = watcher.note if watcher is not None else lambda _: None
        helpers: dict[str, Model] = {}
        for role, spec in named_helpers.items():
            helpers[role] = _open(spec, settings)
            stack.callback(_close, helpers[role], tell)
        store = Store(progress=watcher.step) if watcher is not None else Store()
        run = Run(settings, folder or MemoryMemo(), store=store, folder=folder, watcher=watcher, helpers=helpers)
        check_pairs(models, sources, settings)
        for text in _without_effect(settings, sources):
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


def _without_effect(settings: Settings, sources: Sequence[Source[Settings]]) -> Iterator[str]:
    """Name the options that the user has set and that change nothing for any of the datasets."""
    read = settings_names(ModelSettings, ServerSettings, PriceSettings).union(("seed", "judge"))
    read = read.union(*(source.reads(settings) for source in sources))
    for name in settings.changed():
        if name not in read:
            yield f"{flag(name)} has no effect on {', '.join(source.label for source in sources)}"


def _helpers(settings: Settings, sources: Sequence[Source[Settings]]) -> dict[str, str]:
    """Return the specs of the models beside the evaluated one, by role."""
    helpers = {"judge": settings.judge, REWRITER: settings.rewrite}
    if settings.method == "rag" and any(source.has_corpus for source in sources):
        helpers["corpus"] = settings.search or "fts5"
    elif settings.search is not None:
        raise UsageError("--search needs --method rag", hint="Name the search engines to compare with -m.")
    return {role: spec for role, spec in helpers.items() if spec is not None}


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


# ---- score ----


def score(run: str | Path, *, watcher: Watcher | None = None) -> Result:
    """Score a run again from its journal, without its models, after a change of metrics or post-processing."""
    path = Path(run).expanduser()
    spec = read_spec(path)
    settings = settings_from(dict(spec.get("options", {})))
    sources = [source_of(label, settings) for label in spec["identity"]["datasets"]]
    if not (path / JOURNAL).exists():
        raise RunError("the run folder has no journal", where=str(path))
    wanted = _helpers(settings, sources)
    models, helpers = [], {}
    for noted in spec.get("models", ()):
        absent = absent_model(noted)
        if noted["role"] in wanted:
            helpers[noted["role"]] = absent
        elif noted["role"] not in HELPER_ROLES:
            models.append(absent)
    if not models:
        raise RunError("spec.json lists no model of this run", where=str(path), hint="Run the command again.")
    with RunFolder(path, spec["identity"]) as folder, StoredResponses(path) as stored:
        facts = spec.get("tasks", {})
        again = Run(
            settings,
            stored,
            store=Store(),
            folder=folder,
            watcher=watcher,
            helpers=helpers,
            facts=facts,
        )
        for text in _without_effect(settings, sources):
            again.note(text)
        return again.all(models, sources)


# ---- export ----


def export_passages(run: str | Path, out: str | Path) -> Iterator[Path]:
    """Write the rankings of a run as TREC files, one for each system, and its benchmark as a BEIR folder with qrels."""
    from kshot.backends.search.recorded import write_trec
    from kshot.passages.export import export_benchmark
    from kshot.passages.source import PassagesSource

    spec = read_spec(run)
    settings = settings_from(dict(spec.get("options", {})))
    sources = [source_of(label, settings) for label in spec["identity"]["datasets"]]
    found = Result([], [], Path(run).expanduser()).samples
    facts = next(iter(spec.get("tasks", {}).values()), None)
    passages = [source for source in sources if isinstance(source, PassagesSource)]
    tasks = [task for source in passages for task in source.tasks(settings, None, facts)]
    if not tasks or settings.method == "rag":
        raise RunError("this run searched no passages", where=str(run), hint="Export a run of search engines.")
    for task in tasks:
        folder = Path(out).expanduser() / re.sub(r"[^A-Za-z0-9._-]+", "-", task.name)
        yield from export_benchmark(task, folder)
        rows = [row for row in found if row["task"] == task.name and "failed" not in row]
        if not rows:
            raise RunError(f"the run holds no ranking for {task.name}", where=str(run))
        for model in dict.fromkeys(row["model"] for row in rows):
            path = folder / f"{re.sub(r'[^A-Za-z0-9._+-]+', '-', model)}.trec"
            with path.open("w", encoding="utf-8") as file:
                for row in (row for row in rows if row["model"] == model):
                    hits = tuple(Hit(hit["id"], hit["score"]) for hit in row["response"] if "id" in hit)
                    write_trec(file, row["id"], Ranking(hits), path.stem)
            yield path
