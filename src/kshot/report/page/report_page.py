"""What a report holds: its sections, and as many samples as fit beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kshot.report.page.document import Page, document
from kshot.report.page.fitted_sections import fitted_sections
from kshot.report.page.markup import Section
from kshot.report.page.packed_flips import SamplePairs, flipped_numbers, sample_pairs
from kshot.report.page.packed_samples import PackedRun, pack, packed_run
from kshot.report.page.page_run import PageRun
from kshot.report.page.report_head import about_runs, report_title
from kshot.report.page.run_sections import comparison_sections, run_sections
from kshot.report.page.samples_read import SamplesRead, read_run_samples
from kshot.report.page.samples_section import samples_section

if TYPE_CHECKING:
    from kshot.runs.comparing import Comparison

_SPARE = 4_000
"""Bytes for what says how many samples there are."""
_SHARE_OF_SAMPLES = 4
"""Samples have at least this part of a report, one in so many."""


class ReportPage(NamedTuple):
    """A report, and how many of how many samples it holds."""

    page: Page
    here: int
    all: int


def report_page(
    runs: Sequence[PageRun], comparison: Comparison | None, not_compared: str, most_bytes: int
) -> ReportPage:
    """Read all samples once, and make a report of at most so many bytes. ``not_compared`` says why, if so."""
    read = [read_run_samples(run) for run in runs]
    sections = run_sections(runs, {each.run.key: each for each in read})
    if comparison is not None:
        sections[1:1] = comparison_sections(comparison, {run.name: run.key for run in runs})
    pairs = sample_pairs(comparison, read)
    title, about = report_title(runs), about_runs(runs, not_compared)
    for_samples = most_bytes // _SHARE_OF_SAMPLES if any(map(len, read)) else 0
    sections = fitted_sections(sections, most_bytes - _size(Page(title, about, [])) - for_samples - _SPARE)

    def made(packed: Sequence[PackedRun]) -> Page:
        last = samples_section(read, packed)
        shown: list[Section] = [*sections, *([last] if last is not None else [])]
        return Page(title, about, shown, _files(read, packed, pairs))

    room = most_bytes - _size(made([])) - _SPARE
    packed = _packed(read, flipped_numbers(pairs), room)
    page = made(packed)
    while (beyond := _size(page) - most_bytes) > 0 and any(each.numbers for each in packed):
        room -= beyond + _SPARE  # the pairs of samples take their part too
        packed = _packed(read, flipped_numbers(pairs), room)
        page = made(packed)
    return ReportPage(page, sum(len(each.numbers) for each in packed), sum(map(len, read)))


def _size(page: Page) -> int:
    return sum(len(piece.encode("utf-8", "backslashreplace")) for piece in document(page))


def _packed(read: Sequence[SamplesRead], flipped: Mapping[str, set[int]], room: int) -> list[PackedRun]:
    """Share the room among the runs; what one does not need is left to the next."""
    found = []
    for number, each in enumerate(read):
        packed = packed_run(each, flipped.get(each.run.key, set()), room // (len(read) - number))
        room -= packed.size
        found.append(packed)
    return found


def _files(read: Sequence[SamplesRead], packed: Sequence[PackedRun], pairs: Sequence[SamplePairs]) -> dict[str, bytes]:
    files = {name: content for each in packed for name, content in each.files.items()}
    here = {each.run.key: set(own.numbers) for each, own in zip(read, packed, strict=False)}
    runs = [{"key": each.run.key, "name": each.run.name, "samples": True} for each in read if len(each)]
    listed = {"runs": runs, "comparisons": [(each.baseline, each.run) for each in pairs]}
    return files | {"data/runs.json": pack(listed)} | dict(each.file(here) for each in pairs if packed)
