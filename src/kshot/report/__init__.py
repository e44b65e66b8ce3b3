"""Results for people: tables, grids, and short findings."""

from kshot.report.grid import findings, grids
from kshot.report.sweep_verdicts import sweep_verdicts
from kshot.report.sweeps import sweep_tables
from kshot.report.systems import systems_tables
from kshot.report.table import details_tables, results_table, spending
from kshot.report.verdicts import model_verdicts, spreads, verdicts

__all__ = [
    "details_tables",
    "findings",
    "grids",
    "model_verdicts",
    "results_table",
    "spending",
    "spreads",
    "sweep_tables",
    "sweep_verdicts",
    "systems_tables",
    "verdicts",
]
