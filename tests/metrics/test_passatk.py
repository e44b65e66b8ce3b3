from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, strategies as st

import kshot
from kshot.core.errors import DataError, UsageError
from kshot.core.metric import Metric as AnyMetric
from kshot.core.records import Answers, AskFailed, Gold, Sample
from kshot.metrics import Em, PassAtK
from kshot.sandbox import program as sandbox
from tests.datasets.fakes import generation, says, values
from tests.measures import measure, names

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
    assert names(PassAtK()) == ("pass@1",)
    assert names(PassAtK([1, 5])) == ("pass@1", "pass@5")
    metric = PassAtK(timeout=2.0, memory_mb=300).with_k((1, 10))
    assert (names(metric), metric.timeout, metric.memory_mb) == (("pass@1", "pass@10"), 2.0, 300)
    assert measure(metric).grouped
    assert isinstance(metric, AnyMetric)
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


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (3, "3 is not test code"),
        (None, "None is not test code"),
        ([], r"\[\] is not test code"),
        (["assert f(1) == 2", None], "is not test code"),
        ("assert f(", "not Python code: SyntaxError"),
        ("4", "'4' checks nothing"),
        (["4", "four"], "checks nothing"),
        ("Paris", "checks nothing"),
        ("[1, 2]", "checks nothing"),
        ("print(4)", "checks nothing"),
        ("", "checks nothing"),
        ("import math\ndef f(x):\n    return math.floor(x)\nf(1)", "checks nothing"),
    ],
)
def test_a_reference_without_tests_fails_its_sample(target, said):
    with pytest.raises(AskFailed, match=f"pass@k needs tests: .*{said}"):
        PassAtK()([(GOOD,)], [target])


@pytest.mark.parametrize(
    "tests",
    [
        TESTS,
        "def check(g):\n    assert g(1) == 2\ncheck(f)",
        "from program import f\nif f(1) != 2:\n    raise ValueError",
        "f(1)",
        "import unittest\nunittest.TestCase().assertEqual(f(1), 2)",
    ],
)
def test_what_counts_as_tests(tests):
    assert PassAtK(timeout=60.0)([(GOOD,)], [tests]) == {"pass@1": 100.0}


@pytest.mark.parametrize(
    ("metrics", "options"),
    [
        ([Em()], {"metric": ["em,passatk"]}),
        ([Em()], {"metric": ["passatk,k=1+2"], "sample_num": 2}),
        ([Em(), PassAtK()], {}),
        (["em", "passatk,k=2"], {"sample_num": 4}),
        ([PassAtK()], {"pass_at_k": [1, 4], "sample_num": 4}),
    ],
)
@pytest.mark.parametrize("targets", [("4", "5"), (["4", "four"], ["5"]), (4, 5), (None, "5"), ("a b", "c d")])
def test_plain_answers_are_not_run_as_programs(metrics, options, targets):
    model = says("5")
    rows = [{"q": f"question {target}", "target": target} for target in targets]
    with pytest.raises(
        UsageError, match=r"dataset mine: pass@\d .*needs tests as targets; the first target is .*avg@k"
    ):
        kshot.evaluate(model, generation(rows, metrics=metrics), **options)
    assert model.asked == []


@pytest.mark.parametrize("target", ["assert (", "4", 4, None, {"tests": TESTS}])
def test_a_sample_without_tests_is_one_failed_sample(target):
    rows = [{"q": "one", "target": TESTS}, {"q": "two", "target": target}, {"q": "three", "target": "assert f(1) == 3"}]
    result = kshot.evaluate(says(GOOD), generation(rows, metrics=[PassAtK(timeout=60.0)]))
    (row,) = result.results
    assert (row["n"], row["failed"], row["value"]) == (2, 1, 50.0)
    assert result.samples[1]["failed"].startswith("tests: pass@k needs tests: ")


def test_a_subclass_may_have_its_tests_elsewhere():
    class ByRow(PassAtK):
        def score(self, sample, answer):
            return self.rate(answer, sample.fields["test"])

    rows = [{"q": "one", "target": "4", "test": TESTS}]
    assert values(kshot.evaluate(says(GOOD), generation(rows, metrics=[ByRow(timeout=60.0)]))) == {
        "mine": {"pass@1": 100.0}
    }
