"""Evaluators that run the programs of replies."""

import json
import sys

import pytest

from kshot.configs.evaluators._judged import as_json, printed, printed_loosely, returned, same_kind, with_int_keys
from kshot.configs.evaluators.program_tests import (
    expected_in,
    fenced,
    leetcode_programs,
    leetcode_tests,
    mbpp_program,
    stated_value,
)
from kshot.configs.evaluators.programs import first_block
from kshot.core.errors import DataError, UsageError
from tests.configs.scored import figures, run_entry, scored_entry

PROGRAM = "def f(x):\n    return x"


def score(evaluator, predictions, references, rows=None, framework="opencompass", **options):
    return figures({"type": evaluator, **options}, predictions, references, rows=rows, framework=framework)


@pytest.mark.parametrize(
    "reply",
    [
        f"[BEGIN]\n'{PROGRAM}'\n[DONE]",
        f"BEGIN '{PROGRAM} DONE and more",
        f"Here:\n```python\n{PROGRAM}\n```\nand\n```\nmore\n```",
        f"```\n{PROGRAM}",
        f"  {PROGRAM}'\n[DONE]",
        PROGRAM,
    ],
)
def test_the_program_of_a_reply(reply):
    assert mbpp_program(reply) == PROGRAM


def test_programs_of_all_blocks():
    assert leetcode_programs("```python\na = 1\n```\n```python\nb = 2```") == ["a = 1", "b = 2"]
    assert leetcode_programs("```js\na\n``` ```\nb\n```") == ["a", "b"]
    assert leetcode_programs("'a = 1'") == ["a = 1"]
    assert leetcode_programs("[BEGIN]a\\_b = 1[DONE]x") == ["a_b = 1"]
    assert leetcode_tests("class Solution: ...", "assert f(1) == 2") == "assert Solution().f(1) == 2"
    assert leetcode_tests("def f(): ...", "assert f(1) == 2") == "assert f(1) == 2"


def test_fenced_lines():
    text = "```\na\n```\n```\nb\n```"
    assert (fenced(text, last=False), fenced(text, last=True), fenced("```\na", last=True)) == ("a", "b", "")


def test_values_of_the_same_kind():
    assert same_kind({1: [(2, "x")], "y": {3, 4}}, {"y": {4, 3}, 1: [(2, "x")]})
    assert not same_kind([1], [True])
    assert not same_kind([1], (1,))
    assert not same_kind({1}, {1.0})
    assert returned((1, 2), [1, 2], same_kind)
    assert returned([3], [[3], [4]], same_kind)
    assert returned([(1, 2)], [[[1, 2]]], same_kind)
    assert not returned(1, 1.0, same_kind)
    with pytest.raises(TypeError):
        as_json({1, 2})
    assert with_int_keys([{"1": 2}]) == with_int_keys({"1": 2}) == [{1: 2}]
    assert with_int_keys([{"a": 2}]) == [{"a": 2}]


def test_what_is_printed():
    assert printed("3 \n\n4\n", "3\n4")
    assert printed("0.30000001\n", "0.3")
    assert not printed("3\n4\n", "3 4")
    assert not printed("3\n", "4")
    assert not printed("1\n2\n", "1.0")


def test_what_is_printed_in_any_order():
    assert printed_loosely("b a\n\nc\n", "c\na b")
    assert printed_loosely("3.0\n", "3")
    assert printed_loosely("1 2.00001\n", "2 1")
    assert not printed_loosely("a\n", "b")
    assert not printed_loosely("1 2\n", "1 3")


def test_stated_and_expected_values():
    assert stated_value("[PYTHON]assert f(1) == [2] [/ANSWER] so[/PYTHON]") == "[2]"
    assert stated_value("'x'\nbecause") == "'x'"
    assert expected_in("so\nassert f(1) == [1, 2]") == "[1, 2]"
    assert expected_in("```python\n[3]\n```") == "[3]"
    assert expected_in("assert f(1) in [1]") is None
    assert expected_in("assert (") is None


def test_mbpp_counts_what_became_of_programs(monkeypatch):
    replies = ["def f(x):\n    return x", "def f(x):\n    return [x]", "def f(x)", "def f(x):\n    return float(x)"]
    found = score("MBPPEvaluator", replies, ["assert f(1) == 1"] * 4)
    assert found == {"score": 25, "pass": 1, "timeout": 0, "failed": 1, "wrong_answer": 2}
    assert score("MBPPPassKEvaluator", replies[3:], [{"test_list_2": "assert f(1) == 1", "task_id": 1}]) == {
        "pass@1": 0
    }
    plain = score("MBPPPassKEvaluator", replies[3:], [{"test_list_2": "assert f(1) == 1"}], framework="ais_bench")
    assert plain == {"pass@1": 100}  # 1.0 is 1 there
    monkeypatch.setitem(sys.modules, "evalplus", None)
    with pytest.raises(UsageError, match=r"MBPP\+ needs the package evalplus.*pip install evalplus"):
        score("MBPPEvaluator", replies, ["Mbpp/1"] * 4, metric="MBPPPlus")


def test_humaneval_puts_a_reply_right_after_the_prompt():
    row = {
        "prompt": 'def f(x):\n    """Double."""\n',
        "entry_point": "f",
        "test": "def check(f):\n    assert f(2) == 4\n",
    }
    replies = ["    return x * 2", "return x * 2", "def f(x):\n    return x * 2"]
    found = score("HumanEvalEvaluator", replies, ["HumanEval/0"] * 3, [row] * 3)
    assert found == {"humaneval_pass@1": pytest.approx(200 / 3)}  # the second is not indented
    own = score("HumanEvalEvaluator", replies, ["HumanEval/0"] * 3, [row] * 3, framework="")
    assert own == {"pass@1": 100}  # kshot finds the function in a reply
    with pytest.raises(DataError, match="no column 'prompt'"):
        score("HumanEvalEvaluator", ["x"], ["HumanEval/0"])


def test_repeats_of_a_row_are_programs_of_one_task():
    made, rows = scored_entry({"type": "LCPassKEvaluator"}, [{"test_list_2": "assert f(1) == 2"}], n=4, k=[1, 4])
    replies = ["def f(x): return 2", "def f(x): return 3", "```\nf = 1\n``` ```\ndef f(x): return 2\n```", "?"]
    result = run_entry(made, rows, lambda _, repeat: replies[repeat])
    assert {row["metric"]: row["value"] for row in result.results} == {"pass@1": 50, "pass@4": 100}


def test_contests_are_judged_by_output_or_by_calls():
    by_output = {"inputs": ["2\n1 2", "1\n5"], "outputs": ["3", "5"], "fn_name": None}
    by_calls = {"inputs": ["[1, 2]\n3"], "outputs": ["[1, 2, 3]"], "fn_name": "join"}
    rows = [{"evaluation_sample": json.dumps(each)} for each in (by_output, by_output, by_calls)]
    replies = [
        "```python\ninput()\nprint(sum(map(int, input().split())))\n```",
        "```python\nif __name__ == '__main__':\n    print(3)\n```",
        "no\n```\nx\n```\n```python\nclass Solution:\n    def join(self, a: List[int], b):\n        return (*a, b)\n```",
    ]
    options = {"num_process_evaluate": 4, "extractor_version": "v2"}
    assert score("LCBCodeGenerationEvaluator", replies, ["a", "b", "c"], rows, **options) == {
        "pass@1": pytest.approx(200 / 3)
    }


def test_code_execution_and_test_output():
    task = json.dumps({"code": "def f(x): return Counter(x)['a']", "input": "f('aab')", "output": "2"})
    replies = ["assert f('aa') == 1 + 1", "f('aab')", "2.0"]
    assert score("LCBCodeExecutionEvaluator", replies, [task] * 3) == {"pass@1": pytest.approx(100 / 3)}
    assert score("LCBCodeExecutionEvaluator", replies, [task] * 3, framework="ais_bench")["pass@1"] == pytest.approx(
        200 / 3
    )
    wanted = json.dumps({"output": "[1, 2]"})
    replies = ["assert f(1) == [1, 2]", "assert f(1) == list(range(1, 3))", "assert f(1) == [2]"]
    assert score("LCBTestOutputEvaluator", replies, [wanted] * 3) == {"pass@1": pytest.approx(200 / 3)}


HUMANEVAL = {"prompt": "def f(x):\n", "entry_point": "f", "test": "def check(f):\n    assert f(2) == 4"}
CONTEST = json.dumps({"inputs": ["1"], "outputs": ["2"]})


@pytest.mark.parametrize(
    ("evaluator", "column", "tests"),
    [
        ("MBPPPassKEvaluator", "row_gold", "assert f(2) == 4"),
        ("MBPPEvaluator", "row_gold", "assert f(2) == 4"),
        ("LCPassKEvaluator", "row_gold", "assert f(2) == 4"),
        ("HumanEvalEvaluator", "test", HUMANEVAL["test"]),
        ("MBPPProEvaluator", "test_code", "assert f(2) == 4"),
        ("TACOEvaluator", "input_output", CONTEST),
        ("LCBCodeGenerationEvaluator", "evaluation_sample", CONTEST),
    ],
)
@pytest.mark.parametrize("framework", ["opencompass", ""])
def test_tests_that_cannot_be_read_fail_their_sample_alone(evaluator, column, tests, framework):
    unreadable = ["assert (", None, 3]
    columns = [tests, *unreadable]
    rows = [HUMANEVAL | {"evaluation_sample": CONTEST, "input_output": CONTEST, column: each} for each in columns]
    golds = columns if column == "row_gold" else [tests] * 4
    made, test = scored_entry({"type": evaluator}, golds, rows, framework)
    result = run_entry(made, test, lambda number, _: "def f(x):\n    return x * 2")
    assert [("failed" in sample) for sample in result.samples] == [False, True, True, True]
    assert all(sample["failed"].startswith("tests: ") for sample in result.samples[1:])
    assert result.results[0]["failed"] == 3


def test_tasks_of_taco_take_lists_of_arguments():
    assert first_block("so ```python\nx = 1\n``` or ```y```") == "x = 1\n"
    assert first_block("```x") == "x"
    by_calls = {"inputs": [[[1, 2], 3]], "outputs": [[1, 2, 3]], "fn_name": "join"}
    by_output = {"inputs": ["1 2\n"], "outputs": ["2 1\n"]}
    rows = [{"input_output": json.dumps(each)} for each in (by_calls, by_output, by_calls)]
    replies = ["```python\ndef join(a, b):\n    return a + [b]\n```", "print(input())", "def join(a, b): return a"]
    assert score("TACOEvaluator", replies, ["a", "b", "c"], rows) == {"pass@1": pytest.approx(200 / 3)}
    with pytest.raises(DataError, match="input_output"):
        score("APPSEvaluator", ["x"], ["a"])
