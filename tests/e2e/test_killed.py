"""A run killed with SIGKILL at any point and resumed gives the files of an undisturbed run, and asks nothing twice.

The process kills itself, at a point that the test names. So each kill falls where it should, however busy the machine is.
"""

import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import CAPITALS

SAMPLES = 300

KILLER = '''
"""Kills this process at a named point."""
import os, signal
from pathlib import Path

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def arm(point, number):
    """Die where the point is reached for the ``number``-th time.

    ``asked``: the model has a request. ``answered``, ``torn``, ``written``: before, in the middle of and after writing the
    answer to the journal. ``draft NAME``, ``replaced NAME``: before and after a new version of a file replaces the old.
    """
    left = int(number)

    def reach(here):
        nonlocal left
        if here == point:
            left -= 1
            if not left:
                die()

    write, replace = os.write, Path.replace

    def watched_write(descriptor, data):
        of_journal = data.startswith(b'{"key"')
        if of_journal:
            reach("answered")
            if (point, left) == ("torn", 1):
                write(descriptor, data[: len(data) // 2])
            reach("torn")
        written = write(descriptor, data)
        if of_journal:
            reach("written")
        elif data.startswith(b"asked "):
            reach("asked")
        return written

    def watched_replace(draft, target):
        reach(f"draft {Path(target).name}")
        replaced = replace(draft, target)
        reach(f"replaced {Path(target).name}")
        return replaced

    os.write, Path.replace = watched_write, watched_replace
    return reach
'''

LOGGING = '''
"""A model that logs every request before it answers."""
import hashlib, os
from kshot import Generate, Generated, Likelihood, Loglik, Scored
from kshot.core.serialization import digest

class Logging:
    name = fingerprint = "logging"
    answers = (Generate, Loglik)

    def serve(self, waiting):
        log = os.open("asked.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for request in waiting:
            mark = digest(request)
            os.write(log, f"asked {mark}\\n".encode())
            spread = hashlib.sha256(mark.encode()).digest()
            if isinstance(request, Generate):
                yield request, Generated(["Paris", "Rome", "Oslo"][spread[0] % 3])
            else:
                yield request, Scored(tuple(Likelihood(-float(spread[i]), 1) for i, _ in enumerate(request.continuations)))
'''

DRIVER = """
import sys, killer
from kshot.cli import main

killer.arm(sys.argv[1], sys.argv[2])
sys.exit(main(sys.argv[3:]))
"""


def kills_while_answering(points, times, up_to):
    """Each point so many times, in any order, after any number of answers."""
    rng = random.Random(3)
    kills = [(point, rng.randint(1, up_to)) for point in points for _ in range(times)]
    rng.shuffle(kills)
    return kills


def keys(run):
    return [json.loads(line)["key"] for line in (run / "journal.jsonl").read_text().splitlines()]


def asked(folder):
    return (folder / "asked.log").read_text().splitlines()


def same_files(a, b):
    return all((a / name).read_bytes() == (b / name).read_bytes() for name in ("samples.jsonl", "summary.json"))


@pytest.fixture
def folder(tmp_path):
    for name, code in (("logging_model", LOGGING), ("capitals", CAPITALS), ("killer", KILLER), ("driver", DRIVER)):
        (tmp_path / f"{name}.py").write_text(code)
    return tmp_path


def test_through_the_command_line(folder):
    arguments = ["run", "-m", "logging_model.py:Logging", "-d", "capitals.py:Capitals", "-d", "capitals.py:Cities"]
    arguments += ["--dataset-path", str(SAMPLES), "-k", "2"]

    def run(out, *kill):
        command = [sys.executable, *(("driver.py", *map(str, kill)) if kill else ("-m", "kshot")), *arguments]
        return subprocess.run([*command, "--out", out], cwd=folder, check=False, capture_output=True, text=True)

    calm = run("calm")
    assert calm.returncode == 0, calm.stderr
    assert len(asked(folder)) == len(set(asked(folder))) == 2 * SAMPLES
    (folder / "asked.log").unlink()

    kills = kills_while_answering(("asked", "answered", "torn", "written"), 4, up_to=2 * SAMPLES // 17)
    files = [(f"{when} {name}.json", 1) for name in ("spec", "summary") for when in ("draft", "replaced")]
    files += [("draft samples.jsonl", 1), ("replaced samples.jsonl", 1)]
    for kill in kills + files:
        done = run("killed", *kill)
        assert done.returncode == -signal.SIGKILL, (kill, done.stderr)
    final = run("killed")
    assert final.returncode == 0, final.stderr
    assert same_files(folder / "calm", folder / "killed")
    assert len(keys(folder / "killed")) == len(set(keys(folder / "killed"))) == 2 * SAMPLES
    # what was journalled was never asked again: only a request whose answer was not written down yet is asked twice
    lost = sum(point in {"asked", "answered", "torn"} for point, _ in kills)
    assert len(asked(folder)) - len(set(asked(folder))) <= lost


@pytest.mark.parametrize("cut", [1, 7, 40])
def test_a_torn_journal_line_costs_one_answer(folder, cut):
    command = [
        sys.executable,
        "-m",
        "kshot",
        "run",
        "-m",
        "logging_model.py:Logging",
        "-d",
        "capitals.py:Cities",
        "--out",
        "run",
    ]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    before = [(folder / "run" / name).read_bytes() for name in ("samples.jsonl", "summary.json")]
    (folder / "asked.log").unlink()
    journal: Path = folder / "run" / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-cut])
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    assert len(asked(folder)) == 1
    assert [(folder / "run" / name).read_bytes() for name in ("samples.jsonl", "summary.json")] == before
