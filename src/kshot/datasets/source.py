"""Dataset classes as a source: ``NAME``, ``NAME:subset,…``, ``NAME:[category]``, ``file.py:Class``, a class."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from kshot.core.errors import DataError, KshotError, UsageError
from kshot.core.protocols import LanguageModel, Model, Source
from kshot.core.records import Loglik, ResultRow
from kshot.core.registry import Entry, Registry, Spec, parse_spec
from kshot.core.task import Task, TaskResult
from kshot.datasets import catalogue
from kshot.datasets.compiled import Compiled, Count
from kshot.datasets.dataset import Dataset, name_of, place
from kshot.datasets.generation import CompiledTexts
from kshot.datasets.multiple_choice import CompiledChoices, MultipleChoiceDataset
from kshot.settings import RANKING_TYPES, Settings, with_options
from kshot.statistics.averages import macro_rows
from kshot.tables.loading import discover_subsets


@dataclass(frozen=True, slots=True)
class DatasetSource(Source[Settings]):
    """A dataset class and the subsets asked for; ``text`` is how the user wrote it."""

    text: str
    dataset: type[Dataset]
    subsets: tuple[str, ...] = ()
    spec: Spec | None = None

    @property
    def label(self) -> str:
        """The source as the user wrote it."""
        return self.text

    def tasks(
        self, settings: Settings, model: Model | None = None, facts: Mapping[str, Any] | None = None
    ) -> Iterator[Task[Any]]:
        """One Task per subset; the model's tokenizer (or the ``facts`` of an earlier run) fits the examples."""
        settings = with_options(settings, self.spec)
        auto = settings.ranking_type == "auto" and issubclass(self.dataset, MultipleChoiceDataset)
        if auto:
            settings = replace(settings, ranking_type=_ranking(settings, model, facts or {}))
        for dataset in instances(self, settings):
            name = dataset.display_name + (self.spec.option_text if self.spec else "")
            kept = (facts or {}).get(name, {}).get("shots")
            with _blaming(place(dataset)):
                task = replace(compiled(dataset).task(_token_counter(model), kept), name=name)
            yield _told(task, known=model is not None) if auto else task

    def totals(self, results: Sequence[TaskResult]) -> Iterator[ResultRow]:
        """Averages over the subsets that ran."""
        name, options = name_of(self.dataset), self.spec.option_text if self.spec else ""
        by_subset = {result.task.name.removeprefix(f"{name}:").removesuffix(options): result for result in results}
        yield from macro_rows(f"{name}{options}", by_subset, self.dataset.categorized_subsets)


def _token_counter(model: Model | None) -> Count | None:
    return model.abilities.count_tokens if isinstance(model, LanguageModel) else None


def _ranking(settings: Settings, model: Model | None, facts: Mapping[str, Any]) -> str:
    """What ``--ranking-type auto`` comes to: what an earlier run found out, what the model offers, or the default."""
    for found in facts.values():
        if found.get("ranking_type") in RANKING_TYPES:
            return str(found["ranking_type"])
    if not isinstance(model, LanguageModel):
        return "ppl_no_option"
    if model.abilities.best_ranking is not None:
        return model.abilities.best_ranking(settings.model_type == "chat")
    return "ppl_no_option" if Loglik in model.answers else "generation"


_WAYS = {
    "ppl_no_option": "the perplexity of each option",
    "first_token": "the server's list of likely first tokens; an option not on it is less likely than all that are",
    "generation": "the last option letter of a reply",
}


def _told(task: Task[Any], *, known: bool) -> Task[Any]:
    """Say in the notes, and in a column of the results, what ``auto`` came to."""
    way = str(task.facts["ranking_type"])
    by = f"decides by {way}: {_WAYS.get(way, way)}" if known else f"shows {way}; the model decides when it is asked"
    note = f"{task.name}: --ranking-type auto {by}"
    return replace(task, notes=(*task.notes, note), labels={**task.labels, "ranking_type": way})


@contextmanager
def _blaming(where: str) -> Iterator[None]:
    """Whatever a user's class does wrong while it is made ready is an error that names the class."""
    try:
        yield
    except KshotError:
        raise
    except Exception as exc:
        raise DataError(f"it cannot be used: {type(exc).__name__}: {exc}", where=where) from exc


def _catalogue() -> Iterator[Entry]:
    """One entry for each file of the catalogue; its class is the one that the file defines."""
    for module in sorted(found.name for found in pkgutil.iter_modules(catalogue.__path__)):
        class_name = "".join(word.capitalize() for word in module.split("_"))
        yield Entry(module, f"{catalogue.__name__}.{module}:{class_name}")


def _is_dataset(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, Dataset)


DATASETS = Registry("datasets", "dataset", _catalogue(), accepts=_is_dataset)


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
    return DatasetSource(given, cls, tuple(_chosen(cls, subsets)), spec)


def _chosen(cls: type[Dataset], text: str) -> list[str]:
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


def instances(source: DatasetSource, settings: Settings) -> list[Dataset]:
    """Make one dataset per subset that is to run."""
    cls = source.dataset
    subsets: list[str | None] = [*source.subsets] or [*_all_subsets(cls, settings)]
    banned = set(cls.banned_subsets or ())
    kept = [subset for subset in subsets if subset not in banned]
    if subsets and not kept:
        raise UsageError(
            f"all subsets asked for are banned: {', '.join(map(str, subsets))}",
            where=f"dataset {name_of(cls)}",
        )
    with _blaming(f"dataset {cls.__name__}"):
        return [cls(settings, subset) for subset in kept or [None]]


def _all_subsets(cls: type[Dataset], settings: Settings) -> Sequence[str]:
    if cls.subset_name is not None or (cls.load_args is not None and len(cls.load_args) > 1):
        return []
    listed = list(dict.fromkeys(s for subsets in (cls.categorized_subsets or {}).values() for s in subsets))
    if cls.load_raw_dataset is not Dataset.load_raw_dataset:
        return listed
    if listed and settings.dataset_path is None:
        return listed  # the class knows; nobody needs to be asked
    split = settings.evaluation_set or cls.evaluation_set
    found = discover_subsets(settings.dataset_path, name_of(cls), cls.load_args, split)
    return listed if found is None else found


def compiled(dataset: Dataset) -> Compiled:
    """Read a dataset's rows and make it ready to run."""
    for kind in (CompiledChoices, CompiledTexts):
        if isinstance(dataset, kind.kind):
            return kind(dataset)
    raise DataError(
        "it does not say what kind of dataset it is",
        where=place(dataset),
        hint="Subclass MultipleChoiceDataset or GenerationDataset.",
    )
