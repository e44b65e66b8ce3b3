"""From what a user names to datasets: ``NAME``, ``NAME:subset,…``, ``NAME:[category]``, ``file.py:Class``, a class."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from kshot.core.errors import DataError, KshotError, UsageError
from kshot.core.records import Loglik
from kshot.core.registry import class_in, split_plugin
from kshot.core.task import Task
from kshot.datasets import catalogue
from kshot.datasets.compiled import Compiled
from kshot.datasets.dataset import Dataset, name_of, place
from kshot.datasets.generation import CompiledTexts
from kshot.datasets.multiple_choice import CompiledChoices, MultipleChoiceDataset
from kshot.runs.results import Row, Tally, macro_rows
from kshot.settings import RANKING_TYPES, Settings
from kshot.tables.loading import discover_subsets


@dataclass(frozen=True, slots=True)
class Named:
    """A dataset class and the subsets asked for; ``label`` is how the user wrote it."""

    label: str
    dataset: type[Dataset]
    subsets: tuple[str, ...] = ()

    def tasks(
        self, settings: Settings, model: object = None, facts: Mapping[str, Any] | None = None
    ) -> Iterator[Task[Any]]:
        """One Task per subset; the model's tokenizer (or the ``facts`` of an earlier run) fits the examples."""
        auto = settings.ranking_type == "auto" and issubclass(self.dataset, MultipleChoiceDataset)
        if auto:
            settings = replace(settings, ranking_type=_ranking(settings, model, facts or {}))
        for dataset in instances(self, settings):
            kept = (facts or {}).get(dataset.display_name, {}).get("shots")
            with _blaming(place(dataset)):
                task = compiled(dataset).task(getattr(model, "count_tokens", None), kept)
            yield _told(task, known=model is not None) if auto else task

    def totals(self, tallies: Sequence[Tally]) -> Iterator[Row]:
        """Averages over the subsets that ran."""
        name = name_of(self.dataset)
        by_subset = {tally.task.name.removeprefix(f"{name}:"): tally for tally in tallies}
        yield from macro_rows(name, by_subset, self.dataset.categorized_subsets)


def _ranking(settings: Settings, model: object, facts: Mapping[str, Any]) -> str:
    """What ``--ranking-type auto`` comes to: what an earlier run found out, what the model offers, or the default."""
    for found in facts.values():
        if found.get("ranking_type") in RANKING_TYPES:
            return str(found["ranking_type"])
    offers = getattr(model, "best_ranking", None)
    if offers is not None:
        return str(offers(chat=settings.model_type == "chat"))
    return "ppl_no_option" if model is None or Loglik in getattr(model, "answers", ()) else "generation"


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


def catalogue_names() -> list[str]:
    """The datasets that come with kshot."""
    return sorted(module.name for module in pkgutil.iter_modules(catalogue.__path__))


def from_catalogue(name: str) -> type[Dataset]:
    """The catalogue's class of that name."""
    names = catalogue_names()
    if name not in names:
        close = _closest(name, names)
        hint = f"Did you mean {close!r}? " if close else ""
        raise UsageError(
            f"there is no dataset {name!r}", hint=f"{hint}See kshot list datasets, or write path/to/file.py:Class."
        )
    module = importlib.import_module(f"{catalogue.__name__}.{name}")
    found = (v for v in vars(module).values() if isinstance(v, type) and issubclass(v, Dataset))
    return next(cls for cls in found if cls.__module__ == module.__name__)


def _closest(name: str, names: Sequence[str]) -> str | None:
    import difflib

    return next(iter(difflib.get_close_matches(name, names, 1)), None)


def resolve(spec: Any) -> Named:
    """Find the class a user named, and the subsets."""
    if isinstance(spec, type) and issubclass(spec, Dataset):
        return Named(f"{spec.__module__}:{spec.__qualname__}", spec)
    if not isinstance(spec, str):
        raise UsageError(f"a dataset is a name, a class or a Task, not {type(spec).__name__}")
    plugin = split_plugin(spec)
    if plugin is not None:
        path, rest = plugin
        name, _, chosen = rest.partition(":")
        cls = class_in(path, name, Dataset)
    else:
        name, _, chosen = spec.partition(":")
        cls = from_catalogue(name)
    return Named(spec, cls, tuple(_chosen(cls, chosen)))


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


def instances(named: Named, settings: Settings) -> list[Dataset]:
    """Make one dataset per subset that is to run."""
    cls = named.dataset
    subsets: list[str | None] = [*named.subsets] or [*_all_subsets(cls, settings)]
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
