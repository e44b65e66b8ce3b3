"""Watchers of a run, and the meter that they read when they show something."""

from __future__ import annotations

import threading
import warnings
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from kshot.core import interrupts
from kshot.core.budget import Budget, LimitReached, Tries
from kshot.core.copies import own_copy
from kshot.core.errors import UsageError
from kshot.core.metric import Measure
from kshot.core.records import Outcome, ResultRow, Sample
from kshot.core.task import TaskResult
from kshot.core.visible import one_line
from kshot.core.watcher import Meter, MeterReading, PlannedTask, RunEnd, Watcher, looks_at
from kshot.statistics.figures import figure, named_rule
from kshot.statistics.intervals import PERCENT, interval, wilson, within_scale
from kshot.statistics.resampling import Interval, are_numbers, is_mean, mean


class SilentWatcher(Watcher):
    """A watcher that shows nothing."""


class Watchers(Watcher):
    """Several watchers as one: each is told everything, in this order, until one of them raises an error.

    Each gets copies of its own: whatever a watcher does with a row, the run and the other watchers do not see it.
    """

    def __init__(self, *watchers: Watcher | None) -> None:
        """Take the watchers; None stands for one that is not there."""
        self._all: tuple[Watcher, ...] = ()
        for each in watchers:
            if each is not None:
                self._all += each._all if isinstance(each, Watchers) else (each,)  # noqa: SLF001 - of this class
        # Most watchers leave single samples alone: a sample costs nothing for them.
        self._at_answers = [each.answered for each in self._all if looks_at(each, "answered")]
        self._at_scores = [each.scored for each in self._all if looks_at(each, "scored")]

    def started(self, settings: Mapping[str, Any], path: Path | None) -> None:
        """Tell all that the run starts."""
        for watcher in self._all:
            watcher.started(own_copy(settings), path)

    def planned(self, tasks: Sequence[PlannedTask], meter: Meter, *, complete: bool) -> None:
        """Tell all what the run will do."""
        for watcher in self._all:
            watcher.planned(tuple(tasks), meter, complete=complete)

    def begin(self, task: str, model: str, total: int | None) -> None:
        """Tell all that a task starts."""
        for watcher in self._all:
            watcher.begin(task, model, total)

    def answered(self, outcome: Outcome[Sample]) -> None:
        """Tell all that a sample is answered."""
        for tell in self._at_answers:
            tell(own_copy(outcome))

    def scored(self, row: ResultRow) -> None:
        """Tell all that a sample is scored."""
        for tell in self._at_scores:
            tell(own_copy(row))

    def finished(self, rows: Sequence[ResultRow]) -> None:
        """Tell all that a task is done."""
        for watcher in self._all:
            watcher.finished(own_copy(rows))

    def ended(self, results: Sequence[ResultRow], usage: Sequence[ResultRow]) -> None:
        """Tell all that the run is done."""
        for watcher in self._all:
            watcher.ended(own_copy(results), own_copy(usage))

    def closed(self, state: RunEnd, error: BaseException | None) -> None:
        """Tell all that the run is over. Each may have something to close: the first error is raised after that."""
        first: BaseException | None = None
        for watcher in self._all:
            try:
                watcher.closed(state, error)
            except BaseException as exc:  # noqa: BLE001, PERF203 - it is raised when all are closed
                first = exc if first is None else first
        if first is not None:
            raise first

    def note(self, text: str) -> None:
        """Show a note on all."""
        for watcher in self._all:
            watcher.note(text)

    def step(self, label: str, done: int, total: int) -> None:
        """Show a step on all."""
        for watcher in self._all:
            watcher.step(label, done, total)


@contextmanager
def closing_for(watcher: Watcher) -> Iterator[None]:
    """Tell the watcher how the run of this block ends. The error that ends the run is raised, not one of the end."""
    try:
        yield
    except BaseException as exc:
        signalled = isinstance(exc, KeyboardInterrupt) or interrupts.received() is not None
        try:
            watcher.closed("stopped" if signalled or isinstance(exc, LimitReached) else "failed", exc)
        except Exception as late:  # noqa: BLE001 - a watcher may raise anything
            warnings.warn(f"a watcher was not closed: {type(late).__name__}: {one_line(late)}", stacklevel=2)
        raise
    watcher.closed("done", None)


class ShownLogger(Watcher, Protocol):
    """A logger of a run, as ``loggers`` makes it: it tells on another watcher what the run waits for."""

    notes: list[str]
    """What the user is to know of it at the end."""

    def show_on(self, watcher: Watcher, /) -> None:
        """Tell it on this watcher."""
        ...


@contextmanager
def following(watcher: Watcher | Sequence[Watcher] | None, loggers: Sequence[ShownLogger]) -> Iterator[Watchers]:
    """Give the watchers and loggers of a user as one, and tell all of them how the run of this block ends."""
    shown = Watchers(*given_watchers(watcher))
    for logger in loggers:
        logger.show_on(shown)
    watching = Watchers(shown, *loggers)
    with closing_for(watching):
        yield watching


def given_watchers(watcher: Watcher | Sequence[Watcher] | None) -> list[Watcher]:
    """Return the watchers that a user gives: none, one or several."""
    if watcher is None:
        return []
    given: list[Any] = list(watcher) if isinstance(watcher, (list, tuple)) else [watcher]
    for each in given:
        if Watcher not in type(each).__mro__:
            raise UsageError(f"watcher is {each!r:.60}; it must be an object of a class that inherits kshot.Watcher")
    return given


_GROWTH = 1.25
"""What takes all values is computed again when there are so many times as many."""


class RunMeter:
    """Counts samples as they are answered, and reads the rest where a run has it: scores, tokens, cost, retries."""

    def __init__(self, budget: Budget) -> None:
        """Take the budget, which counts the tokens of all answers."""
        self._budget = budget
        self._tries: list[Tries] = []
        self._activity: Callable[[], str] | None = None
        self._lock = threading.Lock()
        self._ahead = self._ahead_recalled = 0
        self._probed = budget.tokens(of_probes=True)
        self._begin(None)

    def follow_tries(self, tries: Tries) -> None:
        """Count what a server is sent again from now on."""
        if not any(tries is each for each in self._tries):
            self._tries.append(tries)

    def follow_workers(self, activity: Callable[[], str] | None) -> None:
        """Read what the workers of the evaluated model do from here, if it has some."""
        self._activity = activity

    def begin(self, result: TaskResult, early: Sequence[Outcome[Sample]] = ()) -> None:
        """Count the task of this result from now on; ``early``: its samples that were answered ahead."""
        with self._lock:
            self._begin(result)
            self._ahead -= len(early)
            self._ahead_recalled -= sum(outcome.recalled for outcome in early)
            for outcome in early:
                self.answered(outcome)

    def answered_ahead(self, outcome: Outcome[Sample]) -> None:
        """Count a sample of a task that follows."""
        self._ahead += 1
        self._ahead_recalled += outcome.recalled

    def answered(self, outcome: Outcome[Sample]) -> None:
        """Count a sample of the task that runs now."""
        self._done += 1
        if outcome.recalled:
            self._recalled += 1
        if outcome.failed:
            self._failed += 1

    def read(self) -> MeterReading:
        """Return the counts of the task that runs now, or of the last one."""
        with self._lock:
            result = self._result
            name, rule, n, value, found = "", "", 0, None, None
            if result is not None:
                name, rule = self._figure.name, self._figure.rule
                with suppress(Exception):  # a plug-in may raise anything; the run itself will tell what is wrong
                    n, value, found = self._figure.read(result)
            read, written, cost = self._budget.tokens()
            return MeterReading(
                done=self._done,
                recalled=self._recalled,
                failed=max(self._failed, 0 if result is None else result.failed),  # judges fail later than answers
                retried=self._retries() - self._before[0],
                prompt_tokens=read - self._before[1],
                completion_tokens=written - self._before[2],
                cost_usd=max(0.0, cost - self._before[3]) if self._budget.priced else None,
                metric=name,
                rule=rule,
                scored=n,
                value=value,
                interval=found,
                workers="" if self._activity is None else self._activity(),
                ahead=self._ahead,
                ahead_recalled=self._ahead_recalled,
            )

    def end(self) -> None:
        """End a task: probes from now on count to the next one."""
        with self._lock:
            self._probed = self._budget.tokens(of_probes=True)

    def _begin(self, result: TaskResult | None) -> None:
        self._result = result
        self._done = self._failed = self._recalled = 0
        (read, written, cost), probed = self._budget.tokens(), self._budget.tokens(of_probes=True)
        asked = [now - before for now, before in zip(probed, self._probed, strict=True)]
        self._before = (self._retries(), read - int(asked[0]), written - int(asked[1]), cost - asked[2])
        self._figure = RunningFigure(result)

    def _retries(self) -> int:
        return sum(tries.retries for tries in self._tries)


class RunningFigure:
    """The figure of a task's first metric over the values that there are; each new value is looked at once.

    It is what the final figure would be, with the same interval. The interval of graded answers, and a figure that is
    not a mean, take all values, so they are computed rarely; the latter has no interval, since that takes a bootstrap.
    """

    def __init__(self, result: TaskResult | None) -> None:
        """Find the first measure that is more than a detail."""
        metrics = result.task.metrics if result is not None else ()
        every = (measure for metric in metrics for measure in metric.measures)
        self._measure = next((measure for measure in every if not measure.detail), None)
        self.name = "" if self._measure is None else self._measure.name
        self.rule = "" if self._measure is None else named_rule(self._measure).get("rule", "")
        self._n = self._lows = self._highs = 0
        self._sum = 0.0
        self._checked = 0
        self._is_mean = False
        self._value: float | None = None
        self._found: Interval | None = None

    def read(self, result: TaskResult) -> tuple[int, float | None, Interval | None]:
        """Return how many values there are, their figure and its interval."""
        values = result.values.get(self.name)
        if self._measure is None or not values:
            return 0, None, None
        if isinstance(values, array):
            self._add(values[self._n :])
        n = self._n or len(values)
        if n >= self._checked * _GROWTH:
            self._check(result, values[:n], self._measure)
            self._checked = n
        if not self._is_mean:
            return n, self._value, None
        if not self._is_right_or_wrong(self._measure):
            return n, self._sum / n, self._found
        (low, high), (below, above) = self._measure.bounds or PERCENT, wilson(self._highs, n)
        return n, self._sum / n, (low + (high - low) / 100 * below, low + (high - low) / 100 * above)

    def _add(self, new: Sequence[float]) -> None:
        """Add values, which another thread may have appended just now."""
        low, high = (self._measure.bounds if self._measure is not None else None) or PERCENT
        self._n += len(new)
        self._lows += sum(value == low for value in new)
        self._highs += sum(value == high for value in new)
        self._sum += sum(new)  # beyond all floats it is infinite, where fsum raises

    def _check(self, result: TaskResult, values: Sequence[Any], measure: Measure) -> None:
        """Compute the figure from all values, as at the end, and find out whether it is their mean."""

        def reduce(some: Sequence[Any]) -> float | None:
            return figure(measure, f"dataset {result.task.name}", some)

        self._is_mean = are_numbers(values) and is_mean(reduce, values)
        self._value, self._found = reduce(values), None
        if self._is_mean and not self._is_right_or_wrong(measure):
            found = interval(values, mean, bounds=measure.bounds, binary=measure.binary)
            cut = within_scale(found, measure, values)
            self._found = None if cut is None else (cut[0], cut[1])

    def _is_right_or_wrong(self, measure: Measure) -> bool:
        return (measure.binary or measure.bounds is None) and self._lows + self._highs == self._n
