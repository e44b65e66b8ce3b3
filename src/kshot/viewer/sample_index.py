"""The samples of one run for a viewer: pages of a filtered and sorted list, counts, and single rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from kshot.core.errors import RunError
from kshot.core.records import ResultRow
from kshot.runs.sample_verdicts import MetricScale
from kshot.viewer.sample_query import SampleQuery

IndexStep: TypeAlias = Literal["new", "indexing", "ready", "failed"]


@dataclass(frozen=True, slots=True)
class IndexState:
    """How far an index is; ``share`` is the part of the samples that has been read, ``error`` says why it failed."""

    state: IndexStep
    share: float = 0.0
    error: str = ""


class SampleIndex:
    """The samples of a run folder. All methods may be called from any thread.

    The index is a file beside ``samples.jsonl`` (or in the user's cache), made once, in a thread. ``facets`` and
    ``page`` start it, and say so until it is ready. ``row``, ``scale`` and ``counterparts`` wait for it. When the
    files of the run change, it is made again. All raise ``RunError`` if the samples cannot be read, and ``UsageError``
    for a metric that the run does not have.
    """

    def __init__(self, folder: Path) -> None:
        """Take a run folder; nothing is read yet."""
        self.folder = folder

    def state(self) -> IndexState:
        """Return how far the index is."""
        return IndexState("new")

    def start(self) -> None:
        """Begin to make the index in a thread, unless it is there."""

    def wait(self, seconds: float | None = None) -> IndexState:
        """Wait until the index is ready or failed, at most this long."""
        return self.state()

    def facets(self, metric: str | None = None) -> dict[str, Any]:
        """Return the names and counts by which samples can be filtered, as the JSON of ``…/facets``."""
        return {"state": "indexing", "share": 0.0}

    def page(
        self, query: SampleQuery, offset: int = 0, limit: int = 50, other: SampleIndex | None = None
    ) -> dict[str, Any]:
        """Return a part of the list of samples, as the JSON of ``…/samples``.

        ``state`` is "ready", "indexing" (the run or the other one is being read), "searching" (the words are being
        indexed, for the first search) or "pairing" (the two runs are being paired); until it is ready, ``rows`` is
        empty. ``other`` is the baseline of flips.
        """
        return {"state": "indexing", "share": 0.0, "total": 0, "matching": 0, "rows": []}

    def row(self, n: int) -> ResultRow:
        """Return a sample by its line number, from 0; one beyond the last is an error."""
        raise RunError("the index is not written yet", where=str(self.folder))

    def scale(self, n: int, metric: str | None = None) -> MetricScale:
        """Return the scale by which a sample is right."""
        raise RunError("the index is not written yet", where=str(self.folder))

    def counterparts(self, n: int, other: SampleIndex) -> list[int]:
        """Return the line numbers of the samples of another run that are paired with this one; [] if there is none."""
        raise RunError("the index is not written yet", where=str(self.folder))

    def close(self) -> None:
        """End the thread, if one runs, and close the files."""
