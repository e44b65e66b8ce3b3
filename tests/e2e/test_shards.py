"""Shards of a run, killed with SIGKILL at random points, resumed and merged: the files of one run, and nothing asked twice."""

import json
import os
import random
import signal
from contextlib import closing
from pathlib import Path

import pytest

from tests.cases import ALL
from tests.chaos.kills import Launcher, work_folder
from tests.chaos.scenarios import DATA
from tests.test_merging import MODEL, check_same

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

SHARDS = 40 if ALL else 16
RUN = [
    *("run", "-m", "model.py:Hashing", "-m", "model.py:Hashing,name=other,fails=yes", "--judge", "model.py:Hashing"),
    *("-d", "data.py:Cities", "-d", "data.py:Choices", "-d", "data.py:Judged", "--dataset-path", "90", "-k", "1"),
    "--no-report",
]
POINTS = (
    *("journal.before_write", "journal.torn_line", "journal.written", "spec.written", "spec.replaced"),
    *("samples.opened", "samples.written", "summary.written", "summary.replaced", "run.task_done", "run.model_done"),
)
MERGE_KILLS = ("journal.torn_line 200", "journal.written 100", "samples.written 1", "summary.written 1")


@pytest.fixture
def work():
    with work_folder() as name:
        folder = Path(name)
        for module, code in (("model", MODEL), ("data", DATA)):
            (folder / f"{module}.py").write_text(code)
        with closing(Launcher("kshot.merging")) as launcher:
            yield folder, launcher


def taken(folder):
    """Return the keys of what a command asked of its models."""
    return (folder / "taken.log").read_text().split() if (folder / "taken.log").exists() else []


def answered(run):
    lines = (run / "journal.jsonl").read_bytes().splitlines(keepends=True) if (run / "journal.jsonl").exists() else []
    whole = [json.loads(line) for line in lines if line.endswith(b"\n")]
    return {each["key"] for each in whole if "failed" not in each["response"]}


def test_shards_that_are_killed_and_resumed_are_merged_to_one_run(work):
    folder, launcher = work
    rng = random.Random(20)

    def ran(*arguments, kill=None):
        (folder / "taken.log").unlink(missing_ok=True)
        return launcher.run(folder, arguments, kill)["code"]

    assert ran(*RUN, "--out", "plain") == 0
    kills = 0
    for number in rng.sample(range(1, SHARDS + 1), SHARDS):
        shard = (*RUN, "--shard", f"{number}/{SHARDS}", "--out", f"shards/{number}")
        code, before = ran(*shard, kill=f"{rng.choice(POINTS)} {rng.randint(1, 3)}"), set()
        while code:
            assert code == -signal.SIGKILL, (folder / "err.txt").read_text()
            kills += 1
            before = answered(folder / "shards" / str(number))
            again = f"{rng.choice(POINTS)} {rng.randint(1, 9)}" if rng.random() < 0.3 else None
            code = ran(*shard, kill=again)
            assert not before & set(taken(folder))
    assert kills > SHARDS // 2
    runs = [f"shards/{number}" for number in rng.sample(range(1, SHARDS + 1), SHARDS)]
    assert ran("merge", *runs[1:], "--out", "merged") == 2
    missing = runs[0].partition("/")[2]
    assert f"shard {missing} of {SHARDS} is missing" in (folder / "err.txt").read_text()
    for kill in MERGE_KILLS:
        assert ran("merge", *runs, "--out", "merged", kill=kill) == -signal.SIGKILL
        assert not taken(folder)
    assert ran("merge", *runs, "--out", "merged") == 0
    check_same(folder / "merged", folder / "plain")
