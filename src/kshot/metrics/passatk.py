"""pass@k: the chance that one of k generated programs passes the tests."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from kshot.core.errors import DataError, UsageError
from kshot.core.metric import Measure, Metric as AnyMetric, measure_names
from kshot.core.records import AskFailed, Failed, RequestGenerator, Sample, Target, reference
from kshot.core.task import Task
from kshot.metrics.metric import PERCENT, Metric
from kshot.sandbox import program as sandbox
from kshot.sandbox._tests_code import BrokenTests, TestsCode


class PassAtK(Metric):
    """Chance that at least one of k programs, drawn from the n generated ones, passes the tests of the reference.

    ``k`` is one number or several (in a spec: ``k=1+10``). The reference is test code, or a list of pieces of it, which
    uses the functions that the prediction defines. Program and tests run in a confined process each: see ``sandbox``.
    A sample without tests fails: a plain answer is code that every program passes.
    """

    def __init__(
        self, k: int | Sequence[int] | None = None, timeout: float = 10.0, memory_mb: int = sandbox.MEMORY_MB
    ) -> None:
        self.k = (1,) if k is None else (k,) if isinstance(k, int) else tuple(k)
        if not self.k or min(self.k) < 1:
            raise UsageError(f"pass@k got k={k!r}", hint="Give one or more whole numbers from 1 up.")
        self.timeout, self.memory_mb = timeout, memory_mb

    @property
    def measures(self) -> Sequence[Measure]:
        """``pass@k`` for every k."""
        return [Measure(f"pass@{k}", bounds=PERCENT, grouped=True) for k in self.k]

    def with_k(self, k: int | Sequence[int]) -> PassAtK:
        """Return a copy of this metric with another k."""
        return type(self)(k, self.timeout, self.memory_mb)

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Any] | RequestGenerator:
        """Rate the programs of a sample; one without a target is a failed sample."""
        if sample.target is None:
            raise _no_tests("the sample has no target")
        return super().score(sample, answer)

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Any]:
        """Run all repeats of one sample against its tests."""
        programs = [prediction] if isinstance(prediction, str) else list(prediction)
        n, max_k = len(programs), max(self.k)
        if max_k > n:
            raise _too_few_programs(n, max_k)
        tests = test_code(reference)
        if not _checks_something(tests):
            raise _no_tests(f"{tests!r:.60} checks nothing")
        passed = self._passed(programs, tests)
        correct = sum(passed[program] for program in programs)
        return {f"pass@{k}": 100 * self.estimate_pass_at_k(n, correct, k) for k in self.k}

    def _passed(self, programs: Sequence[str], tests: str) -> dict[str, bool]:
        distinct, unsafe = list(dict.fromkeys(programs)), sandbox.unsafe_allowed()

        def passes(program: str) -> bool:
            limits: dict[str, Any] = {"timeout": self.timeout, "memory_mb": self.memory_mb}
            return sandbox.run(program, tests, **limits, unsafe=unsafe).passed

        with ThreadPoolExecutor(min(len(distinct), os.cpu_count() or 1)) as pool:
            return dict(zip(distinct, pool.map(passes, distinct), strict=True))

    @staticmethod
    def estimate_pass_at_k(n: int, c: int, k: int) -> float:
        """Return the unbiased estimate when c of n programs pass: ``1 - C(n - c, k) / C(n, k)``."""
        if k > n:
            raise _too_few_programs(n, k)
        if n - c < k:
            return 1.0
        missed = 1.0
        for i in range(n - c + 1, n + 1):
            missed *= 1.0 - k / i
        return 1.0 - missed


def programs_needed(metrics: Iterable[AnyMetric]) -> int:
    """Return how many replies to a sample the metrics need at least."""
    return max((max(metric.k) for metric in metrics if isinstance(metric, PassAtK)), default=1)


def check_programs(metrics: Iterable[AnyMetric]) -> None:
    """Refuse metrics that run programs where a run cannot confine them."""
    if any(isinstance(metric, PassAtK) or getattr(metric, "runs_programs", False) for metric in metrics):
        sandbox.check()


def _too_few_programs(n: int, k: int) -> DataError:
    return DataError(
        f"pass@{k} needs at least {k} programs for a sample and there are {n}", hint=f"Sample {k} or more."
    )


def check_tests(task: Task[Any]) -> None:
    """Refuse pass@k if no sample of a task has tests; samples that can be read once only are not looked at."""
    if iter(task.samples) is not task.samples:
        check_targets(task.metrics, (sample.target for sample in task.samples), f"dataset {task.name}")


def check_targets(metrics: Iterable[AnyMetric], targets: Iterable[Target | None], where: str) -> None:
    """Refuse pass@k if its tests are the targets and none of these is one: it would run plain answers as programs."""
    own = [metric for metric in metrics if isinstance(metric, PassAtK)]
    names = measure_names(m for m in own if type(m).score is PassAtK.score and type(m).rate is PassAtK.rate)
    if not names:
        return
    first = None
    for target in targets:
        if _has_tests(target):
            return
        first = first or target
    shown = first and reference(first)
    raise UsageError(
        f"{names[0]} runs replies as programs and needs tests as targets; the first target is {shown!r:.60}",
        where=where,
        hint="For plain answers take a metric such as em; its mean over k replies is avg@k, with n=k in a config.",
    )


@contextmanager
def tests_of_sample() -> Iterator[None]:
    """Turn errors of unreadable tests into a failure of their sample alone."""
    try:
        yield
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise _no_tests(f"{type(error).__name__}: {error}") from error


def test_code(given: Any) -> str:
    """Return the tests of one sample as code: a text, or a list of them. Anything else fails the sample."""
    pieces = list(given) if isinstance(given, list | tuple) else [given]
    if not pieces or not all(isinstance(piece, str) for piece in pieces):
        raise _no_tests(f"{given!r:.60} is not test code")
    return "\n".join(pieces)


def _has_tests(target: Target | None) -> bool:
    try:
        return target is not None and _checks_something(test_code(reference(target)))
    except AskFailed:
        return False


def _checks_something(tests: str) -> bool:
    try:
        return TestsCode(tests).checks
    except BrokenTests as error:
        raise _no_tests(f"they are not Python code: {error}") from None


def _no_tests(why: str) -> AskFailed:
    return AskFailed(Failed("tests", f"pass@k needs tests: {why}"))
