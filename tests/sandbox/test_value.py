"""The value of an expression after a program: plain data out of the sandbox, and nothing else."""

from __future__ import annotations

import math
import sys
from datetime import date
from fractions import Fraction

import pytest

from kshot.sandbox import program as sandbox

LINUX = sys.platform == "linux"
EVERY_WAY = [sandbox.LAYERS, ("guard",)] if LINUX else [("guard",)]


@pytest.fixture(autouse=True)
def on_a_busy_machine(tmp_path_factory, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("sandboxes")))
    monkeypatch.setattr(sandbox, "_GRACE_SECONDS", 60.0)


@pytest.fixture(params=EVERY_WAY, ids="+".join)
def value_of(request):
    def value(program, expression, timeout=60.0):
        return sandbox.value_of(
            program, expression, timeout, layers=request.param, unsafe="seccomp" not in request.param
        )

    return value


@pytest.mark.parametrize(
    "plain",
    [
        None,
        True,
        7,
        -(10**30),
        2.5,
        math.inf,
        "tëxt",
        b"\x00",
        [1, (2, [3])],
        {"a": {1, 2}},
        date(2024, 2, 29),
        Fraction(1, 3),
    ],
    ids=repr,
)
def test_plain_data_comes_out_as_it_is(value_of, plain):
    program = f"from math import inf\nimport datetime\nfrom fractions import Fraction\ndef f():\n    return {plain!r}"
    found = value_of(program, " f()")
    assert found == plain
    assert type(found) is type(plain)


def test_other_objects_come_out_as_their_texts(value_of):
    program = "class Money:\n    def __str__(self):\n        return '5 coins'"
    assert value_of(program, "[Money(), 2]") == ["5 coins", 2]


def test_names_are_those_of_the_program(value_of):
    assert value_of("def sum(x):\n    return 'mine'", "sum([1])") == "mine"


@pytest.mark.parametrize(
    ("program", "kind", "text"),
    [
        ("def f(:", SyntaxError, "invalid syntax"),
        ("x = 1", NameError, "name 'f' is not defined"),
        ("class Odd(ValueError): pass\ndef f():\n    raise Odd('so')", ValueError, "so"),
        ("def f():\n    return b'\\xff'.decode()", RuntimeError, "UnicodeDecodeError"),
        ("def f():\n    return 'x' * 70000", RuntimeError, "more than 64 KB"),
        ("def f():\n    raise KeyboardInterrupt", RuntimeError, "KeyboardInterrupt"),
        ("raise SystemExit", RuntimeError, "SystemExit"),
        ("import os\nos._exit(0)", RuntimeError, "ended"),
        ("class Odd:\n    def __str__(self):\n        raise LookupError('no')\nf = Odd", LookupError, "no"),
    ],
)
def test_what_has_no_value_raises(value_of, program, kind, text):
    with pytest.raises(kind, match=text) as raised:
        value_of(program, "f()")
    assert type(raised.value) is kind


def test_a_program_has_so_much_time(value_of):
    with pytest.raises(TimeoutError, match="timed out after 1 s"):
        value_of("while True:\n    pass", "1", timeout=1.0)


def test_a_program_that_answers_in_the_place_of_its_process_gives_plain_data_too(value_of):
    """It can say what it likes as its own value; no entry that it writes becomes an object of kshot."""
    forged = """
import sys
frame = sys._getframe()
while "encoder" not in frame.f_locals:
    frame = frame.f_back
peer = frame.f_locals["self"]
peer._send({"result": None, "changed": [], "table": [], "printed": ""})
peer._send({"result": [0], "changed": [], "table": [%s], "printed": ""})
"""
    with pytest.raises(RuntimeError, match="the program sent"):
        value_of(forged % '["y", "eval"]', "1")
    with pytest.raises(RuntimeError, match="the program sent"):
        value_of(forged % '["n", "os.system", "true"]', "1")
    assert value_of(forged % '["t", [1, 2]]', "1") == (1, 2)
