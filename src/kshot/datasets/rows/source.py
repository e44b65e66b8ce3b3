"""Rows and flags as a source: ``-d rows.csv --question Q --options A,B,C,D --answer KEY``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kshot.core.entry_checks import EntryCheck
from kshot.core.errors import DataError
from kshot.core.extras import require_all
from kshot.core.options import settings_names
from kshot.core.protocols import Model
from kshot.core.specs import Spec, option_text, parse_spec, split_options, with_options
from kshot.core.task import Task
from kshot.datasets.dataset import display_name, name_of
from kshot.datasets.rows.classes import (
    RowsDataset,
    RowsWithOptions,
    RowsWithTargets,
    check_table,
    is_file_name,
    is_local,
    rows_class,
)
from kshot.datasets.rows.reading import check_named
from kshot.datasets.rows.settings import RowSettings
from kshot.datasets.settings import DatasetSettings
from kshot.datasets.source import DATASETS, DatasetSource, check_options, ranking_that_fits
from kshot.tables.files import FILE_SUFFIXES
from kshot.tables.loading import row_packages

_OF_ROWS = settings_names(RowSettings)
USUAL_RANKING = "ppl_no_option"
_SPLIT_NAMES = frozenset({"train", "test", "dev", "val", "valid", "validation", "eval"})


def is_rows(text: str, settings: RowSettings) -> bool:
    """Whether a spec names a table: a file of rows, or any place or dataset of the hub if flags name its columns.

    A name that kshot knows as a dataset stays that dataset.
    """
    head, options = split_options(text)
    if is_file_name(head):
        return True
    if parse_spec(text).file is not None or DATASETS.find(head.partition(":")[0]) is not None:
        return False
    return bool(settings.changed(RowSettings) or _OF_ROWS & options.keys()) or Path(head).expanduser().is_file()


@dataclass(frozen=True, slots=True)
class RowsSource(DatasetSource):
    """A table, and the columns that the settings name."""

    place: str = ""

    def check(self, settings: DatasetSettings) -> None:
        """Refuse flags that do not belong together, and files of other kinds."""
        check_named(with_options(settings, self.spec), self.text)
        path = Path(self.place).expanduser()
        if path.is_file() and not is_file_name(self.place):
            known = ", ".join(FILE_SUFFIXES)
            hint = f"Known types: {known}. Save a sheet of a workbook as CSV UTF-8."
            raise DataError(f"files of type {path.suffix!r} cannot be read", where=self.place, hint=hint)
        DatasetSource.check(self, settings)

    def packages(self, settings: DatasetSettings, *, scored: bool = True) -> dict[str, tuple[str, ...]]:
        """Return the packages of kshot's extras that its rows, its examples and its clean-up need."""
        own, local = with_options(settings, self.spec), self.place if is_local(self.place) else None
        found = DatasetSource.packages(self, settings, scored=scored)
        return {self.text: row_packages(own.dataset_path or local, (self.place,)), **found}

    @property
    def options(self) -> str:
        """The settings that the names of its tasks end in: those that name columns would only make them long."""
        given = self.spec.options if self.spec is not None else {}
        return option_text({name: value for name, value in given.items() if name not in _OF_ROWS})

    def tasks(
        self, settings: DatasetSettings, model: Model | None = None, facts: Mapping[str, Any] | None = None
    ) -> Iterator[Task[Any]]:
        """Make the Task; the model decides how options are ranked, unless the user does."""
        own, facts = with_options(settings, self.spec), facts or {}
        if issubclass(self.dataset, RowsWithOptions) and own.ranking_type is None and own.sample_num == 1:
            names = (display_name(name_of(self.dataset), subset) for subset in self.subsets or (None,))
            earlier = [facts.get(f"{name}{self.options}", {}) for name in names]
            decided = model is not None or any(earlier)
            usual = decided and ranking_that_fits(own, model, earlier) == USUAL_RANKING
            settings = settings.with_values(ranking_type=USUAL_RANKING if usual else "auto")
        return DatasetSource.tasks(self, settings, model, facts)

    def checks(self, settings: DatasetSettings) -> Iterator[EntryCheck]:
        """Say of each subset what of it would run, and which rows have faults."""
        self.check(settings)
        require_all(self.packages(settings))
        for subset in self.subsets or (None,):
            dataset = self.instance(with_options(settings, self.spec), subset)
            if isinstance(dataset, RowsDataset):
                yield check_table(dataset)


def rows_source(text: str, settings: DatasetSettings) -> RowsSource:
    """Return the source of a table: a file, a folder, a pattern, or a dataset of the hub (``NAME[:subset]``)."""
    head, options = split_options(text)
    place, _, subset = (head, "", "") if is_local(head) else head.partition(":")
    spec = Spec(text, place, subset, options)
    check_options(spec)
    base = RowsWithTargets if with_options(settings, spec).target is not None else RowsWithOptions
    cls = rows_class(_name(place), place, base)
    return RowsSource(text, cls, (subset,) if subset else (), spec, place)


def _name(place: str) -> str:
    """Return what the results call a table: the name of its file or folder without ending, or that on the hub."""
    if not is_local(place):
        return place
    path = Path(place).expanduser()
    stem = path.stem if is_file_name(path.name) else path.name
    stem = stem.replace("{split}", "").replace("{subset}", "").strip("_-. ")
    folder = path.parent.resolve().name
    if stem.lower() in _SPLIT_NAMES and folder:
        return f"{folder}_{stem}"  # many folders have a file of this name
    return stem or folder
