"""Runs: their folder and journal, and how they resume and reuse answers."""

from kshot.runs.folder import RunFolder, read_spec
from kshot.runs.journal import Journal

__all__ = ["Journal", "RunFolder", "read_spec"]
