"""pass@k: the chance that one of k generated programs passes the tests."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kshot.core.errors import DataError, UsageError
from kshot.core.protocols import Scorer
from kshot.core.records import Value
from kshot.metrics.metric import Metric
from kshot.sandbox import program as sandbox


class PassAtK(Metric):
    """Chance that at least one of k programs, drawn from the n generated ones, passes the tests of the reference.

    ``k`` is one number or several (in a spec: ``k=1+10``). The reference is test code, or a list of pieces of it, which
    uses the functions that the prediction defines. Program and tests run in a confined process each: see ``sandbox``.
    """

    bounds = (0.0, 100.0)
    grouped = True

    def __init__(
        self, k: int | Sequence[int] | None = None, timeout: float = 10.0, memory_mb: int = sandbox.MEMORY_MB
    ) -> None:
        self.k = (1,) if k is None else (k,) if isinstance(k, int) else tuple(k)
        if not self.k or min(self.k) < 1:
            raise UsageError(f"pass@k got k={k!r}", hint="Give one or more whole numbers from 1 up.")
        self.timeout, self.memory_mb = timeout, memory_mb

    @property
    def names(self) -> tuple[str, ...]:
        """``pass@k`` for every k."""
        return tuple(f"pass@{k}" for k in self.k)

    def with_k(self, k: int | Sequence[int]) -> PassAtK:
        """Return a copy of this metric with another k."""
        return type(self)(k, self.timeout, self.memory_mb)

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Value]:
        """Run all repeats of one sample against its tests."""
        programs = [prediction] if isinstance(prediction, str) else list(prediction)
        n, max_k = len(programs), max(self.k)
        if max_k > n:
            raise _too_few_programs(n, max_k)
        passed = self._passed(programs, _test_code(reference))
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


def programs_needed(metrics: Iterable[Scorer]) -> int:
    """Return how many replies to a sample the metrics need at least."""
    return max((max(metric.k) for metric in metrics if isinstance(metric, PassAtK)), default=1)


def check_programs(metrics: Iterable[Scorer]) -> None:
    """Refuse metrics that run programs where a run cannot confine them."""
    if any(isinstance(metric, PassAtK) or getattr(metric, "runs_programs", False) for metric in metrics):
        sandbox.check()


def _too_few_programs(n: int, k: int) -> DataError:
    return DataError(
        f"pass@{k} needs at least {k} programs for a sample and there are {n}", hint=f"Sample {k} or more."
    )


def _test_code(reference: Any) -> str:
    pieces = list(reference) if isinstance(reference, list | tuple) else [reference]
    if not pieces or not all(isinstance(piece, str) for piece in pieces):
        raise DataError(f"pass@k got the reference {reference!r}", hint="Give the test code as text.")
    return "\n".join(pieces)
