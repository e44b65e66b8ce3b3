"""Evaluators that run programs of further datasets."""

import sys
from types import ModuleType

import pytest

from kshot.configs.evaluators import programs
from kshot.configs.evaluators.programs import longest_code, target_code
from kshot.core.errors import DataError, UsageError
from tests.configs.scored import figures

TWO = "```python\ndef f(x):\n    return x\n\ndef g(x):\n    return f(f(x))\n```"


@pytest.mark.parametrize("evaluator", ["HumanevalProEvaluator", "MBPPProEvaluator"])
def test_the_first_block_runs_with_the_tests_of_the_row(evaluator):
    rows = [{"test_code": f"assert g(1) == {wanted}"} for wanted in (1, 2)]
    found = figures({"type": evaluator, "ip_address": "x"}, [f"Here:\n{TWO}\n```\nelse\n```"] * 2, ["", ""], rows=rows)
    assert found == {"pass@1": 50.0}
    with pytest.raises(DataError, match="no column 'test_code'"):
        figures({"type": evaluator}, [TWO], [""], rows=[{}])


def test_outputs_of_functions():
    row = {"code": "def f(x):\n    return [x]", "input": "1", "output": "[1]"}
    replies = ["[1]", "[2]", "f(1)", "[1"]
    assert figures({"type": "CRUXEvalOEvaluator"}, replies, ["[1]"] * 4, rows=[row] * 4) == {"CRUXEval-O": 25.0}


# ---- BigCodeBench ----

UNIT_TESTS = """
import unittest

class TestCases(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(task_func(1, 2), 3)
"""
BIG = {
    "test": UNIT_TESTS,
    "entry_point": "task_func",
    "code_prompt": "import math\ndef task_func(a, b):",
    "complete_prompt": 'import math\ndef task_func(a, b):\n    """Add."""\n',
}
ADDED = """Sure, here it is:
```python
import math

ONE = 1

def helper(x):
    return math.floor(x)

def other():
    return ONE

def task_func(a, b):
    return helper(a + b)

print(task_func(1, 2))
```
I hope that it helps."""


def test_the_code_of_a_reply_is_its_longest_run_of_lines_that_is_python():
    assert longest_code("So:\nx = 1\ny = 2\nthat was all of it") == "x = 1\ny = 2"
    assert longest_code("nothing at all") == "nothing at all"
    code = target_code(ADDED, "task_func")
    assert "import math" in code
    assert "def helper" in code
    assert "def other" not in code
    assert "ONE" not in code
    assert "print" not in code


@pytest.mark.parametrize(
    ("kind", "reply", "score"),
    [
        ("instruct", ADDED, 100.0),
        ("instruct", "def task_func(a, b):\n    return a - b", 0.0),
        ("instruct", "I do not know.", 0.0),
        ("complete", "    return a + b\n", 100.0),
        ("complete", "    raise SystemExit(0)\n", 0.0),
    ],
)
def test_unit_tests_of_the_row_judge_the_function(kind, reply, score):
    config = {"type": "BigCodeBenchEvaluator", "eval_type": kind, "remote_execute_api": "https://example.org"}
    assert figures(config, [reply], [UNIT_TESTS], rows=[BIG]) == {"pass@1": score}


def test_rows_without_an_entry_point_are_told():
    with pytest.raises(DataError, match="no column 'entry_point'"):
        figures({"type": "BigCodeBenchEvaluator"}, ["x"], [UNIT_TESTS], rows=[{"test": UNIT_TESTS}])


# ---- HumanEval+ and MBPP+ ----


@pytest.fixture
def plus_problems(monkeypatch):
    def problem(name, solution, *inputs, atol=0):
        parts = {"entry_point": name, "prompt": "", "canonical_solution": solution, "atol": atol}
        return {**parts, "base_input": inputs[:1], "plus_input": inputs[1:]}

    data = ModuleType("evalplus.data")
    data.get_human_eval_plus = lambda: {
        "HumanEval/0": problem("half", "def half(x):\n    return x / 2\n", [1], [float("inf")], [3.0]),
        "HumanEval/32": problem("find_zero", "def find_zero(xs):\n    return -xs[0] / xs[1]\n", [[1, 2]], atol=1e-4),
    }
    data.get_mbpp_plus = lambda: {
        "Mbpp/2": problem(
            "similar_elements", "def similar_elements(a, b):\n    return (*{*a} & {*b},)\n", [(3, 4), (4, 3)]
        )
    }
    programs._problems.cache_clear()
    monkeypatch.setitem(sys.modules, "evalplus", ModuleType("evalplus"))
    monkeypatch.setitem(sys.modules, "evalplus.data", data)
    yield
    programs._problems.cache_clear()


@pytest.mark.usefixtures("plus_problems")
@pytest.mark.parametrize(
    ("task", "reply", "score"),
    [
        ("HumanEval/0", "def half(x):\n    return x * 0.5", 100.0),
        ("HumanEval/0", "def half(x):\n    return x * 0.5 + 1e-9", 100.0),
        ("HumanEval/0", "def half(x):\n    return x // 2", 0.0),
        ("HumanEval/32", "def find_zero(xs):\n    return -0.50001", 100.0),
        ("HumanEval/32", "def find_zero(xs):\n    return 0.5", 0.0),
    ],
)
def test_functions_are_compared_with_the_reference_solution(task, reply, score):
    found = figures({"type": "HumanEvalPlusEvaluator"}, [reply], [task], rows=[{"prompt": ""}])
    assert found == {"humaneval_plus_pass@1": score}


@pytest.mark.usefixtures("plus_problems")
@pytest.mark.parametrize(("result", "score"), [("[4, 3]", 100.0), ("[4]", 0.0)])
def test_some_results_of_mbpp_may_stand_in_any_order(result, score):
    reply = f"```python\ndef similar_elements(a, b):\n    return {result}\n```"
    found = figures({"type": "MBPPEvaluator", "metric": "MBPPPlus"}, [reply], ["Mbpp/2"], rows=[{}])
    assert found == {"mbpp_plus_pass@1": score}


@pytest.mark.usefixtures("plus_problems")
def test_a_task_that_evalplus_has_not_is_told():
    with pytest.raises(DataError, match="HumanEval\\+ has no task 'HumanEval/7'"):
        figures({"type": "HumanEvalPlusEvaluator"}, ["x"], ["HumanEval/7"], rows=[{}])


def test_evalplus_that_is_missing_is_told(monkeypatch):
    programs._problems.cache_clear()
    monkeypatch.setitem(sys.modules, "evalplus.data", None)
    with pytest.raises(UsageError, match="pip install evalplus"):
        figures({"type": "HumanEvalPlusEvaluator"}, ["x"], ["HumanEval/0"], rows=[{}])
