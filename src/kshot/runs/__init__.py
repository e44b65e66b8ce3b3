"""Runs: their folder and journal, and how they resume and reuse answers."""

from kshot.runs.folder import RunFolder
from kshot.runs.journal import Journal
from kshot.runs.spec_file import read_spec

__all__ = ["Journal", "RunFolder", "read_spec"]
