"""How far a run is, as a plain record: a terminal shows it, and ``progress.json`` has it for other programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from kshot.core.errors import KshotError
from kshot.core.text_files import parse_json, path_inside, read_at_most
from kshot.core.watcher import MeterReading

PROGRESS = "progress.json"
"""The file of a run folder that says how far its run is, or was when it stopped; a run that is done removes it."""

TaskState: TypeAlias = Literal["waiting", "running", "done"]

_MAX_BYTES = 64 << 20
_MAX_COUNT = 2**53
MAX_CHARACTERS = 4096
"""No name and no label is longer in a file that kshot wrote."""


@dataclass(slots=True)
class TaskProgress:
    """One task on one model. ``total`` is the number of its samples; None: it is not known.

    ``group`` is the dataset that it is a subset of, or "". ``reading`` is what the meter of this session said last.
    ``rate``: samples per second of late, without those that were recalled.
    """

    task: str
    model: str
    total: int | None = None
    group: str = ""
    state: TaskState = "waiting"
    reading: MeterReading = field(default_factory=MeterReading)
    rate: float | None = None


@dataclass(slots=True)
class StepProgress:
    """Work that comes before a task, such as building an index."""

    label: str
    done: int
    total: int


@dataclass(slots=True)
class ProgressState:
    """A run that is under way: its tasks in their order, each with its model, and what comes before a task.

    ``started`` is when this session began (ISO, UTC), as in ``spec.json``; ``elapsed`` the seconds from then to this
    state. ``complete``: all tasks of the run are listed; without it, others follow. ``left``: the seconds that the rest
    will take if it goes on as of late; None: nobody knows.
    """

    started: str
    elapsed: float = 0.0
    complete: bool = False
    left: float | None = None
    tasks: list[TaskProgress] = field(default_factory=list)
    step: StepProgress | None = None

    @property
    def done(self) -> int:
        """The samples that are answered or have failed."""
        return sum(task.reading.done + task.reading.ahead for task in self.tasks)

    @property
    def failed(self) -> int:
        """The samples that have failed."""
        return sum(task.reading.failed for task in self.tasks)

    @property
    def total(self) -> int | None:
        """The samples of all tasks and models; None where that is not known."""
        totals = [task.total for task in self.tasks]
        known = [total for total in totals if total is not None]
        return sum(known) if self.complete and len(known) == len(totals) else None

    def as_json(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> ProgressState:
        """Read what ``as_json`` gave; anything else is a ``ValueError``."""
        given = _record(cls, value)
        tasks = given.pop("tasks")
        if not isinstance(tasks, list):
            raise ValueError("tasks is not a list")  # noqa: TRY004 - whatever is wrong with a file is a ValueError
        step = given.pop("step")
        state = cls(
            started=_time(given.pop("started")),
            complete=_flag(given.pop("complete")),
            elapsed=_number(given.pop("elapsed")) or 0.0,
            left=_number(given.pop("left")),
        )
        state.tasks = [_task(each) for each in tasks]
        if step is not None:
            read = _record(StepProgress, step)
            state.step = StepProgress(_text(read["label"]), _count(read["done"]), _count(read["total"]))
        return state


def read_progress(folder: Path) -> ProgressState | None:
    """Return the progress that a run folder has recorded; None if it has none, or nothing that can be read."""
    try:
        return ProgressState.from_json(parse_json(read_at_most(path_inside(folder, PROGRESS), _MAX_BYTES)))
    except (OSError, ValueError, KshotError):
        return None


# ---- reading what strangers may have written ----

_COUNTS = ("done", "recalled", "failed", "retried", "prompt_tokens", "completion_tokens", "scored")
_AHEAD = ("ahead", "ahead_recalled")


def _task(value: Any) -> TaskProgress:
    given = _record(TaskProgress, value)
    if given["state"] not in get_args(TaskState):
        raise ValueError(f"state is {given['state']!r:.40}")
    total, rate = given["total"], _number(given["rate"], least=-math.inf)
    labels = {name: _text(given[name]) for name in ("task", "model", "group")}
    total = None if total is None else _count(total)
    return TaskProgress(**labels, total=total, state=given["state"], reading=_reading(given["reading"]), rate=rate)


def _reading(value: Any) -> MeterReading:
    later = {"workers": "", "rule": "", **dict.fromkeys(_AHEAD, 0)}  # what earlier versions did not write
    given = _record(MeterReading, {**later, **value} if isinstance(value, Mapping) else value)
    read: dict[str, Any] = {name: _count(given[name]) for name in (*_COUNTS, *_AHEAD)}
    read |= {name: _number(given[name], least=-math.inf) for name in ("cost_usd", "value")}
    read |= {name: _text(given[name]) for name in ("metric", "rule", "workers")}
    return MeterReading(**read, interval=_interval(given["interval"]))


def _interval(value: Any) -> tuple[float, float] | None:
    if value is None:
        return None
    ends = [_number(end, least=-math.inf) for end in value] if isinstance(value, (list, tuple)) else []
    if len(ends) != 2 or ends[0] is None or ends[1] is None:  # noqa: PLR2004 - an interval has two ends
        raise ValueError(f"{value!r:.40} is no interval")
    return ends[0], ends[1]


def _record(cls: type, value: Any) -> dict[str, Any]:
    """Return the fields of a record, all of which must be there; others, of a later version, are left out."""
    names = [each.name for each in fields(cls)]
    if not isinstance(value, Mapping) or not all(name in value for name in names):
        raise ValueError(f"it is no {cls.__name__}")
    return {name: value[name] for name in names}


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > MAX_CHARACTERS:
        raise ValueError("it is no short text")
    return value


def _time(value: Any) -> str:
    if datetime.fromisoformat(_text(value)).tzinfo is None:
        raise ValueError(f"{value!r:.40} has no time zone")
    return str(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r:.40} is neither true nor false")  # noqa: TRY004 - as above
    return value


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _MAX_COUNT:
        raise ValueError(f"{value!r:.40} is no count")
    return value


def _number(value: Any, *, least: float = 0.0) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not least <= value <= _MAX_COUNT or not math.isfinite(value):
        raise ValueError(f"{value!r:.40} is no number")
    return float(value)
