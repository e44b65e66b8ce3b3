"""Evaluators that run the programs in replies: MBPP, LeetCode, HumanEval, LiveCodeBench. See ``sandbox.program``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, TypeAlias

from kshot.configs.evaluators.basic import CompletedPrograms
from kshot.configs.evaluators.factories import Factory
from kshot.configs.evaluators.program_tests import (
    Case,
    completion,
    contest_case,
    contest_seconds,
    fenced,
    leetcode_programs,
    leetcode_tests,
    mbpp_program,
    of_same_kind,
)
from kshot.configs.evaluators.scores import text_of
from kshot.configs.evaluators.tallies import Counts, Tally, gold_of
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.metric import Measure
from kshot.core.records import Row, Sample
from kshot.metrics import Metric, PassAtK
from kshot.metrics.passatk import test_code, tests_of_sample
from kshot.sandbox import program as sandbox

Cases: TypeAlias = Callable[[Any, Row, str], tuple[list[Case], float]]
"""Makes of a reference, a row and a reply the programs of which one must pass, and how many seconds each has."""

_COUNTS = ("pass", "timeout", "failed", "wrong_answer")
_MBPP_SECONDS, _LEETCODE_SECONDS, _HUMANEVAL_SECONDS = 10.0, 10.0, 10.0
_CONTEST_SECONDS = 6.0


class PassedPrograms(Tally):
    """The share of programs that pass their tests, and how many do, take too long, fail, or give wrong answers."""

    name = mean = "score"
    runs_programs = True

    def __init__(self, kind: str, cases: Cases) -> None:
        self._kind, self._cases = kind, cases

    def __repr__(self) -> str:
        """Show which programs it runs."""
        return f"{type(self).__name__}({self._kind!r})"

    @property
    def names(self) -> tuple[str, ...]:
        """The share, then the counts."""
        return (self.name, *_COUNTS)

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Run the programs of one reply, and count what became of it."""
        outcome = _outcome(self._cases, sample, text_of(answer, self._kind))
        return tuple(float(name == outcome) for name in _COUNTS)

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return the share in percent, and the counts."""
        return {self.name: 100 * sums[0] / sum(sums), **dict(zip(_COUNTS, sums, strict=True))}


class PassedAtK(PassAtK):
    """pass@k of the programs in replies."""

    def __init__(self, kind: str, cases: Cases, k: int | Sequence[int] | None = None, prefix: str = "") -> None:
        super().__init__(k)
        self._kind, self._cases, self._prefix = kind, cases, prefix

    def __repr__(self) -> str:
        """Show which programs it runs."""
        return f"{type(self).__name__}({self._kind!r}, k={self.k!r})"

    @property
    def measures(self) -> Sequence[Measure]:
        """``pass@k`` for every k, after what the dataset puts before it."""
        return [replace(measure, name=f"{self._prefix}{measure}") for measure in super().measures]

    def with_k(self, k: int | Sequence[int]) -> PassAtK:
        """Return a copy of this metric with another k."""
        made = copy(self)
        made.k = PassAtK(k).k
        return made

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Any]:
        """Run the programs of every reply; equal ones run once."""
        replies = [text_of(each, self._kind) for each in answer]
        passed = {reply: _outcome(self._cases, sample, reply) == "pass" for reply in dict.fromkeys(replies)}
        right = sum(passed[reply] for reply in replies)
        values = [100 * self.estimate_pass_at_k(len(replies), right, k) for k in self.k]
        return dict(zip(map(str, self.measures), values, strict=True))


def _outcome(made: Cases, sample: Sample, reply: str) -> str:
    with tests_of_sample():
        cases, seconds = made(gold_of(sample), sample.fields, reply)
    return outcome_of(cases, seconds)


def outcome_of(cases: Sequence[Case], seconds: float) -> str:
    """Return ``pass`` if one of the programs passes, else what became of the first."""
    found = []
    for program, tests in cases:
        ran = sandbox.run(program, tests, timeout=seconds, unsafe=sandbox.unsafe_allowed())
        if ran.passed:
            return "pass"
        found.append("wrong_answer" if ran.failure == "wrong" else ran.failure or "failed")
    return found[0] if found else "failed"


def _mbpp(*, same_kind: bool) -> Cases:
    def cases(gold: Any, row: Row, reply: str) -> tuple[list[Case], float]:  # noqa: ARG001 - the reference has the tests
        tests = test_code(gold["test_list_2"] if isinstance(gold, Mapping) else gold)
        return [(mbpp_program(reply), of_same_kind(tests) if same_kind else tests)], _MBPP_SECONDS

    return cases


def _leetcode(gold: Any, row: Row, reply: str) -> tuple[list[Case], float]:  # noqa: ARG001 - the reference has the tests
    tests = test_code(gold["test_list_2"] if isinstance(gold, Mapping) else gold)
    programs = leetcode_programs(reply)
    return [(each, of_same_kind(leetcode_tests(each, tests))) for each in programs], _LEETCODE_SECONDS


def _humaneval(gold: Any, row: Row, reply: str) -> tuple[list[Case], float]:  # noqa: ARG001 - the row has the tests
    return [completion(row, reply)], _HUMANEVAL_SECONDS


def _contest(*, last: bool, seconds: float, same_kind: bool) -> Cases:
    def cases(gold: Any, row: Row, reply: str) -> tuple[list[Case], float]:  # noqa: ARG001 - the row has the tests
        if "evaluation_sample" not in row:
            raise DataError(
                "the rows have no column 'evaluation_sample'", hint="LiveCodeBench has its inputs and outputs there."
            )
        sample = json.loads(row["evaluation_sample"])
        case = contest_case(sample, fenced(reply, last=last), seconds, same_kind=same_kind)
        return [case], contest_seconds(sample, seconds)

    return cases


# ---- by name ----


def _is_opencompass(name: Name) -> bool:
    return name.framework != "ais_bench"


def mbpp_evaluator(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric | None:  # noqa: ARG001 - as every factory
    """Return the metric of MBPP's own tests; None where others are wanted."""
    if options.get("metric", "MBPP") != "MBPP":
        return None
    cases = _mbpp(same_kind=_is_opencompass(name))
    if name.last == "MBPPPassKEvaluator":
        return PassedAtK("MBPP", cases, options.get("k", (1, 10, 100)))
    return PassedPrograms("MBPP", cases)


def _leetcode_evaluator(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    if name.last == "LCPassKEvaluator":
        return PassedAtK("LeetCode", _leetcode, options.get("k", (1, 10, 100)))
    return PassedPrograms("LeetCode", _leetcode)


def _humaneval_evaluator(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    if not name.framework:  # kshot finds the function in a reply; the homes put the reply after the prompt, as it is
        return CompletedPrograms(options.get("k", 1))
    return PassedAtK("HumanEval", _humaneval, options.get("k", (1, 10, 100)), "humaneval_")


def _contest_evaluator(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    seconds = float(options.get("timeout", _CONTEST_SECONDS))
    last = options.get("extractor_version", "v1") == "v2"
    return PassedAtK("LiveCodeBench", _contest(last=last, seconds=seconds, same_kind=_is_opencompass(name)), 1)


EVALUATORS: dict[str, Factory] = {
    "MBPPPassKEvaluator": mbpp_evaluator,
    **dict.fromkeys(("LCEvaluator", "LCPassKEvaluator"), _leetcode_evaluator),
    **dict.fromkeys(("HumanEvalEvaluator", "HumanevalEvaluator", "HumanEvaluator"), _humaneval_evaluator),
    "LCBCodeGenerationEvaluator": _contest_evaluator,
}
