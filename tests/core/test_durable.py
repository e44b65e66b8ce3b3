"""New versions of files: whole or not there, on the disk with their folders, and one message when the disk refuses."""

import errno
import os
from pathlib import Path

import pytest

from kshot.core import kill_points
from kshot.core.durable import new_binary_version, new_version
from kshot.core.errors import RunError


@pytest.fixture
def points():
    """The kill points that are passed."""
    seen = []
    kill_points.watch(lambda name, _: seen.append(name))
    yield seen
    kill_points.watch(None)


def write(path, **options):
    with new_version(path, **options) as file:
        file.write("one\n")
        file.writelines(["two\n", "\ud800"])


def test_every_point_of_an_export_is_passed(tmp_path, points):
    write(tmp_path / "a" / "b.txt")
    assert (tmp_path / "a" / "b.txt").read_text() == "one\ntwo\n\\ud800"
    assert list(dict.fromkeys(points)) == [point for point in kill_points.POINTS if point.startswith("export.")]
    points.clear()
    write(tmp_path / "a" / "b.txt", fsync=False)
    assert "export.synced" not in points


def test_a_kill_while_it_is_written_leaves_a_part_in_the_draft_alone(tmp_path):
    found = []

    def at(name, last):
        if name == "export.writing":
            last()
            found.append((tmp_path / ".b.txt.draft").read_text())

    kill_points.watch(at)
    try:
        with new_version(tmp_path / "b.txt") as file:
            file.writelines(["1234"])
    finally:
        kill_points.watch(None)
    assert found == ["12"]


def test_the_file_and_every_folder_that_names_it_are_flushed(tmp_path, monkeypatch):
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("open files are listed on Linux alone")
    steps = []
    monkeypatch.setattr(os, "fsync", lambda handle: steps.append(Path(f"/proc/self/fd/{handle}").readlink().name))
    write(tmp_path / "a" / "b" / "c.txt", before=lambda: steps.append("before"))
    assert steps == ["before", ".c.txt.draft", "b", "a", tmp_path.name]
    steps.clear()
    write(tmp_path / "a" / "b" / "c.txt")
    assert steps == [".c.txt.draft", "b"]
    steps.clear()
    write(tmp_path / "new" / "c.txt", fsync=False, before=lambda: steps.append("before"))
    assert steps == []


@pytest.mark.parametrize("step", ["mkdir", "open", "fsync", "replace"])
def test_an_error_of_the_disk_is_one_message_and_leaves_no_draft(tmp_path, monkeypatch, step):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "a.txt").write_text("old")
    with monkeypatch.context() as patch:
        patch.setattr(os if step in {"open", "fsync"} else Path, step, full)
        with pytest.raises(RunError, match=r"a.txt: it cannot be written: No space left on device. Free some space"):
            write(tmp_path / "a.txt")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.txt": "old"}


def test_an_error_of_the_writer_is_not_one_of_the_disk(tmp_path):
    with pytest.raises(FileNotFoundError, match="other"), new_version(tmp_path / "a.txt"):
        raise FileNotFoundError("other")
    assert not list(tmp_path.iterdir())


def write_partly(path):
    with new_binary_version(path) as file:
        file.write(b"new")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # as a library that writes to it does


def test_a_file_of_bytes_is_whole_or_as_before(tmp_path):
    path = tmp_path / "a" / "b.bin"
    with new_binary_version(path) as file:
        file.write(b"\x00\xff??")
        file.seek(2)  # as a zip does when it knows the size of what it has written
        file.write(b"\n!")
    assert path.read_bytes() == b"\x00\xff\n!"
    with pytest.raises(RunError, match="it cannot be written: No space left"):
        write_partly(path)
    assert path.read_bytes() == b"\x00\xff\n!"
    assert [each.name for each in path.parent.iterdir()] == ["b.bin"]


def test_a_pipe_or_a_device_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    link = tmp_path / "link.csv"
    link.symlink_to(os.devnull)
    for path in (pipe, link, tmp_path):
        with pytest.raises(RunError, match="Name a plain file"), new_version(path) as file:
            file.write("text")
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link.csv", "pipe.csv"]
