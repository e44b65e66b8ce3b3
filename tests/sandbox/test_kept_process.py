"""A confined process that is kept for many requests."""

import os
import subprocess
import sys

import pytest

from kshot.configs import math_process
from kshot.configs.cleanup_process import CleanupProcess
from kshot.configs.math_process import MathProcess
from kshot.core.errors import DataError
from kshot.core.records import AskFailed
from kshot.sandbox import kept_process
from kshot.sandbox.request_process import RequestProcess


@pytest.fixture
def without_layers(monkeypatch):
    """Confine processes by none of the kernel's layers, as on a system that has none."""

    def unconfined(*given, **options):
        return RequestProcess(*given, **options, layers=())

    monkeypatch.setattr(kept_process, "RequestProcess", unconfined)


def test_a_worker_that_needs_to_be_confined_refuses_a_system_that_cannot(without_layers):
    pytest.importorskip("math_verify")
    with pytest.raises(DataError, match="cannot confine the process that compares formulas: it lacks seccomp"):
        MathProcess().same(r"\boxed{1}", ("1",))


def test_clean_ups_of_kshot_run_without_layers_but_not_those_of_other_packages(without_layers):
    pytest.importorskip("latex2sympy2_extended")
    process = CleanupProcess()
    assert process.call("match_answer_pattern", "x1", {"answer_pattern": "x(.)"}) == "1"
    with pytest.raises(DataError, match="cannot confine the process that calls TheoremQA_postprocess_v3"):
        process.call("TheoremQA_postprocess_v3", "The answer is 2", {}, "opencompass")
    process.close()


def test_a_formula_that_takes_too_long_is_a_failed_sample_and_the_next_one_is_compared(monkeypatch):
    pytest.importorskip("math_verify")
    process = MathProcess()
    assert process.same(r"\boxed{\frac{1}{2}}", ("$0.5$",))
    process.close()
    monkeypatch.setattr(math_process, "SECONDS", 0.001)
    with pytest.raises(AskFailed, match=r"takes more than 0.001 s"):
        process.same(r"\boxed{" + "+".join(f"x^{{{i}}}" for i in range(300)) + "}", ("$1$",))
    process.close()
    monkeypatch.undo()
    assert not process.same(r"\boxed{3}", ("$2$",))
    process.close()


FORKED = """
import multiprocessing, os
from kshot.configs.cleanup_process import CleanupProcess

process = CleanupProcess()
call = lambda text: process.call("match_answer_pattern", text, {"answer_pattern": "x(.)"})
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
