"""The meter of a run: it counts the task that runs now, and watchers read it when they show something."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from kshot.core.budget import Budget, Tries
from kshot.core.metric import Measure
from kshot.core.records import Outcome, Sample
from kshot.core.task import TaskResult
from kshot.core.watcher import MeterReading
from kshot.statistics.figures import figure, named_rule
from kshot.statistics.intervals import PERCENT, interval, wilson, within_scale
from kshot.statistics.resampling import Interval, are_numbers, is_mean, mean

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
        self._probed = budget.probed
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
            read, written, cost = self._spent()
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
            self._probed = self._budget.probed

    def _begin(self, result: TaskResult | None) -> None:
        self._result = result
        self._done = self._failed = self._recalled = 0
        read, written, cost = self._spent()
        asked = [now - before for now, before in zip(self._budget.probed, self._probed, strict=True)]
        self._before = (self._retries(), read - int(asked[0]), written - int(asked[1]), cost - asked[2])
        self._figure = RunningFigure(result)

    def _spent(self) -> tuple[int, int, float]:
        return (*self._budget.tokens, self._budget.cost)

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
