"""Functions that are called in a confined process."""

import os
import subprocess
import sys

import pytest

from kshot.configs.confine import CLEANED, OF_PACKAGES, cleaned_apart
from kshot.configs.evaluators.math import SAME_VALUE, same_value
from kshot.core.errors import DataError
from kshot.core.records import AskFailed
from kshot.sandbox.calls import ConfinedFunction, Refused, TooSlow

PATTERN = "(x+x+)+y"
"""It takes longer than the age of the universe on a text of many x."""


@pytest.fixture
def without_layers(monkeypatch):
    """Confine processes by none of the kernel's layers, as on a system that has none."""
    functions = (SAME_VALUE, CLEANED, *OF_PACKAGES.values())
    for function in functions:
        function.close()
        monkeypatch.setitem(function.options, "layers", ())
    yield
    for function in functions:
        function.close()


@pytest.fixture(scope="module")
def without():
    """Remove what patterns match from texts."""
    function = ConfinedFunction("kshot.lmeval.filters:without_patterns", seconds=60, work="removes patterns")
    yield function
    function.close()


# ---- what a call returns ----


def test_a_call_returns_the_value_of_the_function(without):
    assert without(["a", "b"], ["abc", "\ud800 é"]) == ["c", "\ud800 é"]


def test_an_exception_of_the_function_is_told(without):
    refused = without(["("], ["a"])
    assert isinstance(refused, Refused)
    assert "unterminated subpattern" in refused.message
    assert without(["a"], ["a"]) == [""]


def test_a_call_that_takes_too_long_ends_the_process_and_the_next_call_starts_another(without, monkeypatch):
    monkeypatch.setattr(without, "seconds", 0.2)
    slow = without([PATTERN], ["x" * 40])
    assert isinstance(slow, TooSlow)
    assert (slow.kind, slow.limit, str(slow)) == ("TooSlow", "0.2 s", "it takes more than 0.2 s")
    assert not without.alive
    assert without(["a"], ["a"]) == [""]


def test_the_clock_ends_a_call_that_uses_no_processor_time(without):
    slow = without([PATTERN], ["x" * 40], wall_seconds=0.2)
    assert (slow.kind, slow.limit) == ("TooSlow", "")
    assert str(slow) == "it did not end within 0.2 s, the time that it may take"


def test_of_many_calls_each_has_its_own_time_and_its_own_result(without, monkeypatch):
    monkeypatch.setattr(without, "seconds", 0.2)
    calls = [([PATTERN], [text]) for text in ("xxy", "x" * 40, "-", "x" * 50, "y")]
    assert [each if isinstance(each, list) else type(each) for each in without.each([*calls, (["("], ["a"])])] == [
        *([""], TooSlow, ["-"], TooSlow, ["y"], Refused)
    ]
    assert list(without.each([])) == []


def test_of_many_calls_whose_process_was_killed_each_is_made_alone(without, monkeypatch):
    without(["a"], ["a"])
    monkeypatch.setattr(without._process, "ask", lambda *_: TooSlow("it was killed"))
    assert list(without.each([(["a"], ["ab"]), (["b"], ["ab"])])) == [["b"], ["a"]]


@pytest.mark.parametrize("result", [5, [], [7], [{}], [{"fault": 3}], [{"value": 1}] * 2])
def test_an_answer_of_another_form_is_none(without, monkeypatch, result):
    without(["a"], ["a"])
    monkeypatch.setattr(without._process, "ask", lambda *_: result)
    assert str(without(["a"], ["a"])) == "the confined process gave an answer that cannot be read"
    assert not without.alive


# ---- systems that cannot confine ----


def test_a_function_that_needs_to_be_confined_refuses_a_system_that_cannot(without_layers):
    pytest.importorskip("math_verify")
    with pytest.raises(DataError, match="cannot confine the process that compares formulas: it lacks seccomp"):
        same_value(r"\boxed{1}", "1")


def test_clean_ups_of_kshot_run_without_layers_but_not_those_of_other_packages(without_layers):
    pytest.importorskip("latex2sympy2_extended")
    assert cleaned_apart("match_answer_pattern", "x1", {"answer_pattern": "x(.)"}) == "1"
    with pytest.raises(DataError, match="cannot confine the process that calls TheoremQA_postprocess_v3"):
        cleaned_apart("TheoremQA_postprocess_v3", "The answer is 2", {}, "opencompass")


# ---- uses ----


def test_a_formula_that_takes_too_long_is_a_failed_sample_and_the_next_one_is_compared(monkeypatch):
    pytest.importorskip("math_verify")
    assert same_value(r"\boxed{\frac{1}{2}}", "0.5")
    monkeypatch.setattr(SAME_VALUE, "seconds", 0.001)
    with pytest.raises(AskFailed, match=r"takes more than 0.001 s"):
        same_value(r"\boxed{" + "+".join(f"x^{{{i}}}" for i in range(300)) + "}", "1")
    monkeypatch.undo()
    assert not same_value(r"\boxed{3}", "2")


# ---- forks ----


FORKED = """
import multiprocessing, os
from kshot.configs.confine import CLEANED as process, cleaned_apart

call = lambda text: cleaned_apart("match_answer_pattern", text, {"answer_pattern": "x(.)"})
assert call("x1") == "1"
own = process._process


def child(answers):
    assert not own.alive
    answers.put([call("x2"), call("x3")])
    process.close()


context = multiprocessing.get_context("fork")
answers = context.Queue()
forked = [context.Process(target=child, args=(answers,)) for _ in range(2)]
for each in forked:
    each.start()
assert [answers.get(timeout=60) for _ in forked] == [["2", "3"]] * 2
for each in forked:
    each.join()
if os.fork() == 0:
    raise SystemExit  # what ends with a forked process does not end the one of its parent
os.wait()
assert own.alive
assert call("x4") == "4"
assert process._process is own
process.close()
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_starts_workers_of_its_own_and_leaves_those_of_its_parent():
    """In a process of its own: one with as many threads as that of the tests should not be forked."""
    ran = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=300, check=False)
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr
