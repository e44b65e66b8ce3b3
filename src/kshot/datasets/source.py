"""Dataset classes as a source: ``NAME``, ``NAME:subset,…``, ``NAME:[category]``, ``file.py:Class``, a class.

Settings of one dataset follow its name: ``quiz.py:Quiz,num_shots=2``.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from kshot.cleanups import CLEANUPS
from kshot.core.errors import DataError, KshotError, UsageError
from kshot.core.options import settings_names
from kshot.core.protocols import LanguageModel, Model, Source
from kshot.core.records import Loglik, ResultRow
from kshot.core.registry import Entry, Registry
from kshot.core.settings import GenerationSettings
from kshot.core.specs import Spec, parse_spec, with_options
from kshot.core.task import Task, TaskResult, TriedTasks
from kshot.core.watcher import PlannedTask
from kshot.datasets import catalogue
from kshot.datasets.compiler import DatasetCompiler, DatasetSamples, TokenCounter
from kshot.datasets.dataset import Dataset, display_name, load_args_of, name_of, where_of
from kshot.datasets.generation import GenerationCompiler
from kshot.datasets.llmbox.classes import LLMBoxDataset
from kshot.datasets.llmbox.compiler import compile_llmbox
from kshot.datasets.llmbox.imports import load_dataset_file
from kshot.datasets.multiple_choice import MultipleChoiceCompiler, MultipleChoiceDataset
from kshot.datasets.rows.classes import RowsDataset, compile_rows
from kshot.datasets.settings import RANKING_TYPES, DatasetSettings
from kshot.prompts.strings import decode_escapes
from kshot.retrievers.making import check_wanted, retriever_packages, with_seed
from kshot.statistics.averages import Average, average_rows
from kshot.tables.loading import HUB_PACKAGES, discover_subsets, row_packages

DATASET_OPTIONS = tuple(name for name, declared in DatasetSettings.declared().items() if not declared.whole_run)
"""The settings that may follow the name of a dataset."""


@dataclass(frozen=True, slots=True)
class DatasetSource(Source[DatasetSettings]):
    """A dataset class and the subsets that the user wants; ``text`` is what the user wrote."""

    text: str
    dataset: type[Dataset]
    subsets: tuple[str, ...] = ()
    spec: Spec | None = None
    tried: TriedTasks = field(default_factory=TriedTasks, kw_only=True, compare=False, repr=False)

    @property
    def label(self) -> str:
        """The source as the user wrote it."""
        return self.text

    @property
    def options(self) -> str:
        """The settings of this dataset as they are written; the names of its tasks end in them."""
        return parse_spec(self.text).option_text if self.spec is not None else ""

    def with_seed(self, seed: int) -> DatasetSource:
        """Return the source for one draw of examples; its tasks keep their names."""
        if self.spec is None or "retriever" not in self.spec.options:
            return self
        own = {**self.spec.options, "retriever": with_seed(self.spec.options["retriever"], seed)}
        return replace(self, spec=replace(self.spec, options=own))

    def check(self, settings: DatasetSettings) -> None:
        """Refuse a retriever that has nothing to choose."""
        own = _own_settings(settings, self.spec)
        if own.retriever is not None:
            check_wanted(own.retriever, own.num_shots, where=self.text)

    def data_names(self) -> Collection[str]:
        """Return no names: its rows are named by ``--dataset-path``."""
        return ()

    def packages(self, settings: DatasetSettings, *, scored: bool = True) -> dict[str, tuple[str, ...]]:
        """Return the packages of kshot's extras that its rows, its examples and its clean-up need."""
        own = _own_settings(settings, self.spec)
        found = {}
        if self.dataset.load_raw_dataset is Dataset.load_raw_dataset:
            found[self.text] = row_packages(own.dataset_path, load_args_of(self.dataset))
        if own.retriever is not None and own.num_shots:
            found[f"the retriever {own.retriever}"] = retriever_packages(own.retriever)
        if own.cleanup is not None and scored:
            found[f"the clean-up {own.cleanup}"] = CLEANUPS.packages(parse_spec(own.cleanup))
        return found

    def tasks(
        self, settings: DatasetSettings, model: Model | None = None, facts: Mapping[str, Any] | None = None
    ) -> Iterator[Task[Any]]:
        """Make one Task per subset; the model's tokenizer (or the ``facts`` of an earlier run) fits the examples."""
        reads: set[str] = set()
        settings, facts = _own_settings(settings, self.spec).noting(reads), facts or {}
        subsets = subsets_to_run(self, settings)
        if len(subsets) > 1:
            settings.mark_read("average")
        names = [display_name(name_of(self.dataset), subset or self.dataset.subset_name) for subset in subsets]
        recorded = [facts.get(f"{name}{self.options}", {}) for name in names]
        auto = issubclass(self.dataset, MultipleChoiceDataset) and settings.ranking_type == "auto"
        if auto:
            settings.mark_read(*settings_names(GenerationSettings))  # which matter to a model that writes replies
            settings = settings.with_values(ranking_type=ranking_that_fits(settings, model, recorded))
        for subset, earlier in zip(subsets, recorded, strict=True):
            task = self._compiled(subset, settings, reads, model, earlier)
            yield _with_ranking_note(task, decided=model is not None) if auto else task

    def _compiled(
        self,
        subset: str | None,
        settings: DatasetSettings,
        reads: Collection[str],
        model: Model | None,
        recorded: Mapping[str, Any],
    ) -> Task[Any]:
        """Compile the task of a subset, or return the one that was tried out, if the model changes nothing in it.

        ``reads``: the options that the settings note as read.
        """
        counts_tokens = issubclass(self.dataset, LLMBoxDataset) or settings.max_example_tokens is not None
        counter = model.abilities.count_tokens if counts_tokens and isinstance(model, LanguageModel) else None

        def compiled() -> Sequence[Task[Any]]:
            dataset = self.instance(settings, subset)
            with _naming_errors(where_of(dataset)):
                compiler = compile_dataset(dataset, counter, recorded)
                task = compiler.task(counter, recorded)
                compiler.mark_unread_options()
            idle = [name for name in (self.spec.options if self.spec is not None else ()) if name not in reads]
            notes = (*(f"{self.text}: its option {name} has no effect" for name in idle), *task.notes)
            name, labels = f"{task.name}{self.options}", dict(task.labels)
            if dataset.subset_name is not None:
                labels |= {"dataset": f"{name_of(self.dataset)}{self.options}", "subset": dataset.subset_name}
            is_provisional = compiler.examples.is_provisional
            return [replace(task, name=name, labels=labels, notes=notes, provisional=is_provisional)]

        (task,) = self.tried.take((settings, subset, counter), compiled, keep=model is None)
        if any(task.facts.get(name) != fact for name, fact in recorded.items()):
            (task,) = compiled()
        return task

    def instance(self, settings: DatasetSettings, subset: str | None) -> Dataset:
        """Make the dataset of a subset."""
        with _naming_errors(f"dataset {self.dataset.__name__}"):
            return self.dataset(settings, subset)

    def rehearsals(self, settings: DatasetSettings) -> Iterator[Task[Any]]:
        """Compile all subsets; of a dataset on the hub the first one, and look up the names of the others."""
        own, cls = _own_settings(settings, self.spec), self.dataset
        if not self._on_hub(own):
            return self.tasks(settings)
        if self.subsets:
            known = discover_subsets(None, name_of(cls), load_args_of(cls), None)
            for subset in self.subsets if known else ():
                if subset not in (known or ()):
                    raise DataError(
                        f"there is no subset {subset!r}", where=self.text, hint=f"It has: {', '.join(known or ())}."
                    )
        return islice(self.tasks(settings), 1)

    def planned(self, settings: DatasetSettings, rehearsed: Sequence[PlannedTask]) -> Sequence[PlannedTask]:
        """Return all subsets; the sizes of those on the hub show when they are loaded."""
        own, cls = _own_settings(settings, self.spec), self.dataset
        if not self._on_hub(own):
            return rehearsed
        names = [subset or cls.subset_name for subset in subsets_to_run(self, own)]
        group = f"{name_of(cls)}{self.options}" if any(names) else ""
        tasks = [PlannedTask(f"{display_name(name_of(cls), name)}{self.options}", group=group) for name in names]
        return [*rehearsed, *tasks[len(rehearsed) :]]

    def _on_hub(self, own: DatasetSettings) -> bool:
        """Whether its rows come from the hub, with these settings of its own."""
        cls = self.dataset
        from_hub = row_packages(own.dataset_path, load_args_of(cls)) == HUB_PACKAGES
        return cls.load_raw_dataset is Dataset.load_raw_dataset and from_hub

    def totals(self, results: Sequence[TaskResult]) -> Iterator[ResultRow]:
        """Average over the subsets that ran."""
        by_subset: dict[str, TaskResult] = {}
        average: Average = "macro"
        for result in results:
            samples, name = result.task.samples, result.task.name
            if isinstance(samples, DatasetSamples):
                average, name = samples.average, samples.subset
            by_subset[name] = result
        name, categories = f"{name_of(self.dataset)}{self.options}", self.dataset.categorized_subsets
        yield from average_rows(name, by_subset, categories, average=average)


def _own_settings(settings: DatasetSettings, spec: Spec | None) -> DatasetSettings:
    """Return the settings with the options of the spec; a stop text may contain escapes, as on the command line."""
    own = with_options(settings, spec)
    if spec is not None and "stop" in spec.options:
        own = own.with_values(stop=tuple(decode_escapes(text) for text in own.stop or ()))
    return own


# ---- the ranking type ``auto`` ----


def ranking_that_fits(settings: DatasetSettings, model: Model | None, recorded: Iterable[Mapping[str, Any]]) -> str:
    """Return what ``--ranking-type auto`` stands for.

    That is what an earlier run recorded, else what the model offers, else the default.
    """
    for facts in recorded:
        if facts.get("ranking_type") in RANKING_TYPES:
            return str(facts["ranking_type"])
    if not isinstance(model, LanguageModel):
        return "ppl_no_option"
    if model.abilities.best_ranking is not None:
        return model.abilities.best_ranking(settings.model_type == "chat")
    return "ppl_no_option" if Loglik in model.answers else "generation"


_RANKING_TEXTS = {
    "ppl_no_option": "the perplexity of each option",
    "first_token": "the server's list of likely first tokens; an option not on it is less likely than all that are",
    "generation": "the option letter that the reply names, found by ordered rules",
}


def _with_ranking_note(task: Task[Any], *, decided: bool) -> Task[Any]:
    """Say in a note and in a column of the results what ``auto`` stands for; without a model nothing is decided."""
    chosen = str(task.facts["ranking_type"])
    decision = (
        f"decides by {chosen}: {_RANKING_TEXTS.get(chosen, chosen)}"
        if decided
        else f"shows {chosen}; the model decides when it is asked"
    )
    note = f"{task.name}: --ranking-type auto {decision}"
    return replace(task, notes=(*task.notes, note), labels={**task.labels, "ranking_type": chosen})


# ---- what a user writes ----


def _catalogue() -> Iterator[Entry]:
    """Yield one entry for each file of the catalogue; its class is the one that the file defines."""
    for module in sorted(found.name for found in pkgutil.iter_modules(catalogue.__path__)):
        class_name = "".join(word.capitalize() for word in module.split("_"))
        yield Entry(module, f"{catalogue.__name__}.{module}:{class_name}")


def _is_dataset(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, Dataset)


DATASETS = Registry("datasets", "dataset", _catalogue(), accepts=_is_dataset, files=load_dataset_file)


def resolve(given: Any) -> DatasetSource:
    """Return the source for a class, or for what a user wrote: ``NAME[:subset,…][,setting=value…]``."""
    if _is_dataset(given):
        return DatasetSource(f"{given.__module__}:{given.__qualname__}", given)
    if not isinstance(given, str):
        raise UsageError(f"a dataset is a name, a class or a Task, not {type(given).__name__}")
    spec = parse_spec(given)
    cls, subsets = DATASETS.load(spec)
    if not _is_dataset(cls):
        raise DataError("it is not a dataset class", where=given, hint="Subclass kshot.Dataset.")
    check_options(spec)
    return DatasetSource(given, cls, tuple(_chosen_subsets(cls, subsets)), spec)


def check_options(spec: Spec) -> None:
    """Refuse options after the name of a dataset that no dataset has."""
    for name in spec.options:
        if name not in DATASET_OPTIONS:
            known = ", ".join(DATASET_OPTIONS)
            raise UsageError(f"a dataset has no option {name!r}", where=spec.text, hint=f"It has: {known}.")


def _chosen_subsets(cls: type[Dataset], text: str) -> list[str]:
    """Read ``a,b,[category]``."""
    subsets: list[str] = []
    for part in (found.strip() for found in re.findall(r"\s*\[[^\]]*\]|[^,]+", text)):
        if not part.startswith("["):
            subsets.append(part)
            continue
        wanted, categories = part.strip("[]").strip(), cls.categorized_subsets or {}
        match = {key.lower().replace(" ", "_"): key for key in categories}.get(wanted.lower().replace(" ", "_"))
        if match is None:
            raise UsageError(
                f"there is no category {wanted!r} in {name_of(cls)}",
                hint=f"Categories: {', '.join(categories) or 'none'}.",
            )
        subsets.extend(categories[match])
    return list(dict.fromkeys(subset for subset in subsets if subset))


# ---- the subsets that run ----


def subsets_to_run(source: DatasetSource, settings: DatasetSettings) -> list[str | None]:
    """Return the subsets that run: those the user named or all, without the banned ones; None where there is none."""
    cls = source.dataset
    subsets = [*source.subsets] or [*_all_subsets(cls, settings)]
    banned = set(cls.banned_subsets or ())
    allowed = [subset for subset in subsets if subset not in banned]
    if subsets and not allowed:
        raise UsageError(
            f"all subsets asked for are banned: {', '.join(map(str, subsets))}",
            where=f"dataset {name_of(cls)}",
        )
    return [*allowed] or [None]


def _all_subsets(cls: type[Dataset], settings: DatasetSettings) -> Sequence[str]:
    load_args = load_args_of(cls)
    if cls.subset_name is not None or len(load_args or ()) > 1:
        return []
    listed = list(dict.fromkeys(s for subsets in (cls.categorized_subsets or {}).values() for s in subsets))
    if cls.load_raw_dataset is not Dataset.load_raw_dataset:
        return listed
    if listed and settings.dataset_path is None:
        return listed  # the class knows its subsets; the hub need not be asked
    split = settings.evaluation_set or cls.evaluation_set
    if split is None:
        return listed  # the compiler says that it is missing
    found = discover_subsets(settings.dataset_path, name_of(cls), load_args, split)
    return listed if found is None else found


def compile_dataset(
    dataset: Dataset, count_tokens: TokenCounter | None = None, recorded: Mapping[str, Any] | None = None
) -> DatasetCompiler:
    """Read the rows of a dataset and make it ready to run.

    A class of LLMBox may count tokens while it does so, as ``recorded``, the facts of an earlier run, say.
    """
    if isinstance(dataset, LLMBoxDataset):
        return compile_llmbox(dataset, count_tokens, recorded)
    if isinstance(dataset, RowsDataset):
        return compile_rows(dataset)
    for compiler in (MultipleChoiceCompiler, GenerationCompiler):
        if isinstance(dataset, compiler.dataset_class):
            return compiler(dataset)
    raise DataError(
        "it does not say what kind of dataset it is",
        where=where_of(dataset),
        hint="Subclass MultipleChoiceDataset or GenerationDataset.",
    )


@contextmanager
def _naming_errors(where: str) -> Iterator[None]:
    """Turn any error of a user's class into one that names the class."""
    try:
        yield
    except KshotError:
        raise
    except Exception as exc:
        raise DataError(f"it cannot be used: {type(exc).__name__}: {exc}", where=where) from exc
