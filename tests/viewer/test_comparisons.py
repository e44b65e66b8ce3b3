"""Comparisons for pages: made in a process, kept, made again when a run changes, and ended with the viewer."""

import json
import queue
import subprocess
from functools import partial

import pytest

import kshot
from kshot.viewer import background
from kshot.viewer.background import Jobs
from kshot.viewer.catalog import Catalog
from kshot.viewer.live import Comparisons
from tests.finished_runs import Replies, finished, task
from tests.viewer.conftest import items
from tests.viewer.made_runs import all_done


@pytest.fixture
def two(tmp_path):
    """Two runs of a catalog."""
    finished(tmp_path / "first", task("sums", items([100, 0, 0])))
    finished(tmp_path / "second", task("sums", items([100, 100, 0])))
    catalog = Catalog([tmp_path])
    return catalog.run("first"), catalog.run("second")


@pytest.fixture
def made():
    """Comparisons that end with the test."""
    told = []
    work = Jobs(told.append)
    found = Comparisons(work)
    found.wait, found.close, found.told = partial(all_done, work), work.close, told
    yield found
    work.close()


def counted(monkeypatch):
    """Return a list to which every process that is started is added."""
    started, plain = [], subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **more: started.append(args[0]) or plain(*args, **more))
    return started


def test_a_comparison_is_made_once_until_a_run_changes(two, made, monkeypatch):
    started = counted(monkeypatch)
    assert made.of(*two)["state"] == "comparing"
    made.wait(60)
    found = made.of(*two)
    assert (found["state"], found["error"], found["won"], found["lost"]) == ("ready", None, 1, 0)
    assert made.of(*two) == found
    assert len(started) == 1
    summary = two[1].folder / "summary.json"
    summary.write_text(summary.read_text() + "\n")
    assert made.of(*two)["state"] == "comparing"
    made.wait(60)
    assert made.of(*two) == found
    assert len(started) == 2


def test_the_other_way_round_is_another_comparison(two, made):
    made.of(*two)
    made.of(*reversed(two))
    made.wait(60)
    one, other = made.of(*two), made.of(*reversed(two))
    assert (one["won"], one["lost"], other["won"], other["lost"]) == (1, 0, 0, 1)
    assert (one["a"], one["b"]) == (other["b"], other["a"])


def test_what_is_compared_with_two_models_is_not_summed(two, made):
    folder = two[0].folder.parent / "third"
    kshot.evaluate([Replies("one"), Replies("other")], [task("sums", items([100, 0, 0]))], out=folder, fsync="never")
    third = Catalog([folder.parent]).run("third")
    sums = ("won", "lost", "both", "neither")
    for pair in ((two[1], third), (third, two[1])):
        made.of(*pair)
        made.wait(60)
        found = made.of(*pair)
        assert (found["error"], [found[name] for name in sums]) == (None, [None] * 4)
        assert found["sections"]  # which tell each of the two comparisons


def test_an_error_is_told_and_kept(two, made):
    (two[0].folder / "samples.jsonl").write_text("no JSON\n")
    made.of(*two)
    made.wait(60)
    assert "this line is damaged" in made.of(*two)["error"]


@pytest.mark.parametrize(
    ("does", "told"),
    [
        ("import os; os._exit(9)", "ended with code 9"),
        (r"raise ValueError('\x1b[2J ' + 'x' * 9000)", r"ended with code 1: ValueError: \x1b[2J x"),
        ("import os; os.kill(os.getpid(), 9)", "was ended by SIGKILL, perhaps for want of memory"),
    ],
)
def test_a_process_that_dies_is_an_error_not_a_wait_for_ever(two, made, monkeypatch, does, told):
    monkeypatch.setattr(background, "_BOOT", does)
    made.of(*two)
    made.wait(60)
    found = made.of(*two)
    assert found["state"] == "ready"
    assert found["error"].startswith(f"the process that reads the samples {told}")
    assert len(found["error"]) < 400
    assert made.told == [found["error"]]


def test_a_process_that_cannot_be_started_is_an_error(two, made, monkeypatch):
    monkeypatch.setattr(background.sys, "executable", "/nowhere/python")
    made.of(*two)
    made.wait(60)
    assert "No such file" in made.of(*two)["error"]


def test_a_process_ends_with_the_viewer(two, made, monkeypatch):
    held = "import sys, time; sys.stdout.close(); sys.stdin.read(); time.sleep(600)"
    monkeypatch.setattr(background, "_BOOT", held)
    plain, started = subprocess.Popen, queue.Queue()

    class Noted(plain):
        def __init__(self, *args, **more):
            super().__init__(*args, **more)
            started.put(self)

    monkeypatch.setattr(subprocess, "Popen", Noted)
    made.of(*two)
    process = started.get(timeout=60)
    made.close()
    assert process.wait(60) != 0


def test_no_file_beside_the_runs_is_imported(two, made, monkeypatch):
    """The process starts where the user is, which may be within a run folder of a stranger."""
    folder = two[0].folder
    for name in ("json", "kshot", "numpy", "signal", "sitecustomize"):
        (folder / f"{name}.py").write_text(f"open({str(folder / 'IMPORTED')!r}, 'w')")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(background.sys, "path", ["", *background.sys.path])
    made.of(*two)
    made.wait(60)
    assert made.of(*two)["error"] is None
    assert not (folder / "IMPORTED").exists()


def test_the_process_speaks_json(two):
    from io import BytesIO, TextIOWrapper

    from kshot.viewer import _job_process as job_process

    job = json.dumps({"work": "compare", "folders": [str(run.folder) for run in two], "keys": ["a", "b"]}).encode()
    out = BytesIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_process.signal, "signal", lambda *_: None)
        patch.setattr(job_process.sys, "stdin", TextIOWrapper(BytesIO(job)))
        patch.setattr(job_process.sys, "stdout", TextIOWrapper(out))
        job_process.main()
        found = json.loads(out.getvalue())
    assert [found[name] for name in ("won", "lost", "both", "neither")] == [1, 0, 1, 1]
    assert 'href="#/run/b/samples?other=a' in found["sections"][0]["html"]
