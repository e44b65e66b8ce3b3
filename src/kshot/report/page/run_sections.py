"""The sections on one run, or on several side by side, in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kshot.report.page.calibration_section import calibration_section
from kshot.report.page.category_section import category_sections
from kshot.report.page.comparison_section import between_runs, within_run
from kshot.report.page.course_section import course_section
from kshot.report.page.headline_section import headline_section
from kshot.report.page.lookup_section import lookup_section
from kshot.report.page.markup import Section
from kshot.report.page.passages_section import passages_section
from kshot.report.page.settings_section import settings_section
from kshot.report.page.studies_section import draws_section, shots_section
from kshot.report.page.subject_sections import subject_sections

if TYPE_CHECKING:
    from kshot.report.page.page_run import PageRun
    from kshot.report.page.samples_read import SamplesRead
    from kshot.runs.comparing import Comparison


def run_sections(runs: Sequence[PageRun], read: Mapping[str, SamplesRead] | None = None) -> list[Section]:
    """Return the sections on runs; what does not apply to them has none.

    ``read`` has by key what a pass over the samples found; without it, there is no section that needs all samples.
    """
    found = [
        *subject_sections(runs),
        headline_section(runs),
        lookup_section(runs),
        passages_section(runs),
        within_run(runs),
        shots_section(runs),
        draws_section(runs),
        *category_sections(runs),
        None if read is None else calibration_section(runs, read),
        settings_section(runs),
        course_section(runs, read),
    ]
    return [section for section in found if section is not None]


def comparison_sections(comparison: Comparison, keys: Mapping[str, str]) -> list[Section]:
    """Return the sections on a comparison; ``keys`` are those of its runs, by their labels."""
    return [between_runs(comparison, keys)]
