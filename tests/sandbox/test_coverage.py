"""Coverage counts what runs inside confined processes, as it counts everything else, and opens nothing for that."""

import ast
import subprocess
import sys

import pytest

from kshot.configs import load
from kshot.sandbox import process, program
from tests.confined_coverage import arcs_in, booted_with_coverage

coverage = pytest.importorskip("coverage")

ODD_STEPS = """
import contextlib

@contextlib.contextmanager
def managed():
    try:
        yield 1
    finally:
        pass

def counted(n):
    for i in range(n):
        if i == 2:
            continue
        received = yield i
        if received:
            return received
    else:
        yield from counted(n - 1) if n else ()

def fails(key):
    try:
        return {}[key]
    except KeyError as error:
        raise ValueError from error

class Thing:
    size = 3

    def method(self): return [i for i in range(self.size) if i]

with managed() as one:
    list(counted(4))
g = counted(3)
next(g)
try:
    g.send("x")
except StopIteration:
    pass
try:
    fails("a")
except ValueError:
    pass
while one:
    one -= 1
Thing().method(), (lambda: {i: i for i in "ab"})()
"""


def arcs_by_coverage(path, tmp_path):
    """The steps that coverage's own tracer counts, in a process of its own."""
    (tmp_path / "settings").write_text(f"[run]\nbranch = true\ndata_file = {tmp_path / 'data'}\n")
    command = [sys.executable, "-m", "coverage", "run", "--rcfile", str(tmp_path / "settings"), str(path)]
    subprocess.run(command, check=True, cwd=tmp_path)
    data = coverage.CoverageData(str(tmp_path / "data"))
    data.read()
    return set(data.arcs(str(path)))


def test_steps_are_those_that_coverage_counts(tmp_path):
    path, folder = tmp_path / "code" / "odd.py", tmp_path / "noted"
    for each in (path.parent, folder):
        each.mkdir()
    path.write_text(ODD_STEPS)
    code = booted_with_coverage(
        f"exec(compile(open({str(path)!r}).read(), {str(path)!r}, 'exec'))", folder, path.parent
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert arcs_in(folder, path.parent)[str(path)] == arcs_by_coverage(path, tmp_path)


def test_a_step_that_a_kill_cut_short_is_not_counted(tmp_path):
    (tmp_path / "1").write_bytes(b"a.py 1 2\nb/long_na" + bytes(20) + b"c.py -3 4\nd.py 5 6" + bytes(20))
    assert arcs_in(tmp_path, "root") == {"root/a.py": {(1, 2)}, "root/c.py": {(-3, 4)}}


# ---- real confined processes ----


@pytest.fixture
def noted(tmp_path_factory, monkeypatch, confined_coverage):
    """What the confined processes of the test note, whether coverage is measured or not."""
    folder = tmp_path_factory.mktemp("noted")
    monkeypatch.setattr(program, "bubblewrap", lambda: None)  # its file system has no place for the notes
    monkeypatch.setattr(process, "_BOOT", booted_with_coverage(confined_coverage, folder, process._ROOT))
    return lambda: arcs_in(folder, process._ROOT)


def body_of(path, name):
    """The numbers of the lines of a function, without those of its head."""
    (function,) = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    return set(range(function.body[-1].lineno, function.end_lineno + 1))


def lines_of(noted, file, function):
    path = process._ROOT / file
    return {line for _, line in noted()[str(path)]} & body_of(path, function)


def test_the_guard_and_the_worker_of_a_program_are_counted(noted):
    attack = "import os\nos.remove('/precious')"
    assert "not allowed" in program.run(attack, timeout=60, layers=("guard",), unsafe=True).reason
    for file, function in (("_guard", "hook"), ("_guard", "within"), ("_program_worker", "end")):
        assert lines_of(noted, f"sandbox/{file}.py", function)
    assert not lines_of(noted, "sandbox/_program_end.py", "do_call")


def test_all_processes_of_a_program_are_counted(noted):
    assert program.run("def f():\n    return 1", "assert f() == 1", 60).passed
    for file, function in (
        *(("_confinement", "_end_orphans"), ("_program_end", "do_load"), ("_program_end", "do_call")),
        *(("_judge_end", "run"), ("_kernel", "drop_privileges"), ("_program_worker", "_report")),
    ):
        assert lines_of(noted, f"sandbox/{file}.py", function), function


def test_a_config_is_counted_whose_process_is_killed_when_it_has_answered(noted, tmp_path):
    (tmp_path / "config.py").write_text("x = 1")
    assert load(tmp_path / "config.py").variables == {"x": 1}
    for function in ("__init__", "answer", "_load", "run"):
        assert lines_of(noted, "configs/_language.py", function)
    assert not lines_of(noted, "configs/_language.py", "_fault")


def test_the_confined_code_gets_no_file_to_write(noted):
    text = "import os, stat\nfor n in range(256):\n    try: mode = os.fstat(n).st_mode\n    except OSError: continue\n    assert not stat.S_ISREG(mode), n"
    assert program.run(text, timeout=60) == program.ProgramOutcome(passed=True, reason="")
    assert noted()
