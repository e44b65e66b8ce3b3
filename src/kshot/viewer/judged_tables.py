"""Samples judged by another metric than the headline: a table for each metric, made from the index when it is asked."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping

from kshot.runs.headline import TaskOnModel
from kshot.runs.sample_filters import MetricScale, SampleFilter
from kshot.viewer.index_file import JUDGED, Judged, indexed_samples, judged_row

_MOST_TABLES = 8


class JudgedTables:
    """The names of the tables of one connection, which has the index; the caller holds its lock."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Take a connection to an index."""
        self._connection = connection
        self._made: dict[str, str] = {}
        self._count = 0

    def of(self, metric: str | None, scales: Mapping[TaskOnModel, MetricScale]) -> str:
        """Return the table in which samples are judged by these scales, those of a metric; None: the headline."""
        if metric is None:
            return "main.judged"
        if metric not in self._made:
            if len(self._made) == _MOST_TABLES:
                self._connection.execute(f"DROP TABLE {self._made.pop(next(iter(self._made)))}")
            self._made[metric] = self._make(scales)
        return self._made[metric]

    def _make(self, scales: Mapping[TaskOnModel, MetricScale]) -> str:
        self._count += 1
        name = f"temp.judged_{self._count}"
        self._connection.execute("BEGIN")
        try:
            self._connection.execute(f"CREATE TABLE {name} {JUDGED}")
            rows = _judged(self._connection, SampleFilter(scales))
            self._connection.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
        return name


def _judged(connection: sqlite3.Connection, scales: SampleFilter) -> Iterator[Judged]:
    for each in indexed_samples(connection):
        scale = scales.scale(each.row)
        yield judged_row(each.n, each.codes, each.row, scale, each.answer(scale.metric))
