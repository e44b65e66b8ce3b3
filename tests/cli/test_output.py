"""Output that cannot be written: one message with exit code 2, wherever the error comes up."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
MESSAGE = "kshot: the output cannot be written: No space left on device"
RUN = ("run", "-d", "lookup:UR", "--length", "10", "--samples", "2", "--out", "run")


def kshot(tmp_path, *arguments, **streams):
    with FULL.open("w") as full:
        given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | dict.fromkeys(streams, full)
        return subprocess.run(
            [sys.executable, "-m", "kshot", *arguments], cwd=tmp_path, text=True, check=False, env=dict(os.environ),
            **given,
        )  # fmt: skip


@pytest.mark.parametrize(
    "arguments", [("--version",), ("run", "--help"), (), ("list", "models"), ("preview", *RUN[1:7])]
)
def test_a_full_disk_behind_stdout_is_one_message(tmp_path, arguments):
    done = kshot(tmp_path, *arguments, stdout=True)
    assert (done.returncode, done.stderr) == (2, f"{MESSAGE}\n")


def test_results_that_cannot_be_printed_are_stored(tmp_path):
    stored = f"{MESSAGE}. The results are stored in the run folder run.\n"
    for arguments in (RUN, ("score", "run"), (*RUN, "--json")):
        done = kshot(tmp_path, *arguments, stdout=True)
        assert (done.returncode, done.stderr) == (2, stored), arguments
    assert (tmp_path / "run" / "summary.json").exists()


def test_messages_that_cannot_be_written_end_no_run(tmp_path):
    done = kshot(tmp_path, *RUN, "--base-url", "http://localhost:1", stderr=True)  # there is a note: it has no effect
    assert done.returncode == 0
    assert "run folder: run" in done.stdout


@pytest.mark.parametrize(
    "arguments", [("list", "metrics"), ("runs", "."), ("preview", "-d", "lookup:UR", "--limit", "1")]
)
def test_a_stdout_that_is_closed_is_no_fault(tmp_path, arguments):
    """A daemon may have none: what is printed is for nobody."""
    code = f"import os, sys\nos.close(1)\nsys.stdout = None\nfrom kshot.cli import command\nsys.argv[1:] = {list(arguments)!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", code + "sys.exit(command())"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert "fault" not in done.stderr
