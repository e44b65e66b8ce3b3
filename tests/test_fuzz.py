"""The fuzzer itself: what hangs, takes all memory or fails is found and shown."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import strategies as st

from kshot.core.errors import KshotError
from tests.fuzz import harness, run
from tests.fuzz.harness import Hung, Told, fuzz, told, watched

ROOT = Path(__file__).parents[1]


def test_what_hangs_ends_with_its_example(monkeypatch):
    monkeypatch.setattr(harness, "HANG_SECONDS", 0.05)

    def endless(example):
        while example:
            pass

    with pytest.raises(Hung, match=r"did not end in 0.05 seconds; the example: .*'this one'"):
        watched(endless)("this one")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the limit is for Linux")
def test_what_takes_all_memory_fails():
    with pytest.raises(MemoryError):
        watched(bytearray)(2 * harness.MEMORY_BYTES)
    assert len(bytearray(1 << 20)) == 1 << 20


def test_an_error_must_say_what_and_where():
    def refuse(what, where=""):
        raise KshotError(what, where=where)

    assert isinstance(told(refuse, "no", "a.json", where="a.json"), Told)
    with pytest.raises(AssertionError, match="must say what"):
        told(refuse, " ")
    with pytest.raises(AssertionError, match="does not say where"):
        told(lambda: refuse("no", "b.json"), where="a.json")
    with pytest.raises(ZeroDivisionError):
        told(lambda: 1 / 0)


def test_a_finding_is_shown_and_ends_its_target(monkeypatch, tmp_path, capsys):
    @fuzz(st.integers())
    def test_wrong(number):
        assert number < 1000

    monkeypatch.setattr(run, "tests_of", lambda _: {"test_wrong": test_wrong})
    assert run.work("mine", 0.0, "7", tmp_path / "result.json") == 1
    assert json.loads((tmp_path / "result.json").read_text())["failed"] == "test_wrong"
    shown = capsys.readouterr()
    assert "number=1000" in shown.err
    assert "seed 7.0 of mine.test_wrong" in shown.out


def test_a_target_without_a_finding_says_how_many_examples_it_had():
    command = [sys.executable, "tests/fuzz/run.py", "reasoning", "--minutes", "0", "--seed", "5"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "reasoning " in done.stdout
    assert " examples " in done.stdout
    assert "0 findings in 1 targets" in done.stdout


def test_an_unknown_target_is_refused():
    command = [sys.executable, "tests/fuzz/run.py", "nonsense"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    assert "no target nonsense; there are chunkers, " in done.stderr
