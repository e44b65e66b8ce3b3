"""The formats in which runs are exported, and what of a run is; the command line lists both before it imports more."""

from __future__ import annotations

from typing import Literal, TypeAlias

Format: TypeAlias = Literal["csv", "parquet", "markdown", "latex", "trec", "inspect", "hf", "lmeval"]
ExportedPart: TypeAlias = Literal["results", "samples", "comparisons"]

FORMATS: tuple[Format, ...] = ("csv", "parquet", "markdown", "latex", "trec", "inspect", "hf", "lmeval")
PARTS: tuple[ExportedPart, ...] = ("results", "samples", "comparisons")
TEXTS: tuple[Format, ...] = ("csv", "markdown", "latex")
"""The formats that are printed, or returned as a text, where no file is named."""
