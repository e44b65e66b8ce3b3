"""A config file as a source of Tasks: ``kshot run CONFIG.py``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property, partial
from itertools import cycle
from pathlib import Path
from typing import Any

from kshot.configs.data import OnHub, given_text, names_of, numbers_among_equals, read_data, splits_of
from kshot.configs.dataset_entry import DatasetEntry
from kshot.configs.loader import Config, load
from kshot.configs.media import given_places
from kshot.configs.models import ModelEntry
from kshot.configs.rendering import make_template
from kshot.configs.rows import Splits
from kshot.configs.scope import Scope
from kshot.configs.settings import ConfigSettings
from kshot.configs.summary_groups import group_notes, group_rows, summary_groups
from kshot.configs.tasks import ConfigTask
from kshot.core.entry_checks import EntryCheck, Lack
from kshot.core.errors import DataError, KshotError
from kshot.core.extras import require
from kshot.core.failed_parts import with_parts_named
from kshot.core.metric import judged
from kshot.core.protocols import LanguageModel, Model, Source
from kshot.core.records import ResultRow, Row
from kshot.core.task import Task, TaskResult, TriedTasks
from kshot.metrics.settings import refuse_scoring_options
from kshot.retrievers.making import check_wanted
from kshot.sandbox.guest import SETUP_FAULTS, GuestFault
from kshot.statistics.averages import average_rows

# ---- what would run of a config, entry by entry, and what is missing: kshot check ----

_MADE_UP_ROWS, _MOST_MADE_UP_ROWS = 8, 10_000
_POSTPROCESSORS = ("pred_postprocessor", "dict_postprocessor", "postprocessor")
_NO_JUDGE = DataError("its metrics ask a judge, and none is named", hint="Name the judging model: --judge MODEL.")


def check_entry(
    entry: DatasetEntry, data: Mapping[str, str], settings: ConfigSettings, judge: str | KshotError | None = None
) -> EntryCheck:
    """Compile an entry with its own rows, or with made-up ones where it has none here.

    ``judge``: the model that a run would ask, or why the one that is named cannot be opened.
    """
    try:
        entry.check_is_run()
    except DataError as exc:
        return EntryCheck(entry.abbr, "", "", "", missing=(_lack("kind", exc, entry),))
    missing: list[Lack] = []
    rows, found = _rows(entry, data, settings, missing)
    splits = rows if rows is not None else made_up_rows(entry)
    task, prompts = _prompts(entry, splits, settings, missing, seen=rows is not None)
    evaluation, judged = _evaluation(entry, task, missing, seen=rows is not None)
    if judged and not isinstance(judge, str):
        missing.append(_lack("judge", judge or _NO_JUDGE, entry))
    named = judge if judged and isinstance(judge, str) else ""
    return EntryCheck(entry.abbr, prompts, found, evaluation, named, tuple(dict.fromkeys(missing)), tuple(entry.notes))


def called_twice(check: EntryCheck) -> EntryCheck:
    """Return the check of an entry whose name another entry has too."""
    what = f"two entries are called {check.entry!r}"
    return replace(check, missing=(*check.missing, Lack("name", f"{what}. Change an abbr.", (what,))))


def _rows(
    entry: DatasetEntry, data: Mapping[str, str], settings: ConfigSettings, missing: list[Lack]
) -> tuple[Splits | None, str]:
    try:
        splits = splits_of(entry, data, settings.dataset_path, online=False)
    except OnHub as exc:
        try:
            require("loading Hugging Face datasets", "datasets")
        except KshotError as lacking:
            missing.append(_lack("data", lacking, entry))
        return None, f"hub: {exc.dataset}"
    except KshotError as exc:
        missing.append(_lack("data", exc, entry))
        return None, ""
    home = next((home.title for (part, _), home in entry.used.items() if part == "loader"), "")
    sizes = (
        ", ".join(f"{len(rows)} {split}" for split, rows in splits.items())
        if isinstance(splits, Mapping)
        else f"{len(splits)} rows"
    )
    return splits, f"{sizes}{f' (loader of {home})' if home else ''}"


def made_up_rows(entry: DatasetEntry) -> Splits:
    """Return rows that have the entry's columns, each with its own name as the value, or a label of the templates.

    Where the retriever needs lists, all rows have the same, so that they have something in common.
    """
    rows: list[Row] = [{name: f"{name} {number}" for name in entry.columns} for number in range(_made_up_size(entry))]
    labels, output = _labels(entry), entry.reader_cfg.get("output_column")
    if labels and isinstance(output, str):
        rows = [{**row, output: label} for row, label in zip(rows, cycle(labels), strict=False)]
    lists = {name: [name] for name in entry.list_columns}
    return [{**row, **lists} for row in rows]


def _made_up_size(entry: DatasetEntry) -> int:
    """Return how many rows there must be for the examples that the entry names, or counts."""
    try:
        retriever = entry.infer_cfg.get("retriever")
    except KshotError:  # it is told when the entry is compiled
        return _MADE_UP_ROWS
    options = retriever if isinstance(retriever, Mapping) else {}
    named = options.get("fix_id_list")
    ids = [each + 1 for each in named if type(each) is int] if isinstance(named, (list, tuple)) else []
    counted = options.get("ice_num")
    wanted = [_MADE_UP_ROWS, *ids, *([counted] if type(counted) is int else [])]
    return min(max(wanted), _MOST_MADE_UP_ROWS)


def _labels(entry: DatasetEntry) -> list[Any]:
    """Return the labels that have a template of their own, of the examples first: no other label can be shown."""
    for key in ("ice_template", "prompt_template"):
        try:
            template = make_template(entry.infer_cfg.get(key), strict=False, where=key)
        except KshotError:  # it is told when the entry is compiled
            continue
        if template is not None and template.by_label:
            return [*template.by_label]
    return []


def _prompts(
    entry: DatasetEntry, splits: Splits, settings: ConfigSettings, missing: list[Lack], *, seen: bool
) -> tuple[ConfigTask | None, str]:
    """Return the task, and what its prompts are. ``seen``: the rows are the entry's own, not made up."""
    task = None
    try:
        task = ConfigTask(entry, splits, settings)
        rendered = task.rendered
        if rendered.mode != "multiturn":
            rendered.chat(0, None) if settings.model_type == "chat" else rendered.text(0, None)
    except KshotError as exc:
        if seen or not _depends_on_values(exc):
            missing.append(_lack("prompts", exc, entry))
            return None, ""
        return task, ""
    kind = "messages" if settings.model_type == "chat" else "text"
    if rendered.mode == "multiturn":
        return task, "turns"
    return task, f"{kind} of {len(rendered.labels)} labels" if rendered.labels is not None else kind


def _depends_on_values(exc: BaseException | None) -> bool:
    """Whether an error is that of a home's code, which may well take other values than those made up."""
    while exc is not None and not isinstance(exc, GuestFault):
        exc = exc.__cause__
    return exc is not None and exc.kind not in SETUP_FAULTS


def _evaluation(entry: DatasetEntry, task: ConfigTask | None, missing: list[Lack], *, seen: bool) -> tuple[str, bool]:
    """Return what scores the entry, and whether it asks a judge."""
    if task is None:
        return "", False
    try:
        metrics = task.check_scoring(rows=seen)
    except KshotError as exc:
        missing.append(_lack("evaluation", exc, entry))
        return "", False
    names = [*_named(entry.scope, entry.eval_cfg)]
    said = ", ".join(dict.fromkeys(f"{name} ({_whose(entry, name)})" for name in names))
    return said, bool(judged(metrics))


def _named(scope: Scope, eval_cfg: Mapping[str, Any]) -> Iterator[str]:
    """Yield the evaluator, then the clean-ups, of an ``eval_cfg``."""
    evaluator = eval_cfg.get("evaluator")
    yield scope.name(evaluator.get("type") if isinstance(evaluator, Mapping) else evaluator).last
    parts: Sequence[Any] = [eval_cfg, evaluator] if isinstance(evaluator, Mapping) else [eval_cfg]
    for part in parts:
        for key in (*_POSTPROCESSORS, "dataset_postprocessor"):
            named = part.get(key)
            if named:
                yield scope.name(named.get("type") if isinstance(named, Mapping) else named).last


def _whose(entry: DatasetEntry, name: str) -> str:
    if name in entry.registered:
        return "the config"
    return next((home.title for (_, used), home in entry.used.items() if used == name), "kshot")


def _lack(part: str, exc: KshotError, entry: DatasetEntry) -> Lack:
    """Return what an error says, without the entry, which is named beside it."""
    text, where = str(exc), exc.where
    for place in (entry.place, entry.where, entry.abbr):
        text, where = text.removeprefix(f"{place}: "), where.removeprefix(place)
    return Lack(part, text, (exc.what, where))


_NO_DATASETS = "A config lists them in a variable that ends in 'datasets'; a dataset class is named FILE.py:Class."


class ConfigSource(Source[ConfigSettings]):
    """The datasets of a config file, as Tasks.

    ``data``: rows by an entry's abbr, name or loader (a file, or a folder with a file for each split). ``retriever``
    replaces the config's. The config's entry of the model that is evaluated gives the meta template and lengths.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        data: Mapping[str, str] | None = None,
        home: str | Path | None = None,
        config_root: str | Path | None = None,
        allow_download: bool = False,
        retriever: Mapping[str, Any] | None = None,
        only: Sequence[str] = (),
    ) -> None:
        """Name the file; it is run when it is first needed.

        ``only``: the abbrs of the entries to run, or patterns, with or without the variable: ``x_datasets/abbr``.
        """
        self.path, self._data, self._network = Path(path), dict(data or {}), allow_download
        self._home, self._root = home, config_root
        self._retriever, self._only = retriever, tuple(only)
        self._tried = TriedTasks()
        self._rows: dict[int, Splits] = {}
        """The rows of each entry, by its place among them: they are read once, whatever is asked them."""
        self.apart = ""
        """What tells its tasks from those of other configs in the run, if they have the same names."""

    @property
    def label(self) -> str:
        """The file, as the user wrote it."""
        return str(self.path)

    @cached_property
    def config(self) -> Config:
        """The config; the file is run once."""
        return load(self.path, self._root, home=self._home, allow_download=self._network)

    @property
    def models(self) -> list[str]:
        """The models that the config lists, as ``-m`` would name them."""
        return [entry.spec for entry in self.model_entries]

    @property
    def model_names(self) -> Mapping[str, str]:
        """What the config calls them (``abbr``), by spec; a name that two of them have is left out."""
        named = {entry.spec: str(entry.body["abbr"]) for entry in self.model_entries if entry.body.get("abbr")}
        counts = Counter(named.values())
        return {spec: name for spec, name in named.items() if counts[name] == 1}

    def wants_chat(self, model: Model) -> bool:
        """Whether the config has the model under a class that takes messages."""
        entry = self._entry_of(model)
        return entry is not None and entry.model_type == "chat"

    def _entry_of(self, model: Model | None) -> ModelEntry | None:
        """Return the config's entry of a model; None where it has none."""
        return (
            None if model is None else next((each for each in self.model_entries if each.is_called(model.name)), None)
        )

    @property
    def without_logprobs(self) -> str:
        """Another config of the dataset, or another model: the inferencer of a config cannot be changed."""
        others = sorted(self.path.parent.glob("*_gen*.py"), key=lambda each: (len(each.name), each.name))
        such = f", such as {others[0].name}," if others else ""
        return f"Run a config that generates{such} or a model with log-probabilities (hf:, vllm:, embedded)."

    @property
    def judges(self) -> list[str]:
        """The judges that the config names, as ``--judge`` would name them."""
        return [entry.spec for entry in self._judge_entries]

    @cached_property
    def model_entries(self) -> list[ModelEntry]:
        """The models that the config lists."""
        return [ModelEntry(body, str(self.path)) for body in self.config.models]

    @cached_property
    def _judge_entries(self) -> list[ModelEntry]:
        """The judges of the config: ``judge_models``, and the ``judge_cfg`` of its evaluators."""
        found: list[Mapping[str, Any]] = [*self.config.judge_models]
        for entry in self.entries:
            evaluator = entry.eval_cfg.get("evaluator")
            judge = evaluator.get("judge_cfg") if isinstance(evaluator, Mapping) else None
            found += [judge] if judge and isinstance(judge, Mapping) else []
        return [ModelEntry(body, str(self.path), "--judge") for body in found]

    @cached_property
    def entries(self) -> list[DatasetEntry]:
        """The entries to run."""
        chosen = self.config.chosen
        names = ", ".join(each.abbr for each in chosen)
        if not names:
            raise DataError("it has no datasets", where=str(self.path), hint=_NO_DATASETS)
        variables = {id(each): name for name, entries in self.config.datasets.items() for each in entries}
        called = [(each, (each.abbr, f"{variables.get(id(each), '')}/{each.abbr}")) for each in chosen]
        for pattern in self._only:
            if not any(_matches(own, pattern) for _, own in called):
                raise DataError(f"it has no entry {pattern}", where=str(self.path), hint=f"It has: {names}.")
        return [each for each, own in called if not self._only or any(_matches(own, one) for one in self._only)]

    def check(self, settings: ConfigSettings) -> None:
        """Refuse a retriever that has nothing to choose, and entries that kshot does not run."""
        del settings  # the retriever that the user names is an argument of this source
        for entry in self.entries:
            entry.check_is_run()
        if self._retriever is not None:
            check_wanted(self._retriever["type"], self._retriever.get("ice_num", 0), where=self.label)

    def data_names(self) -> Collection[str]:
        """Return the names under which ``--data`` finds its entries, those of several entries first."""
        counts = Counter(name for entry in self.config.chosen for name in names_of(entry))
        return [name for name, _ in counts.most_common()]

    def close(self) -> None:
        """End the config's process, and those of homes."""
        self._tried.clear()
        self._rows.clear()
        if "config" in vars(self):  # it was loaded
            self.config.close()

    def announcements(self) -> Sequence[str]:
        """Return the folder in which the config reads files, whether it was only read, and groups that are faulty."""
        tasks = {entry.abbr for entry in self.config.chosen}
        return [*self.config.notes, *group_notes(self.config.variables, tasks)]

    def packages(self, settings: ConfigSettings, *, scored: bool = True) -> dict[str, tuple[str, ...]]:
        """Return the packages of kshot's extras that the entries need."""
        del settings, scored  # the retriever that the user names is an argument of this source
        return {purpose: names for entry in self.entries for purpose, names in entry.packages(self._retriever).items()}

    def tasks(
        self, settings: ConfigSettings, model: Model | None = None, facts: Mapping[str, Any] | None = None
    ) -> Iterator[Task[Any]]:
        """Compile each entry to a Task."""
        del facts  # examples are chosen without a model
        named = "a config file, which names its own"
        refuse_scoring_options(settings, named, where=self.label, hint="Change its eval_cfg. ")
        return self._tasks(settings, model, scored=True)

    def previews(self, settings: ConfigSettings) -> Iterator[Task[Any]]:
        """Compile each entry to a Task for its prompts; kshot need not have its evaluator and clean-ups."""
        return self._tasks(settings, None, scored=settings.judge is not None)  # the evaluator writes its prompt

    def _tasks(self, settings: ConfigSettings, model: Model | None, *, scored: bool) -> Iterator[Task[Any]]:
        cfg = self._entry_of(model)
        if settings.model_type is None and cfg is not None:
            settings = settings.with_values(model_type=cfg.model_type)
        seen: set[str] = set()
        for number, (entry, run) in enumerate(zip(self.entries, numbers_among_equals(self.entries), strict=True)):
            counter = model.abilities.count_tokens if isinstance(model, LanguageModel) else None
            count = counter if entry.counts_tokens(self._retriever) else None
            compiled = partial(self._compiled, number, entry, settings, cfg, count=count, run=run, scored=scored)
            key = number, settings, id(cfg), count, scored
            (task,) = self._tried.take(key, compiled, keep=model is None)
            task = replace(task, name=self._shown(task.name)) if self.apart else task
            if task.name in seen:
                hint = "Change an abbr, or choose one by its variable: --only x_datasets/abbr."
                raise DataError(f"two entries are called {task.name!r}", where=str(self.path), hint=hint)
            seen.add(task.name)
            yield task

    def _compiled(
        self,
        number: int,
        entry: DatasetEntry,
        settings: ConfigSettings,
        cfg: ModelEntry | None,
        *,
        count: Callable[[str], int] | None,
        run: int,
        scored: bool,
    ) -> list[Task[Any]]:
        """Compile an entry; its rows are read once, whichever models they are put to."""
        data = self._places(settings)
        if number not in self._rows:
            self._rows[number] = splits_of(entry, data, settings.dataset_path)
        task = ConfigTask(
            entry,
            self._rows[number],
            settings,
            model_cfg=None if cfg is None else cfg.body,
            retriever=self._retriever,
            count=count,
            media_places=given_places(given_text(entry, data, settings.dataset_path)),
            run=run,
        )
        return [task.task(scored=scored)]

    def _places(self, settings: ConfigSettings) -> Mapping[str, str]:
        """Return the places of rows that the user names, by key; those of this source come first."""
        given = [text for text in settings.data if "=" in text] if settings.data else []
        return {**read_data(given), **self._data} if given else self._data

    def checks(self, settings: ConfigSettings, judge: str | KshotError | None = None) -> Iterator[EntryCheck]:
        """Say of each entry what of it would run, and what is missing.

        ``judge``: the model that a run would ask, or why the one that is named cannot be opened.
        """
        data = self._places(settings)
        if settings.model_type is None and self.model_entries:
            chat = all(entry.model_type == "chat" for entry in self.model_entries)
            settings = settings.with_values(model_type="chat" if chat else "base")
        seen: set[str] = set()
        for entry in self.entries:
            check = check_entry(entry, data, settings, judge)
            yield called_twice(check) if entry.abbr in seen else check
            seen.add(entry.abbr)

    def totals(self, results: Sequence[TaskResult]) -> Iterator[ResultRow]:
        """Average over the entries of a variable, if it has several, all were run, and their metrics are the same.

        ``datasets`` is the list of all that is run, and no dataset. The groups of the config's summarizer follow.
        """
        by_task = {result.task.name: result for result in results}
        for variable, entries in self.config.datasets.items():
            names = [self._shown(each.abbr) for each in entries] if variable != "datasets" and len(entries) > 1 else []
            if not names or not all(name in by_task for name in names):
                continue
            metrics = {tuple(measure.name for measure in by_task[name].measures()) for name in names}
            if len(metrics) == 1:
                yield from average_rows(self._shown(variable), {name: by_task[name] for name in names}, None)
        if groups := summary_groups(self.config.variables):
            yield from self._group_rows(groups, by_task)

    def _group_rows(
        self, groups: Sequence[Mapping[str, Any]], by_task: Mapping[str, TaskResult]
    ) -> Iterator[ResultRow]:
        """Yield the figures of the summarizer's groups, which name entries by their abbr."""
        abbrs = {self._shown(each.abbr): each.abbr for each in self.entries}
        results = [replace(result, task=replace(result.task, name=abbrs[name])) for name, result in by_task.items()]
        for row in group_rows(groups, results, str(self.path)):
            name = self._shown(str(row["task"]))
            yield with_parts_named({**row, "task": name, "dataset": name}, self._shown)

    def _shown(self, name: str) -> str:
        """Return the name of a task or a group in the run."""
        return f"{name} ({self.apart})" if self.apart else name


def tell_apart(sources: Sequence[Source[Any]]) -> None:
    """Let configs of which entries have the same name put the name of their file behind it."""
    names: dict[ConfigSource, set[str]] = {}
    for source in sources:
        if isinstance(source, ConfigSource):
            with suppress(KshotError):  # the run tells it, where it needs the entries
                names[source] = {each.abbr for each in source.entries}
    for source, own in names.items():
        alike = [other for other in names if other is not source and own & names[other]]
        if alike:
            same_file = any(other.path.stem == source.path.stem for other in alike)
            source.apart = source.label if same_file else source.path.stem


def _matches(names: Collection[str], pattern: str) -> bool:
    return pattern in names or any(fnmatchcase(name, pattern) for name in names)
