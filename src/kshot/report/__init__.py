"""Results for people: tables, grids, and short findings."""

from kshot.report.grid import findings, grids
from kshot.report.systems import systems_tables, verdicts
from kshot.report.table import details_table, results_table, spending

__all__ = ["details_table", "findings", "grids", "results_table", "spending", "systems_tables", "verdicts"]
