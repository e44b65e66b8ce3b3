"""However a run with workers ends, it leaves no process, pipe, socket, shared memory or file of its own behind."""

import os
import signal
import subprocess
import sys
import tempfile

import pytest

import kshot
from kshot.core.errors import KshotError
from tests.backends.pool.pooled import (
    is_alive,
    lines,
    open_pipes_and_sockets,
    pids,
    unused_shared_memory,
    wait_until,
    wait_until_gone,
    write,
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write(tmp_path, monkeypatch)


@pytest.fixture(autouse=True)
def nothing_is_left(folder, monkeypatch):
    """What a pool could leave behind. Shared memory is waited for: other tests, at the same time, use some too."""
    descriptors, shared = open_pipes_and_sockets(), unused_shared_memory()
    temporary = folder / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    yield
    wait_until_gone(folder)
    assert pids(folder), "no worker has run"
    assert not list(temporary.iterdir())
    assert open_pipes_and_sockets() == descriptors
    wait_until(lambda: unused_shared_memory() <= shared, "shared memory is left")


IN_PROCESS = {
    "done": ("Noting", {}, None),
    "a model that cannot be opened": ("CannotOpen", {}, "no such weights"),
    "a model that dies while it is opened": ("DiesOpening", {}, "exit code 7; its last line: out of memory, alas"),
    "a model that raises": ("Raises", {}, "it failed: RuntimeError: no answer for you"),
    "an answer that cannot be pickled": ("Strange", {}, "cannot leave its worker process"),
    "a wrong answer": ("WrongAnswer", {}, "it gave 3 where a text belongs"),
    "requests that are never answered": ("Silent", {}, "were taken and never answered"),
    "an answer to nothing": ("Twice", {}, "it answered a request that was not waiting"),
    "a model that cannot be closed": ("BadClose", {}, None),
    "a model that exits": ("Exits", {}, "SystemExit: leaving"),
    "a model with a process of its own": ("Parent", {}, None),
    "a model with a process that leaves its group": ("Daemon", {}, None),
    "a limit": ("Noting", {"max_requests": 3}, "stopped at --max-requests 3"),
}


@pytest.mark.parametrize("end", IN_PROCESS)
def test_a_run_that_ends_by_itself(folder, end):
    name, options, message = IN_PROCESS[end]
    try:
        result = kshot.evaluate(f"world.py:{name}", "capitals.py:Cities", dataset_path="20", workers=2, **options)
    except KshotError as exc:
        assert message is not None, exc
        assert message in str(exc) or "max_requests" in options
        assert "\n" not in str(exc)
    else:
        assert message is None
        assert result.results[0]["n"] == 20
    # All are killed when the call returns. A busy system may need a moment until it has taken them away.
    wait_until(lambda: not [pid for pid in pids(folder) if is_alive(pid)], "a process is left")


def test_a_dataset_that_raises(folder):
    (folder / "broken.py").write_text(
        "from capitals import Cities\n"
        "class Broken(Cities):\n"
        "    def format_instance(self, row):\n"
        "        if row['country'] == 'Cuba90':\n            raise ValueError('a bad row')\n"
        "        return super().format_instance(row)\n"
    )
    with pytest.raises(KshotError, match="a bad row"):
        kshot.evaluate("world.py:Noting", "broken.py:Broken", dataset_path="2000", workers=2)


def test_a_metric_that_raises(folder):
    (folder / "bad.py").write_text(
        "import kshot\nfrom capitals import Cities\n"
        "class Bad(kshot.Metric):\n    name = 'Bad'\n"
        "    def rate(self, prediction, reference):\n        raise ValueError('cannot rate')\n"
        "class Rated(Cities):\n    metrics = [Bad()]\n"
    )
    with pytest.raises(KshotError, match="cannot rate"):
        kshot.evaluate("world.py:Noting", "bad.py:Rated", dataset_path="2000", workers=2)


SIGNALS = {
    "Ctrl-C": ("Waits", [signal.SIGINT], 130),
    "SIGTERM": ("Waits", [signal.SIGTERM], 143),
    "SIGHUP": ("Waits", [signal.SIGHUP], 129),
    "SIGKILL": ("Waits", [signal.SIGKILL], -9),
    "SIGKILL while nothing else can run": ("Deaf", [signal.SIGKILL], -9),
    "Ctrl-C while nothing else can run": ("Deaf", [signal.SIGINT], 130),
    "SIGTERM with a process of the model": ("ParentWaits", [signal.SIGTERM], 143),
    "SIGKILL with a process of the model": ("ParentWaits", [signal.SIGKILL], -9),
    "SIGKILL while the models are opened": ("OpensForEver", [signal.SIGKILL], -9),
}


@pytest.mark.parametrize("end", SIGNALS)
def test_a_run_that_is_stopped(folder, end, default_signals):
    name, signals, code = SIGNALS[end]
    command = [sys.executable, "-m", "kshot", "run", "-m", f"world.py:{name}", "-d", "capitals.py:Cities"]
    # In a process group of its own, as in a terminal: Ctrl-C goes to all of the group.
    with subprocess.Popen(
        [*command, "--workers", "2", "--out", "run"], stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            wait_until(lambda: lines(folder / "computing"), "no worker computes")
            for number in signals:
                os.killpg(process.pid, number)
            said = process.communicate(timeout=300)[1]
        finally:
            process.kill()
    assert process.returncode == code
    assert "Traceback" not in said
    if code == 130:
        assert "interrupted" in said
