"""The sections on one run, or on several side by side, in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kshot.report.page.comparison_section import between_runs, within_run
from kshot.report.page.markup import Section
from kshot.report.page.settings_section import settings_section

if TYPE_CHECKING:
    from kshot.report.page.page_run import PageRun
    from kshot.runs.comparing import Comparison


def run_sections(runs: Sequence[PageRun]) -> list[Section]:
    """Return the sections on runs; what does not apply to them has none."""
    found = (within_run(runs), settings_section(runs))
    return [section for section in found if section is not None]


def comparison_sections(comparison: Comparison, keys: Mapping[str, str]) -> list[Section]:
    """Return the sections on a comparison; ``keys`` are those of its runs, by their labels."""
    return [between_runs(comparison, keys)]
