"""The table of ``kshot new dataset``, read with the flags of the user, or by the usual names of columns."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from kshot.core.errors import UsageError
from kshot.core.extras import require
from kshot.core.specs import split_names
from kshot.datasets.rows.checking import row_metrics
from kshot.datasets.rows.classes import RowsWithOptions, RowsWithTargets, raise_first, rows_class
from kshot.datasets.rows.columns import check_named, column_names, guessed
from kshot.datasets.rows.loading import RowTables, is_local
from kshot.datasets.rows.settings import RowSettings
from kshot.datasets.rows.writing import WrittenTable
from kshot.datasets.settings import DatasetSettings
from kshot.prompts import decode_escapes
from kshot.tables.loading import row_packages


def written_table(place: str, name: str, file: str, settings: DatasetSettings, folder: Path) -> WrittenTable:
    """Read a table, and return what is written of it; faults of rows are errors, as in a run."""
    if not is_local(place):
        raise UsageError("there is no such file", where=place, hint="Name a table: csv, tsv, json, jsonl or parquet.")
    require(place, *row_packages(place, None))
    check_named(settings, place)
    tables = RowTables(place, None)
    splits = tables.chosen_splits(settings.evaluation_set, settings.example_set)
    rows = tables.load(splits[0])
    settings = _with_columns(settings, column_names(rows))
    base = RowsWithTargets if settings.target is not None else RowsWithOptions
    dataset = rows_class(name, place, base)(settings)
    reading = dataset.examined(rows, place)
    raise_first(reading)
    row_metrics(dataset)  # what cannot score the table is an error
    return WrittenTable(
        name,
        file,
        Path(os.path.relpath(Path(place).expanduser(), folder)).as_posix(),
        rows,
        reading,
        None if settings.instruction is None else decode_escapes(settings.instruction),
        tuple(each for names in settings.metric or () for each in split_names(names)),
        splits,
        tables.left_out,
    )


def _with_columns(settings: DatasetSettings, names: list[str]) -> DatasetSettings:
    """Return the settings with the columns that have the usual names, if the user names none."""
    found = guessed(names)
    if settings.changed(RowSettings) or found is None:
        return settings
    options = found.options or None
    return replace(settings, question=found.question, options=options, answer=found.answer, target=found.target)
