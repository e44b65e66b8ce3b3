"""A run folder from elsewhere: its links lead kshot to no file of the user, and nothing in it is without an end."""

import os
import socket
from pathlib import Path

import pytest

from kshot.backends.checking import check_recording
from kshot.backends.replay import Replay
from kshot.core.errors import KshotError, RunError, UsageError
from kshot.prompts.chat import read_template
from kshot.runs.folder import JOURNAL, SAMPLES, SPEC, SUMMARY, RunFolder
from kshot.runs.journal import Journal
from kshot.runs.samples_file import read_samples
from kshot.runs.spec_file import read_spec


@pytest.mark.parametrize("name", [SPEC, JOURNAL, SAMPLES, SUMMARY])
def test_a_link_to_elsewhere_is_refused(tmp_path, name):
    victim = tmp_path / "victim"
    victim.write_text("")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / name).symlink_to(victim)
    with pytest.raises(RunError, match=f"'{name}' lies outside the folder, or is a link to elsewhere"):
        RunFolder(folder, {"datasets": []})
    assert not victim.read_text()


def test_a_draft_is_not_written_through_a_link(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    with RunFolder(tmp_path / "run", {"datasets": []}) as folder:
        (folder.path / f".{SUMMARY}.draft").symlink_to(victim)
        with folder.replacing(SUMMARY) as file:
            file.write("{}")
    assert (tmp_path / "run" / SUMMARY).read_text() == "{}"
    assert not (tmp_path / "run" / SUMMARY).is_symlink()
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/tmp/evil", "..\\evil", "C:\\evil", "nul\0", "out/x"])
def test_an_export_stays_in_the_folder(tmp_path, name):
    with RunFolder(tmp_path / "run", {"datasets": []}) as folder:
        (folder.path / "out").symlink_to(tmp_path)
        with pytest.raises(RunError, match="lies outside the folder"), folder.exporting() as write:
            write(name, {})
    assert {path.name for path in tmp_path.iterdir()} == {"run"}


def test_the_folder_itself_may_be_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    with RunFolder(tmp_path / "run", {"datasets": []}) as folder, folder.exporting() as write:
        write("a/b.jsonl", {"x": 1})
    assert (tmp_path / "disk" / "a" / "b.jsonl").read_text() == '{"x": 1}\n'


# ---- files without an end ----


def _pipe(path):
    os.mkfifo(path)


def _socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def _large(path):
    with path.open("wb") as file:
        file.truncate(20 << 30)


ENDLESS = [
    (_pipe, "it is a device or a pipe, not a file"),
    (_socket, "it is a device or a pipe, not a file"),
    (_large, "above the limit of 0.25 GB|above the limit of 256 million"),
    (lambda path: path.symlink_to("/dev/zero"), "a link to elsewhere|it is a device or a pipe"),
]
READERS = {SPEC: read_spec, SAMPLES: read_samples, JOURNAL: lambda folder: Journal(folder / JOURNAL, read_only=True)}


@pytest.mark.parametrize(("make", "message"), ENDLESS)
@pytest.mark.parametrize("name", READERS)
def test_a_file_without_an_end_is_one_message(tmp_path, monkeypatch, make, message, name):
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    make(Path(name))
    with pytest.raises(KshotError, match=message):
        READERS[name](tmp_path)


@pytest.mark.parametrize("make", [_pipe, _socket, _large])
def test_a_summary_without_an_end_has_no_figures(tmp_path, monkeypatch, make):
    with RunFolder(tmp_path / "run", {"datasets": []}) as folder:
        monkeypatch.chdir(folder.path)
        make(Path(SUMMARY))
        assert folder.earlier_results() == []


@pytest.mark.parametrize("make", [_pipe, _socket])
def test_damage_is_not_moved_into_a_pipe(tmp_path, monkeypatch, make):
    monkeypatch.chdir(tmp_path)
    make(Path("journal.damaged"))
    (tmp_path / JOURNAL).write_text("damaged\n")
    with pytest.raises(RunError, match="it is a device or a pipe, not a file"):
        Journal(tmp_path / JOURNAL)
    assert (tmp_path / JOURNAL).read_text() == "damaged\n"


def test_a_journal_that_begins_with_an_endless_line_is_not_cut(tmp_path):
    _large(tmp_path / JOURNAL)
    with pytest.raises(KshotError, match=r"journal.jsonl:1: this line is above the limit"):
        Journal(tmp_path / JOURNAL)
    assert (tmp_path / JOURNAL).stat().st_size == 20 << 30


@pytest.mark.parametrize(("make", "message"), ENDLESS)
def test_a_recording_without_an_end_is_one_message(tmp_path, monkeypatch, make, message):
    monkeypatch.chdir(tmp_path)
    make(Path(JOURNAL))
    for recording in (tmp_path, tmp_path / JOURNAL):
        with pytest.raises(KshotError, match=message):
            Replay(recording)
        if make is not _large:  # of a large one only that it can be read is checked
            with pytest.raises(KshotError, match=message):
                check_recording(str(recording))


@pytest.mark.parametrize(("make", "message"), ENDLESS)
def test_a_template_without_an_end_is_one_message(tmp_path, monkeypatch, make, message):
    monkeypatch.chdir(tmp_path)
    make(Path("template"))
    with pytest.raises(UsageError, match=message):
        read_template(str(tmp_path / "template"))
