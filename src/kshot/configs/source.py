"""A config file as a source of Tasks: ``kshot run CONFIG.py``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from kshot.configs.checking import called_twice, check_entry
from kshot.configs.copies import numbers_among_equals
from kshot.configs.data import given_text, names_of, read_data, splits_of
from kshot.configs.dataset_entry import DatasetEntry
from kshot.configs.loader import Config, load
from kshot.configs.media_files import given_places
from kshot.configs.models import ModelEntry
from kshot.configs.rows import Splits
from kshot.configs.settings import ConfigSettings
from kshot.configs.summary_groups import group_notes, group_rows, summary_groups
from kshot.configs.tasks import ConfigTask
from kshot.core.entry_checks import EntryCheck
from kshot.core.errors import DataError, KshotError
from kshot.core.failed_parts import with_parts_named
from kshot.core.options import settings_names
from kshot.core.protocols import LanguageModel, Model, Source
from kshot.core.records import ResultRow
from kshot.core.task import Task, TaskResult, TriedTasks
from kshot.metrics.settings import refuse_scoring_options
from kshot.retrievers.making import check_wanted
from kshot.statistics.averages import average_rows

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
        evaluators = [each.eval_cfg.get("evaluator") for each in self.entries]
        judges = [each.get("judge_cfg") for each in evaluators if isinstance(each, Mapping)]
        found = [*self.config.judge_models, *(each for each in judges if isinstance(each, Mapping) and each)]
        return [ModelEntry(body, str(self.path), "--judge") for body in found]

    @property
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

    def reads(self, settings: ConfigSettings) -> Collection[str]:
        """Return the names of the options that change what it does; its own dicts name its splits and templates."""
        del settings  # they are the same for every config
        chosen = {"retriever", "num_shots"} if self._retriever is not None else set()
        return settings_names(ConfigSettings) - {"instruction", "evaluation_set", "example_set"} | chosen

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
            settings = replace(settings, model_type=cfg.model_type)
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
        data = {**read_data([text for text in settings.data or () if "=" in text]), **self._data}
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

    def checks(self, settings: ConfigSettings, judge: str | KshotError | None = None) -> Iterator[EntryCheck]:
        """Say of each entry what of it would run, and what is missing.

        ``judge``: the model that a run would ask, or why the one that is named cannot be opened.
        """
        data = {**read_data([text for text in settings.data or () if "=" in text]), **self._data}
        if settings.model_type is None and self.model_entries:
            chat = all(entry.model_type == "chat" for entry in self.model_entries)
            settings = replace(settings, model_type="chat" if chat else "base")
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
            names = [self._shown(each.abbr) for each in entries]
            metrics = {tuple(measure.name for measure in by_task[name].measures()) for name in names if name in by_task}
            whole = variable != "datasets" and len(names) > 1 and all(name in by_task for name in names)
            if whole and len(metrics) == 1:
                yield from average_rows(self._shown(variable), {name: by_task[name] for name in names}, None)
        yield from self._group_rows(by_task)

    def _group_rows(self, by_task: Mapping[str, TaskResult]) -> Iterator[ResultRow]:
        """Yield the figures of the summarizer's groups, which name entries by their abbr."""
        groups, abbrs = (
            summary_groups(self.config.variables),
            {self._shown(each.abbr): each.abbr for each in self.entries},
        )
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
