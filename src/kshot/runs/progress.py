"""How far a run is, as a plain record: a terminal shows it, and ``progress.json`` has it for other programs."""

from __future__ import annotations

import json
import math
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timezone
from pathlib import Path
from time import monotonic
from typing import Any, Literal, TypeAlias, get_args

from kshot.core.durable import open_new
from kshot.core.errors import KshotError
from kshot.core.records import ResultRow
from kshot.core.text_files import parse_json, path_inside, read_at_most
from kshot.core.watcher import Meter, MeterReading, PlannedTask, Watcher

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
        known = [task.total for task in self.tasks if task.total is not None]
        return sum(known) if self.complete and len(known) == len(self.tasks) else None

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


_RATE_SECONDS = 30.0
_RATE_SAMPLES = 5
"""The rate is that of the last seconds, and of so many samples at least."""
_POINT_SECONDS = 1.0
_STOP_SECONDS = 2.0
_STORE_SECONDS = 1.0
_STORE_SHARE = 0.02
"""The file takes at most this share of a run's time, however many tasks it lists."""


class RecentRate:
    """Samples per second of late, by a clock that stands still between tasks."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque()  # when so many samples had been answered
        self._before: float | None = None

    def restart(self) -> None:
        """Forget the points, as for another model; the rate stays until there is a new one."""
        self._before = self.at(self._points[-1][0]) if self._points else self._before
        self._points.clear()

    def add(self, now: float, count: int) -> None:
        """Note how many samples are answered now."""
        points = self._points
        if points and (count == points[-1][1] or now - points[-1][0] < _POINT_SECONDS):
            return
        points.append((now, count))
        while len(points) > 2 and now - points[1][0] >= _RATE_SECONDS and count - points[1][1] >= _RATE_SAMPLES:  # noqa: PLR2004 - two points make a rate
            points.popleft()

    def at(self, now: float) -> float | None:
        """Return the rate. Answers may come in batches: it falls only if the next one is late."""
        if len(self._points) < 2:  # noqa: PLR2004 - two points make a rate
            return self._before
        (began, first), (latest, last) = self._points[0], self._points[-1]
        seconds = latest - began
        late = now - latest - seconds / (len(self._points) - 1)
        return (last - first) / (seconds + max(0.0, late))


class ProgressTracker(Watcher):
    """Keeps the state of a run. Several threads may use it."""

    def __init__(self, started: str | None = None, clock: Callable[[], float] = monotonic) -> None:
        """Take when the session began (default: now), and the clock that measures seconds."""
        self._clock, self._began = clock, clock()
        self._lock = threading.RLock()
        self._meter: Meter | None = None
        self._running: TaskProgress | None = None
        self._begun = 0
        self._called: dict[str, str] = {}  # the plan's name of each model that has begun, by the model's own
        self._rate = RecentRate()
        self._active_since: float | None = None
        self._active_seconds, self._fresh = 0.0, 0  # of the tasks before the running one
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._state = ProgressState(now if started is None else started)

    # ---- what happens ----

    def planned(self, tasks: Sequence[PlannedTask], meter: Meter, *, complete: bool) -> None:
        """Take what the run will do; one that waits for batches is begun again and again."""
        with self._lock:
            self._meter, self._running, self._begun, self._called = meter, None, 0, {}
            self._state.complete = complete
            self._state.tasks = [TaskProgress(each.task, each.model, each.total, each.group) for each in tasks]

    def begin(self, task: str, model: str, total: int | None) -> None:
        """Start a task: that of the plan, or one that the plan lacks."""
        with self._lock:
            self._end_running(complete=False)
            if model not in self._called:  # it may call itself otherwise than the plan, once it is open
                begun = self._called.values()
                waiting = [each.model for each in self._state.tasks[self._begun :] if each.model not in begun]
                self._called[model] = model if model in waiting else next(iter(waiting), model)
            found = self._planned(task, self._called[model])
            found.state, found.total = "running", total if total is not None else found.total
            self._running, self._active_since = found, self._clock()
            self._rate.add(self._active(), self._fresh)

    def finished(self, rows: Sequence[ResultRow]) -> None:
        """End the task that runs, with its final figure."""
        with self._lock:
            task = self._running
            self._end_running(complete=True)
            for row in rows if task is not None else ():
                if task is not None and (row["task"], row["metric"]) == (task.task, task.reading.metric):
                    ends = tuple(row["ci95"]) if row["ci95"] else None
                    task.reading = replace(task.reading, value=row["value"], interval=ends)

    def ended(self, results: Sequence[ResultRow], usage: Sequence[ResultRow]) -> None:  # noqa: ARG002 - the meter has them
        """End the run: what was planned and never came is none of its tasks."""
        with self._lock:
            self._state.tasks = [task for task in self._state.tasks if task.state == "done"]
            self._state.complete = True

    def step(self, label: str, done: int, total: int) -> None:
        """Take the progress of work that comes before a task."""
        with self._lock:
            self._state.step = None if done >= total else StepProgress(label, done, total)

    # ---- the state ----

    def state(self) -> ProgressState:
        """Return a copy of the state as it is now."""
        with self._lock:
            self._measure()
            state, now = self._state, self._clock()
            rate = self._rate.at(self._active())
            total = state.total
            left = None if rate is None or not rate or total is None else max(0, total - state.done) / rate
            return replace(
                state,
                elapsed=now - self._began,
                left=left,
                tasks=[replace(task, rate=rate) if task is self._running else replace(task) for task in state.tasks],
                step=None if state.step is None else replace(state.step),
            )

    def stopped_state(self) -> ProgressState:
        """Return the state of a run that has stopped: nothing goes on, so nobody knows how long the rest takes."""
        state = self.state()
        return replace(state, left=None, step=None, tasks=[replace(task, rate=None) for task in state.tasks])

    def _measure(self) -> None:
        """Read the meter."""
        task = self._running
        if task is None or self._meter is None:
            return
        task.reading = self._meter.read()
        ahead = task.reading.ahead - task.reading.ahead_recalled
        self._rate.add(self._active(), self._fresh + _asked(task) + ahead)

    def _active(self) -> float:
        since = self._active_since
        return self._active_seconds + (0.0 if since is None else self._clock() - since)

    def _end_running(self, *, complete: bool) -> None:
        """End the task that runs; one that is not complete waits for batches."""
        if self._running is None:
            return
        self._measure()
        self._active_seconds, self._active_since = self._active(), None
        self._fresh += _asked(self._running)
        self._running.state = "done" if complete else "waiting"
        if complete:
            self._running.total = self._running.reading.done
        self._running.reading = replace(self._running.reading, ahead=0, ahead_recalled=0)
        self._running = None

    def _planned(self, task: str, model: str) -> TaskProgress:
        """Return the entry of a task that begins; those that have begun stand before it."""
        tasks, at = self._state.tasks, self._begun
        last = tasks[at - 1].model if at else None
        if model != last:
            self._rate.restart()
        place = next((i for i in range(at, len(tasks)) if (tasks[i].task, tasks[i].model) == (task, model)), None)
        if place is None:
            tasks.insert(at, TaskProgress(task, model))
        else:
            del tasks[at:place]  # what stands before it and did not begin does not come any more
        self._begun += 1
        return tasks[at]


def _asked(task: TaskProgress) -> int:
    """Return how many samples were not simply recalled."""
    return task.reading.done - task.reading.recalled


class Ticker:
    """Calls a function again and again, in a thread of its own, until it is stopped."""

    def __init__(self, seconds: float, call: Callable[[], None]) -> None:
        """Take the seconds between two calls."""
        self._seconds, self._call = seconds, call
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kshot progress", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a call that is under way ends first, unless it hangs, as on a pipe that nobody reads."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            self._call()


class FolderProgress(ProgressTracker):
    """Stores the state in the run folder while a run is under way, so that other programs can show it.

    The file is nothing that a run depends on: if it cannot be written, nothing is said. A run that is done removes it;
    that of a run that was stopped or killed stays, and says when its session began.
    """

    def __init__(self, folder: Path, started: str, clock: Callable[[], float] = monotonic) -> None:
        """Take the run folder, and when its session began."""
        super().__init__(started, clock)
        self._path = folder / PROGRESS
        self._next = clock()
        self._ticker = Ticker(_STORE_SECONDS, self.store)

    def __enter__(self) -> FolderProgress:  # noqa: PYI034 - Self needs Python 3.11
        """Store the state from now on, once a second."""
        self.store()
        self._ticker.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Store where the run has stopped, or remove the file of a run that is done."""
        self._ticker.stop()
        with suppress(OSError, ValueError):
            if kind is None:
                self._path.unlink(missing_ok=True)
            elif self._path.parent.is_dir():
                self._write(self.stopped_state())

    def finished(self, rows: Sequence[ResultRow]) -> None:
        """End a task, and store that."""
        super().finished(rows)
        self.store()

    def store(self) -> None:
        """Write the file, unless writing it takes too much of the run's time."""
        with self._lock:
            began = self._clock()
            if began < self._next or not self._path.parent.is_dir():
                return
            with suppress(OSError, ValueError):
                self._write(self.state())
            self._next = began + (self._clock() - began) / _STORE_SHARE

    def _write(self, state: ProgressState) -> None:
        for task in state.tasks:  # a reader of the file would refuse longer names
            task.task, task.model = task.task[:MAX_CHARACTERS], task.model[:MAX_CHARACTERS]
            task.group = task.group[:MAX_CHARACTERS]
            task.reading = replace(task.reading, metric=task.reading.metric[:MAX_CHARACTERS])
        if state.step is not None:
            state.step.label = state.step.label[:MAX_CHARACTERS]
        text = json.dumps(state.as_json())
        draft = self._path.with_name(f".{PROGRESS}.draft")
        try:
            with open_new(draft) as file:
                file.write(text)
            draft.replace(self._path)
        except OSError:  # such as a full disk
            draft.unlink(missing_ok=True)
            raise
