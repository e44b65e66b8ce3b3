"""Whether a process works in a run folder: who asks does not disturb it."""

import fcntl
import os

import pytest

from kshot.core.errors import RunError
from kshot.runs import journal as locks
from kshot.runs.journal import Journal, is_locked


def test_a_journal_is_locked_while_it_is_open(tmp_path):
    path = tmp_path / "journal.jsonl"
    assert is_locked(path) is False  # there is none
    journal = Journal(path)
    assert is_locked(path) is True
    assert is_locked(path) is True  # asking takes nothing away
    journal.close()
    assert is_locked(path) is False
    assert path.read_bytes() == b""


def test_what_only_reads_a_journal_does_not_lock_it(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.touch()
    journal = Journal(path, read_only=True)
    assert is_locked(path) is False
    journal.close()


def test_no_lock_can_be_seen_where_there_is_no_file_or_no_lock(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    assert is_locked(tmp_path / "pipe") is None  # and it does not wait
    assert is_locked(tmp_path) is None
    (tmp_path / "file").touch()

    def unsupported(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    assert is_locked(tmp_path / "file") is None


def test_a_run_starts_although_its_lock_is_looked_at(tmp_path, monkeypatch):
    path = tmp_path / "journal.jsonl"
    path.touch()
    looking = os.open(path, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    monkeypatch.setattr(locks.time, "sleep", lambda _: fcntl.flock(looking, fcntl.LOCK_UN))
    journal = Journal(path)
    assert is_locked(path) is True
    journal.close()
    os.close(looking)


def test_a_second_run_in_a_folder_is_refused(tmp_path):
    journal = Journal(tmp_path / "journal.jsonl")
    with pytest.raises(RunError, match="another process is working in this run folder"):
        Journal(tmp_path / "journal.jsonl")
    journal.close()
