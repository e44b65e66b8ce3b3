"""A run killed with SIGKILL at any point and resumed gives the files of an undisturbed run, and asks nothing twice.

The process kills itself, at a point that the test names. So each kill falls where it should, however busy the machine is.
``tests/chaos`` kills runs of every kind; here a run is a process of its own, as a user starts it.
"""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import ALL
from tests.commands import CAPITALS, kshot_process

SAMPLES = 300
ANSWERING = ("journal.before_write", "journal.torn_line", "journal.written")

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
    for name, code in (("logging_model", LOGGING), ("capitals", CAPITALS)):
        (tmp_path / f"{name}.py").write_text(code)
    return tmp_path


def test_through_the_command_line(folder):
    arguments = ["run", "-m", "logging_model.py:Logging", "-d", "capitals.py:Capitals", "-d", "capitals.py:Cities"]
    arguments += ["--dataset-path", str(SAMPLES), "-k", "2"]

    def run(out, point="", number=0):
        command = [sys.executable, "-m", "kshot", *arguments, "--out", out]
        environment = {**os.environ, "KSHOT_KILL_POINT": f"{point} {number}" if point else ""}
        return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, env=environment)

    calm = run("calm")
    assert calm.returncode == 0, calm.stderr
    assert len(asked(folder)) == len(set(asked(folder))) == 2 * SAMPLES
    (folder / "asked.log").unlink()

    kills = kills_while_answering(ANSWERING, 4 if ALL else 2, up_to=2 * SAMPLES // 13)
    files = [(f"{name}.{when}", 1) for name in ("spec", "summary", "samples") for when in ("written", "replaced")]
    for kill in kills + files:
        done = run("killed", *kill)
        assert done.returncode == -signal.SIGKILL, (kill, done.stderr)
    final = run("killed")
    assert final.returncode == 0, final.stderr
    assert same_files(folder / "calm", folder / "killed")
    assert len(keys(folder / "killed")) == len(set(keys(folder / "killed"))) == 2 * SAMPLES
    # what was journalled was never asked again: only a request whose answer was not written down yet is asked twice
    lost = sum(point in {"journal.before_write", "journal.torn_line"} for point, _ in kills)
    assert len(asked(folder)) - len(set(asked(folder))) <= lost


@pytest.mark.parametrize(("cut", "asked_again"), [(1, 0), (7, 1), (40, 1)])
def test_a_torn_journal_line_costs_one_answer(folder, cut, asked_again):
    """A line that lacks nothing but its end is whole: its checksum holds."""
    command = ["run", "-m", "logging_model.py:Logging", "-d", "capitals.py:Cities", "--out", "run"]
    assert kshot_process(*command, cwd=folder).code == 0
    before = [(folder / "run" / name).read_bytes() for name in ("samples.jsonl", "summary.json")]
    (folder / "asked.log").write_text("")
    journal: Path = folder / "run" / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-cut])
    assert kshot_process(*command, cwd=folder).code == 0
    assert len(asked(folder)) == asked_again
    assert [(folder / "run" / name).read_bytes() for name in ("samples.jsonl", "summary.json")] == before
