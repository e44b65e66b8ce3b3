"""Evaluators that run programs of further datasets."""

import pytest

from kshot.core.errors import DataError
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
