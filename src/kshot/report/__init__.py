"""Results for people: tables, grids, and short findings."""

from kshot.report.drawn_table import drawn_views
from kshot.report.grid import findings, grids
from kshot.report.subjects import every_subject
from kshot.report.systems import systems_tables
from kshot.report.table import details_tables, results_table, spending
from kshot.report.verdicts import model_verdicts, spreads, verdicts

__all__ = [
    "details_tables",
    "drawn_views",
    "every_subject",
    "findings",
    "grids",
    "model_verdicts",
    "results_table",
    "spending",
    "spreads",
    "systems_tables",
    "verdicts",
]
