"""What ``kshot check`` says of a table: its rows, how its answers are read, and every row that cannot be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kshot.cleanups.letters import letter
from kshot.core.entry_checks import EntryCheck, Lack
from kshot.core.errors import DataError, UsageError
from kshot.core.metric import Metric, measure_names
from kshot.core.records import Answers
from kshot.datasets.checks import checked_metrics, requested_metrics
from kshot.datasets.multiple_choice import choice_metrics
from kshot.datasets.rows.classes import RowsDataset, RowsWithOptions
from kshot.datasets.rows.loading import RowTables
from kshot.datasets.rows.reading import RowReading
from kshot.metrics.passatk import check_targets


def check_table(dataset: RowsDataset) -> EntryCheck:
    """Look at all rows of a table, and list what is wrong with them."""
    args = dataset.args
    tables = RowTables(args.dataset_path or dataset.place, dataset.subset_name)
    split, _ = tables.chosen_splits(args.evaluation_set, args.example_set)
    rows = tables.load(split)
    reading = dataset.examined(rows, tables.place)
    metrics = row_metrics(dataset)
    return EntryCheck(
        dataset.display_name,
        "messages" if dataset.model_type == "chat" else "text",
        _described(rows, reading),
        ", ".join(measure_names(metrics)),
        missing=tuple(_lacks(metrics, reading, rows)),
        notes=reading.notes,
    )


def _lacks(metrics: Sequence[Metric], reading: RowReading, rows: Sequence[Mapping[str, Any]]) -> Iterator[Lack]:
    yield from (Lack("row", str(fault), (str(fault),)) for fault in reading.faults)
    if reading.faults:
        return
    targets = (reading.fields(row).get("target", ()) for row in rows)
    try:
        check_targets(metrics, (Answers((each,) if isinstance(each, str) else tuple(each)) for each in targets), "")
    except UsageError as exc:
        yield Lack("evaluation", str(exc), (str(exc),))


def row_metrics(dataset: RowsDataset) -> list[Metric]:
    """Return the metrics of a table, those of ``--metric`` if there are any; what cannot score it is an error."""
    if dataset.args.metric:
        dataset.metrics = requested_metrics(dataset)
    return choice_metrics(dataset) if isinstance(dataset, RowsWithOptions) else checked_metrics(dataset)


def _described(rows: Sequence[Mapping[str, Any]], reading: RowReading) -> str:
    counted = f"{len(rows)} {'row' if len(rows) == 1 else 'rows'}"
    if reading.form is None:
        return counted
    found = Counter(index for row in rows for index in _right(reading, row))
    shares = " ".join(f"{letter(index)} {count}" for index, count in sorted(found.items()))
    return f"{counted}; right: {shares or 'none'}"


def _right(reading: RowReading, row: Mapping[str, Any]) -> Sequence[int]:
    try:
        found = reading.fields(row)["target_idx"]
    except DataError:
        return ()
    return found if isinstance(found, list) else [found]
