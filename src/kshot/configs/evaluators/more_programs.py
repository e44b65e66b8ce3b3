"""Evaluators that run programs of further datasets: HumanEval Pro and MBPP Pro, and CRUXEval's outputs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kshot.configs.evaluators.factories import Factory
from kshot.configs.evaluators.program_tests import Case
from kshot.configs.evaluators.programs import PassedAtK, outcome_of
from kshot.configs.evaluators.scores import RightOrWrong
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.records import Row, Sample
from kshot.metrics import Metric
from kshot.metrics.passatk import test_code

_BLOCK = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
_PRO_SECONDS, _OUTPUT_SECONDS = 10.0, 3.0


def _needed(row: Row, *names: str) -> list[str]:
    missing = [name for name in names if name not in row]
    if missing:
        raise DataError(f"the rows have no column {missing[0]!r}", hint=f"It needs {', '.join(names)}.")
    return [str(row[name]) for name in names]


def _two_problems(gold: Any, row: Row, reply: str) -> tuple[list[Case], float]:  # noqa: ARG001 - the row has the tests
    """Return the first code block of a reply, or all of it, with the tests of the row."""
    _needed(row, "test_code")
    block = _BLOCK.search(reply)
    return [(block[1] if block else reply, test_code(row["test_code"]))], _PRO_SECONDS


class SaidOutput(RightOrWrong):
    """Share of replies that are what a function returns for an input; one that calls it is wrong (CRUXEval)."""

    runs_programs = True

    def __init__(self, timeout: float = _OUTPUT_SECONDS) -> None:
        super().__init__("CRUXEval-O")
        self.timeout = timeout

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Any]:
        """Run the comparison."""
        code, given, output = _needed(sample.fields, "code", "input", "output")
        replies = [str(each) for each in (answer if isinstance(answer, (list, tuple)) else [answer])]
        cases = [(f"{code}\nassert {output} == {reply}", "pass") for reply in replies if f"f({given})" not in reply]
        return {self.name: 100.0 * (outcome_of(cases, self.timeout) == "pass")}


def _pro(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - the home's service is not asked
    return PassedAtK(name.last.removesuffix("Evaluator"), _two_problems, 1)


def _outputs(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:  # noqa: ARG001 - as every factory
    return SaidOutput(**options)


EVALUATORS: dict[str, Factory] = {
    **dict.fromkeys(("HumanevalProEvaluator", "MBPPProEvaluator"), _pro),
    "CRUXEvalOEvaluator": _outputs,
}
