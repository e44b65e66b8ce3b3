"""What people look at: tables now."""

from kshot.report.table import results_table

__all__ = ["results_table"]
