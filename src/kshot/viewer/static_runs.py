"""The samples of a run, and the pairs of two runs, as files of static pages; ``web/packed.js`` describes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshot.comparing import compare
from kshot.report.page.packed_samples import BLOCK, MetricScales, PackedColumns
from kshot.report.page.sample_card import sample_card
from kshot.report.sample_look import SampleLooks
from kshot.runs.passages_file import PassageTexts
from kshot.runs.record import RunRecord, read_record
from kshot.runs.sample_filters import SampleFilter, metric_scales
from kshot.runs.sample_flips import paired_places
from kshot.runs.samples_file import placed_rows, sample_rows
from kshot.viewer.catalog import ListedRun
from kshot.viewer.page_sections import comparison_page

_MAX_METRICS = 20


def sample_files(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of the files with the samples of a run, as they are read."""
    record = read_record(folder)
    scales = MetricScales(record.results, _MAX_METRICS)
    looks = SampleLooks(folder, SampleFilter(metric_scales(record.results)), full=True)
    texts = PassageTexts(folder)
    columns = PackedColumns(list(scales.by_metric), scales.downward())
    block: list[dict[str, Any]] = []
    for n, row in enumerate(sample_rows(folder)):
        card = sample_card(looks.of(row), n, texts.of(row))
        columns.add(card, scales.of(row))
        block.append(card)
        if len(block) == BLOCK:
            yield f"block-{n // BLOCK}.json", block
            block = []
    if block:
        yield f"block-{len(columns) // BLOCK}.json", block
    yield "columns.json", columns.as_dict(total=len(columns))


def comparison_file(baseline: ListedRun, run: ListedRun) -> dict[str, Any]:
    """Return a comparison with its pairs of samples, and how each turned out."""
    records = read_record(baseline.folder), read_record(run.folder)
    found = compare(*records)
    starts = [_starts(record) for record in records]
    pairs: list[list[int]] = []
    flips: list[str] = []
    for paired in paired_places(found):
        places = paired.baseline, paired.run
        numbers = [np.searchsorted(at, place) for at, place in zip(starts, places, strict=True)]
        pairs += np.stack(numbers, axis=1).tolist()
        flips.append(paired.outcomes)
    sides = {name: {"key": each.key, "name": each.line["name"]} for name, each in (("a", baseline), ("b", run))}
    page = comparison_page(found, [baseline.key, run.key])
    return {"state": "ready", "error": None, **page, **sides, "pairs": pairs, "flips": "".join(flips)}


def _starts(record: RunRecord) -> NDArray[np.int64]:
    """Return the bytes at which the lines of the samples begin."""
    folder = record.path
    return np.array([] if folder is None else [placed.place for placed in placed_rows(folder)], dtype=np.int64)
