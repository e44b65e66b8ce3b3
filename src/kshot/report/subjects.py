"""Subjects that the terminal and pages show alike: one more is a module with a ``Subject``, and a line below."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TypeAlias, cast

from kshot.core.records import ResultRow
from kshot.report.view import TableView
from kshot.runs.record import RunRecord

SUBJECTS = ("kshot.report.sweeps:SWEEPS",)
"""In the order in which they are shown."""

Places: TypeAlias = Callable[[ResultRow], str | None]
"""Returns where a row of a record stands in ``summary.json``, for pages."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is shown of a run: ``views`` returns its tables, with their charts; a run of which there are none has none.

    ``title`` is the heading of the section on pages, and ``id`` its anchor. ``sentences`` say what the tables show.
    """

    id: str
    title: Callable[[Sequence[TableView]], str]
    views: Callable[[RunRecord, Places], Iterable[TableView]]
    sentences: Callable[[RunRecord], Iterable[str]] = lambda _: ()


def every_subject() -> Iterator[Subject]:
    """Yield all subjects; their modules are imported when they are needed."""
    for place in SUBJECTS:
        module, _, name = place.partition(":")
        yield cast("Subject", getattr(import_module(module), name))
