"""A run folder from elsewhere: its links do not lead kshot to write to files of the user."""

import pytest

from kshot.core.errors import RunError
from kshot.runs.folder import JOURNAL, SAMPLES, SPEC, SUMMARY, RunFolder


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
