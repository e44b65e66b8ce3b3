"""``score`` and ``export_passages``: what is made of a finished run, from its folder and without its models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kshot.core.arguments import checked_folder
from kshot.core.corpus import Corpus, corpus_fingerprint
from kshot.core.durable import new_version
from kshot.core.errors import RunError, UsageError
from kshot.core.protocols import Abilities, IndexStore, Model, RequestQueue, Source
from kshot.core.records import Failed, Generate, Hit, Loglik, Ranking, Request, Response, Search
from kshot.core.specs import parse_spec
from kshot.core.task import NOT_ASKED, Task, TaskResult
from kshot.core.text_files import FileNames, path_inside
from kshot.core.watcher import Watcher
from kshot.index.store import Store
from kshot.loggers import make_loggers
from kshot.passages import is_passages
from kshot.result import Result
from kshot.runs.code import RecordedCode
from kshot.runs.folder import JOURNAL, RunFolder, stored_answers
from kshot.runs.run_state import REPORT
from kshot.runs.runner import Run
from kshot.runs.samples_file import SAMPLES, read_samples
from kshot.runs.spec_file import read_spec
from kshot.runs.watchers import following
from kshot.sandbox.program import programs_wanted, unsafe_notes
from kshot.settings import Settings, settings_from
from kshot.sources import HELPER_ROLES, helpers_of, source_of, tell_apart

_MOVED = "moved"
"""Where ``spec.json`` has the datasets that were named again, by what the run calls them."""


def score(
    run: str | Path,
    dataset: Any = None,
    *,
    trust: str | Path | Sequence[str | Path] = (),
    dataset_path: str | Path | None = None,
    unsafe_programs: bool = False,
    log: str | Watcher | Sequence[str | Watcher] | None = None,
    watcher: Watcher | Sequence[Watcher] | None = None,
) -> Result:
    """Score a run again from its journal, without its models, after a change of metrics or post-processing.

    Files of code that ``spec.json`` names are imported only if they are as the run recorded them. ``dataset`` names a
    dataset of the run again (or a list of them), as a spec, a class or a Task; ``trust`` names other files of yours.
    ``dataset_path``: where the rows are now, if not where they were (the run may be another person's).
    ``unsafe_programs``: run programs also where the system cannot confine them, whatever the run was told.
    ``log`` and ``watcher``: as in ``evaluate``; the figures are logged as those of a new run.
    """
    loggers = make_loggers(log)
    with following(watcher, loggers) as watching:
        path = checked_folder("the run", run)
        spec = read_spec(path)
        settings = recorded_settings(spec, path)
        _check_answers(spec, path)
        named = NamedAgain(dataset, trust, dataset_path, unsafe_programs=unsafe_programs)
        result = scored_run(path, spec, settings, named, watching)
    result.notes += [note for logger in loggers for note in logger.notes]
    return result


@dataclass(frozen=True, slots=True)
class NamedAgain:
    """What the user names of a run that is scored without its models; ``score`` says what each of it is."""

    dataset: Any
    trust: str | Path | Sequence[str | Path]
    dataset_path: str | Path | None
    unsafe_programs: bool

    @property
    def datasets(self) -> list[Any]:
        """The datasets that are named again."""
        if self.dataset is None:
            return []
        return list(self.dataset) if isinstance(self.dataset, (list, tuple)) else [self.dataset]

    @property
    def files(self) -> list[Path]:
        """The files of code that the user trusts: those of the datasets, and others."""
        return [*files_of(self.datasets), *_paths(self.trust)]


def scored_run(
    path: Path,
    spec: Mapping[str, Any],
    settings: Settings,
    named: NamedAgain,
    watcher: Watcher,
    *,
    fill: Callable[[RunFolder], None] | None = None,
    check: Callable[[Sequence[TaskResult]], None] = lambda _: None,
) -> Result:
    """Score the run that ``spec`` describes from the journal in this folder, without its models.

    ``fill`` puts answers into the folder first; nothing is written before the datasets are found and their code is
    trusted. ``check`` may refuse the results before files are replaced.
    """
    if named.dataset_path is not None:
        settings = replace(settings, dataset_path=str(named.dataset_path))
    labels = _labels(spec, path)
    datasets = named_again(labels, named.datasets, _moved_before(spec))
    code = RecordedCode(spec, named.files)
    with code.guarding(), programs_wanted(unsafe=named.unsafe_programs):
        with ExitStack() as stack:
            sources: list[Source[Settings]] = []
            for source in _sources(datasets, settings):
                stack.callback(source.close)
                sources.append(source)
            tell_apart(sources)
            adds = fill is not None
            folder = stack.enter_context(RunFolder(path, spec["identity"], repair=adds, fsync=settings.fsync))
            if fill is not None:
                fill(folder)
            result = _scored(spec, settings, sources, folder, watcher=watcher, check=check)
            code.record_named_in(folder.spec)
            pairs = zip(labels, datasets, strict=True)
            folder.spec[_MOVED] = {label: now for label, now in pairs if isinstance(now, str) and now != label}
            folder.write_spec()
        if settings.report or (path / REPORT).exists():  # one that stays would have the figures of before
            _report(result, watcher)
        return result


def _scored(
    spec: Mapping[str, Any],
    settings: Settings,
    sources: Sequence[Source[Settings]],
    folder: RunFolder,
    *,
    watcher: Watcher,
    check: Callable[[Sequence[TaskResult]], None],
) -> Result:
    """Score the answers in the journal of a folder."""

    def checked(results: Sequence[TaskResult]) -> None:
        check_nothing_lost(results, folder)
        check(results)

    models, helpers = _absent_models(spec, helpers_of(settings, sources))
    with closing(stored_answers(folder.path)) as stored:
        again = Run(
            settings,
            stored,
            store=Store(),
            folder=folder,
            watcher=watcher,
            helpers=helpers,
            facts=spec.get("tasks", {}),
            identity=spec["identity"],
            check=checked,
        )
        for text in (*_notes(spec), *unsafe_notes()):
            again.note(text)
        for text in (text for source in sources for text in source.announcements()):
            watcher.note(text)
        return Result.of(again.all(models, sources))


def _check_answers(spec: Mapping[str, Any], path: Path) -> None:
    """Refuse a run that has no answers to score."""
    if all(noted["role"] in HELPER_ROLES for noted in spec.get("models", ())):
        raise RunError("spec.json lists no model of this run", where=str(path), hint="Run the command again.")
    if not (path / JOURNAL).exists():
        raise RunError("the run folder has no journal", where=str(path))
    if "shard" in spec["identity"]:
        hint = "kshot merge joins all shards, and scores them."
        raise RunError("this is one shard of a run, and has no figures of its own", where=str(path), hint=hint)


def _notes(spec: Mapping[str, Any]) -> list[str]:
    """Return what the run found out when it was planned."""
    notes = spec.get("notes")
    return [note for note in notes if isinstance(note, str)] if isinstance(notes, list) else []


def _report(result: Result, watcher: Watcher) -> None:
    from kshot.reporting import report_at_end  # few need it, and it takes a while

    report_at_end(result, watcher.note)


def _absent_models(spec: Mapping[str, Any], wanted: Collection[str]) -> tuple[list[Model], dict[str, Model]]:
    """Return what stands for the models of a run, and for those beside them that are still wanted, by role."""
    models: list[Model] = []
    helpers: dict[str, Model] = {}
    for noted in spec.get("models", ()):
        absent = absent_model(noted)
        if noted["role"] in wanted:
            helpers[noted["role"]] = absent
        elif noted["role"] not in HELPER_ROLES:
            models.append(absent)
    return models, helpers


# ---- the datasets of a run ----


def recorded_settings(spec: Mapping[str, Any], path: Path) -> Settings:
    """Return the settings of the run; those that cannot be read are a fault of its ``spec.json``."""
    try:
        # A run folder may come from anybody: it does not open the network to the code of a home.
        return settings_from({**dict(spec.get("options", {})), "allow_download": False})
    except UsageError as exc:
        exc.where = exc.where or f"{path}/spec.json"
        raise


def _labels(spec: Mapping[str, Any], path: Path) -> list[str]:
    """Return the datasets of a run as ``spec.json`` lists them."""
    labels: list[str] = spec["identity"].get("datasets", [])
    if not labels:
        raise RunError("spec.json lists no dataset of this run", where=str(path), hint="Run the command again.")
    twice = next((label for label, times in Counter(labels).items() if times > 1), None)
    if twice is not None:
        hint = "Run the command again, with each dataset once and another --out."
        raise RunError(f"spec.json lists the dataset {twice} more than once", where=str(path), hint=hint)
    return labels


def named_again(labels: Sequence[str], given: Sequence[Any], moved: Mapping[str, str] | None = None) -> list[Any]:
    """Return the datasets of a run, with those that the user names again in the place of the recorded ones.

    A file may have moved: its class or its name says which dataset it has, and the subsets and options of the run stay.
    ``moved`` are those that the user has named before.
    """
    chosen: dict[int, Any] = {at: (moved or {}).get(label, label) for at, label in enumerate(labels)}
    found: set[int] = set()
    for each in given:
        places = [at for at, label in enumerate(labels) if _stands_for(each, label, alone=len(labels) == 1)]
        if len(places) != 1:
            what = "several datasets of this run fit it" if places else "it is no dataset of this run"
            raise UsageError(what, where=_shown(each), hint=f"The run has: {', '.join(labels)}.")
        if places[0] in found:
            raise UsageError("the same dataset is named twice", where=_shown(each))
        found.add(places[0])
        chosen[places[0]] = _moved(each, labels[places[0]])
    return [chosen[at] for at in range(len(labels))]


def _stands_for(given: Any, label: str, *, alone: bool) -> bool:
    """Whether the user names the dataset that a label stands for; ``alone``: the run has no other."""
    recorded = parse_spec(label)
    recorded_class = recorded.argument.partition(":")[0]
    if isinstance(given, Task):
        return given.name == label
    if isinstance(given, type):
        return given.__name__ == recorded_class.rpartition(".")[2]
    if not isinstance(given, (str, Path)):
        return False
    named = parse_spec(str(given))
    if named.file is None or recorded.file is None:
        return str(given) == label
    named_class = named.argument.partition(":")[0]
    if named_class and recorded_class:
        return named_class == recorded_class
    return alone or named.file.name == recorded.file.name


def _moved(given: Any, label: str) -> Any:
    """Return a dataset that the user names again: its file and class, and the rest as the run recorded it."""
    if not isinstance(given, (str, Path)):
        return given
    named, recorded = parse_spec(str(given)), parse_spec(label)
    if named.file is None:
        return label
    argument = recorded.argument or named.argument
    return f"{named.file}{':' if argument else ''}{argument}{recorded.option_text}"


def _moved_before(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the datasets that a user has named again in an earlier call; their code has digests like any other."""
    moved = spec.get(_MOVED)
    return {name: now for name, now in moved.items() if isinstance(now, str)} if isinstance(moved, dict) else {}


def files_of(given: Iterable[Any]) -> list[Path]:
    """Return the files of code among what a user names."""
    specs = [parse_spec(str(each)) for each in given if isinstance(each, (str, Path))]
    return [spec.file for spec in specs if spec.file is not None]


def _paths(given: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return the files that a user trusts; one that is not there is an error."""
    paths = [Path(each).expanduser() for each in ((given,) if isinstance(given, (str, Path)) else given)]
    absent = next((path for path in paths if not path.is_file()), None)
    if absent is not None:
        raise UsageError("there is no such file", where=str(absent), hint="--trust takes a Python file of yours.")
    return paths


def _sources(datasets: Iterable[Any], settings: Settings) -> Iterator[Source[Settings]]:
    for dataset in datasets:
        file = parse_spec(dataset).file if isinstance(dataset, str) else None
        if file is not None and not file.is_file():
            hint = f"Name it again: -d path/to/{file.name}{':CLASS' if parse_spec(dataset).argument else ''}."
            raise RunError("the file of this dataset is not there", where=dataset, hint=hint)
        yield source_of(dataset, settings)


def _shown(given: Any) -> str:
    return str(getattr(given, "name", None) or getattr(given, "__name__", None) or given)


# ---- export ----


def export_passages(
    run: str | Path, out: str | Path, *, trust: str | Path | Sequence[str | Path] = ()
) -> Iterator[Path]:
    """Write the rankings of a run as TREC files, one for each system, and its benchmark as a BEIR folder with qrels.

    ``trust`` names files of yours, as in ``score``: a chunker may be one.
    """
    path = checked_folder("the run", run)
    spec = read_spec(path)
    code = RecordedCode(spec, _paths(trust))
    with code.guarding():
        settings = recorded_settings(spec, path)
        labels = [label for label in _labels(spec, path) if is_passages(label)]
        facts = next(iter(spec.get("tasks", {}).values()), None)
        tasks = [task for source in _sources(labels, settings) for task in source.tasks(settings, None, facts)]
        if not tasks or settings.method == "rag":
            raise RunError("this run searched no passages", where=str(run), hint="Export a run of search engines.")
        found = read_samples(path)
        folders = FileNames()
        for task in tasks:
            folder = path_inside(Path(out).expanduser(), folders.of(task.name))
            yield from _exported(task, found, folder, path)


def _exported(task: Task[Any], found: Sequence[Mapping[str, Any]], folder: Path, run: Path) -> Iterator[Path]:
    from kshot.backends.search.recorded import write_trec
    from kshot.passages.graded import export_benchmark

    yield from export_benchmark(task, folder)
    rankings: dict[str, list[tuple[str, Ranking]]] = {}
    try:
        for row in found:
            if row["task"] == task.name and "failed" not in row:
                hits = tuple(Hit(hit["id"], hit["score"]) for hit in row["response"] if "id" in hit)
                rankings.setdefault(row["model"], []).append((row["id"], Ranking(hits)))
    except (KeyError, TypeError, AttributeError) as exc:
        hint = "kshot score writes it again from the journal."
        raise RunError(f"{SAMPLES} is damaged", where=str(run), hint=hint) from exc
    if not rankings:
        raise RunError(f"the run holds no ranking for {task.name}", where=str(run))
    names = FileNames(taken=("qrels",))
    for model, ranked in rankings.items():
        path = path_inside(folder, f"{names.of(model)}.trec")
        with new_version(path) as file:
            for topic, ranking in ranked:
                write_trec(file, topic, ranking, path.stem)
        yield path


# ---- what stands for models that are not opened ----


class AbsentModel:
    """Replaces a model that is not loaded: every request that the journal lacks fails."""

    notes = ()

    def __init__(
        self, name: str, fingerprint: str, answers: tuple[type, ...] = (Generate, Loglik), *, server: bool = False
    ) -> None:
        """Take what ``spec.json`` recorded of the model."""
        self.name, self.fingerprint, self.answers = name, fingerprint, answers
        self.abilities = Abilities(server=server)

    def serve(self, queue: RequestQueue) -> Iterator[tuple[Request, Response]]:
        """Fail every request."""
        for request in queue:
            yield request, Failed(NOT_ASKED, "the run holds no answer to this request")

    def close(self) -> None:
        """Do nothing: nothing is open."""


class AbsentSearchEngine:
    """Replaces a search engine that is not loaded."""

    def __init__(self, name: str, fingerprint: str) -> None:
        """Take what ``spec.json`` recorded of the search engine."""
        self.name, self.fingerprint = name, fingerprint

    def over(self, corpus: Corpus, store: IndexStore) -> AbsentModel:
        """Return the backend that the journal answers for."""
        del store  # there is nothing to index
        return AbsentModel(self.name, corpus_fingerprint(self.fingerprint, corpus), (Search,))

    def close(self) -> None:
        """Do nothing: nothing is open."""


def absent_model(noted: Mapping[str, Any]) -> Model:
    """Return the replacement of a model that ``spec.json`` lists."""
    if noted["role"] in {"search_engine", "corpus"}:
        return AbsentSearchEngine(noted["name"], noted["fingerprint"])
    answers = (Generate, Loglik, Search) if noted.get("searches") else (Generate, Loglik)
    return AbsentModel(noted["name"], noted["fingerprint"], answers, server=noted.get("server", False))


def check_nothing_lost(results: Sequence[TaskResult], folder: RunFolder) -> None:
    """Refuse to replace figures of samples to which the journal holds no answer any more."""
    before = {f"{row.get('task')} {row.get('model')}": row for row in folder.earlier_results()}
    for result in results:
        row = before.get(f"{result.task.name} {result.model}", {})
        n, failed = (count if type(count := row.get(name)) is int else 0 for name in ("n", "failed"))
        if len(result.positions) < n and result.failed > failed:
            lost = result.failed - failed
            samples = "1 sample" if lost == 1 else f"{lost} samples"
            scored = "has been scored before" if lost == 1 else "have been scored before"
            raise RunError(
                f"the journal holds no answer to {samples} of {result.task.name} on {result.model} that {scored}; "
                "nothing was changed",
                where=str(folder.path),
                hint="The command of the run asks again for what is missing. If the dataset or its template has "
                "changed, give it another folder with --out.",
            )
