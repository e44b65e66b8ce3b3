"""Rows of a run as CSV, for spreadsheets or for programs."""

from __future__ import annotations

import csv
from itertools import chain
from typing import IO

from kshot.report.exports.typed_columns import Columns, Rows
from kshot.report.spreadsheet import write_spreadsheet


def write_csv(file: IO[str], rows: Rows, *, raw: bool = False) -> None:
    """Write a header and the rows.

    A text that a spreadsheet would run as a formula gets an apostrophe before it, and control characters become
    escapes; ``raw``: every text as it is, for programs.
    """
    columns = Columns(rows)
    lines = chain([columns.names], columns.values())
    if not raw:
        write_spreadsheet(file, lines)
        return
    writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerows([str(value) if isinstance(value, bool) else value for value in line] for line in lines)
