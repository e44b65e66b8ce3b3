"""The run folder: settings, journal, samples, summary; resuming and reusing."""

from kshot.runs.folder import RunFolder, read_spec
from kshot.runs.journal import Journal

__all__ = ["Journal", "RunFolder", "read_spec"]
