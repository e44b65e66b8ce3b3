from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshot.core.errors import DataError, UsageError
from kshot.core.protocols import Scorer
from kshot.core.records import Answers, Gold, Sample
from kshot.metrics import PassAtK
from kshot.sandbox import program as sandbox

GOOD, BAD, EXITS = "def f(x):\n    return x + 1", "def f(x):\n    return x", "import sys\nsys.exit(0)"
TESTS = "assert f(1) == 2"


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_the_estimate_is_the_share_of_subsets_with_a_pass(nck):
    n, c, k = nck
    draws = list(combinations([True] * c + [False] * (n - c), k))
    assert PassAtK.estimate_pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws), abs=1e-12)


def test_k_above_n_is_an_error():
    with pytest.raises(DataError, match="pass@5 needs at least 5 programs"):
        PassAtK.estimate_pass_at_k(4, 4, 5)
    with pytest.raises(DataError, match="pass@2"):
        PassAtK(2)([(GOOD,)], [TESTS])


def test_names_and_copies():
    assert PassAtK().names == ("pass@1",)
    assert PassAtK([1, 5]).names == ("pass@1", "pass@5")
    metric = PassAtK(timeout=2.0, memory_mb=300).with_k((1, 10))
    assert (metric.names, metric.timeout, metric.memory_mb) == (("pass@1", "pass@10"), 2.0, 300)
    assert PassAtK.grouped
    assert isinstance(metric, Scorer)
    for wrong in (0, [], [1, -1]):
        with pytest.raises(UsageError):
            PassAtK(wrong)


def test_programs_are_run():
    metric = PassAtK((1, 2), timeout=60.0)
    sample = Sample("s", {}, Gold(TESTS))
    assert metric.score(sample, (GOOD, BAD)) == {"pass@1": 50.0, "pass@2": 100.0}
    assert metric.score(sample, (BAD, EXITS)) == {"pass@1": 0.0, "pass@2": 0.0}
    assert PassAtK().score(Sample("s", {}, Answers((TESTS,))), GOOD) == {"pass@1": 100.0}


def test_equal_programs_are_run_once(monkeypatch):
    ran = []

    def run(program, tests, **limits):
        ran.append((program, tests))
        return sandbox.ProgramOutcome(passed=True, reason="")

    monkeypatch.setattr(sandbox, "run", run)
    assert PassAtK(3)([(GOOD, GOOD, BAD)], [TESTS]) == {"pass@3": 100.0}
    assert sorted(ran) == sorted([(GOOD, TESTS), (BAD, TESTS)])


def test_a_reference_without_code():
    with pytest.raises(DataError, match="test code"):
        PassAtK()([(GOOD,)], [3])
