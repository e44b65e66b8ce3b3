"""A run killed with SIGKILL at random moments and resumed gives the files of an undisturbed run, and asks nothing twice."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.commands import CAPITALS

KILLS = 20
SAMPLES = 300

SLOW = '''
"""A backend that takes its time and logs every request it is asked, before it answers."""
import hashlib, os, time
from kshot import Generate, Generated, Likelihood, Loglik, Scored
from kshot.core.serialization import digest

class Slow:
    name = fingerprint = "slow"
    answers = (Generate, Loglik)

    def serve(self, waiting):
        log = os.open("asked.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for request in waiting:
            mark = digest(request)
            os.write(log, f"{mark}\\n".encode())
            time.sleep(0.002)
            spread = hashlib.sha256(mark.encode()).digest()
            if isinstance(request, Generate):
                yield request, Generated(["Paris", "Rome", "Oslo"][spread[0] % 3])
            else:
                yield request, Scored(tuple(Likelihood(-float(spread[i]), 1) for i, _ in enumerate(request.continuations)))
'''

# Importing torch takes seconds, so one process imports it and every attempt is a fork of that one.
HF_DRIVER = """
import os, random, signal, sys, time
import torch
torch.set_num_threads(1)
import kshot

model, kills = sys.argv[1], int(sys.argv[2])
options = dict(dataset_path="{samples}", batch_size=1, num_shots=2)
kshot.evaluate(f"hf:{{model}}", "capitals.py:Capitals", limit=1, batch_size=1)  # all imports done

def attempt(out):
    pid = os.fork()
    if not pid:
        kshot.evaluate(f"hf:{{model}}", "capitals.py:Capitals", out=out, **options)
        os._exit(0)
    return pid

def finish(out):
    assert os.waitpid(attempt(out), 0)[1] == 0

began = time.monotonic()
finish("calm")
whole = time.monotonic() - began
rng = random.Random(5)
for _ in range(kills):
    pid = attempt("killed")
    # The first answers come when the model is loaded and the prompts are read, which is a good part of the whole.
    time.sleep(rng.uniform(0, whole * 0.8))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    journal = "killed/journal.jsonl"
    print(open(journal, "rb").read().count(b"\\n") if os.path.exists(journal) else 0, flush=True)
finish("killed")
"""


def keys(run):
    return [json.loads(line)["key"] for line in (run / "journal.jsonl").read_text().splitlines()]


def same_files(a, b):
    return all((a / name).read_bytes() == (b / name).read_bytes() for name in ("samples.jsonl", "summary.json"))


def test_with_a_slow_backend_through_the_command_line(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "capitals.py").write_text(CAPITALS)
    command = [
        sys.executable, "-m", "kshot", "run", "-m", "slow.py:Slow", "-d", "capitals.py:Capitals", "-d", "capitals.py:Cities",
        "--dataset-path", str(SAMPLES), "-k", "2",
    ]  # fmt: skip
    subprocess.run([*command, "--out", "calm"], cwd=tmp_path, check=True, capture_output=True)
    calm = (tmp_path / "asked.log").read_text().split()
    assert len(calm) == len(set(calm)) == 2 * SAMPLES
    (tmp_path / "asked.log").unlink()

    rng = random.Random(3)
    log = tmp_path / "asked.log"
    log.touch()
    for _ in range(KILLS):
        process = subprocess.Popen(
            [*command, "--out", "killed"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wanted = len(log.read_text().split()) + rng.randint(1, 2 * SAMPLES // KILLS - 2)
        while len(log.read_text().split()) < wanted and process.poll() is None:
            time.sleep(0.001)
        assert process.poll() is None  # fewer requests were asked in all kills than there are
        process.send_signal(signal.SIGKILL)
        process.wait()
    final = subprocess.run([*command, "--out", "killed"], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert final.returncode == 0, final.stderr
    assert same_files(tmp_path / "calm", tmp_path / "killed")
    # what was journalled was never asked again: only a request being answered when the blow fell is asked twice
    asked = (tmp_path / "asked.log").read_text().split()
    assert len(keys(tmp_path / "killed")) == len(set(keys(tmp_path / "killed"))) == 2 * SAMPLES
    assert len(asked) - len(set(asked)) <= KILLS


def test_with_a_transformers_model_at_batch_size_1(tmp_path, tiny_llama):
    (tmp_path / "capitals.py").write_text(CAPITALS)
    (tmp_path / "driver.py").write_text(HF_DRIVER.format(samples=SAMPLES))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "driver.py", str(tiny_llama), str(KILLS)],
        cwd=tmp_path,
        check=True,
        env=environment,
        timeout=300,
        stdout=subprocess.PIPE,
        text=True,
    )
    counts = [int(line) for line in done.stdout.split()]
    assert any(0 < count < SAMPLES for count in counts), counts
    assert same_files(tmp_path / "calm", tmp_path / "killed")
    assert len(keys(tmp_path / "killed")) == len(set(keys(tmp_path / "killed"))) == SAMPLES


@pytest.mark.parametrize("cut", [1, 7, 40])
def test_a_torn_journal_line_costs_one_answer(tmp_path, cut):
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "capitals.py").write_text(CAPITALS)
    command = [sys.executable, "-m", "kshot", "run", "-m", "slow.py:Slow", "-d", "capitals.py:Cities", "--out", "run"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    before = [(tmp_path / "run" / name).read_bytes() for name in ("samples.jsonl", "summary.json")]
    (tmp_path / "asked.log").unlink()
    journal: Path = tmp_path / "run" / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-cut])
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert len((tmp_path / "asked.log").read_text().split()) == 1
    assert [(tmp_path / "run" / name).read_bytes() for name in ("samples.jsonl", "summary.json")] == before
