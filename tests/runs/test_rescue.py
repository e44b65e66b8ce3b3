"""A journal that is replaced, removed or cut while a run writes it: one message, and no answer is lost in silence."""

import shutil
from contextlib import closing

import pytest

from kshot.core.errors import RunError
from kshot.core.records import Generated
from kshot.runs import Journal
from kshot.runs.folder import RunFolder

KEYS = [f"{number:x}" * 32 for number in range(6)]


def replace(path):
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    copy.replace(path)


def empty(path):
    path.write_bytes(b"")


def cut(path):
    path.write_bytes(path.read_bytes()[:-30])


def remove(path):
    path.unlink()


def remove_all(path):
    shutil.rmtree(path.parent)


def interfered(folder, harm, **options):
    """Write half of the answers, do harm, write the others, and close; return the error."""
    path = folder / "journal.jsonl"
    folder.mkdir(exist_ok=True)
    journal = Journal(path, **options)
    for key in KEYS[:3]:
        journal.put(key, "asked", Generated(key))
    harm(path)
    for key in KEYS[3:]:
        journal.put(key, "asked", Generated(key))
    with pytest.raises(RunError, match="the journal was replaced, removed or cut while the run used it") as caught:
        journal.close()
    return caught.value


def kept(path):
    with closing(Journal(path, read_only=True)) as journal:
        return [key for key in KEYS if journal.get(key) is not None]


@pytest.mark.parametrize("fsync", ["group", "always", "never"])
def test_a_replaced_journal_is_saved_beside_the_new_one(tmp_path, fsync):
    error = interfered(tmp_path / "run", replace, fsync=fsync)
    beside = tmp_path / "run" / "journal.rescued-1.jsonl"
    assert f"Its answers are in {beside}." in str(error)
    assert f"--reuse {beside}" in str(error)
    assert kept(tmp_path / "run" / "journal.jsonl") == KEYS[:3]
    assert kept(beside) == KEYS


def test_a_second_rescue_takes_another_name(tmp_path):
    interfered(tmp_path / "run", replace)
    assert "journal.rescued-2.jsonl" in str(interfered(tmp_path / "run", replace))


@pytest.mark.parametrize("harm", [remove, remove_all])
def test_a_removed_journal_is_put_back(tmp_path, harm):
    error = interfered(tmp_path / "run", harm)
    assert "Its answers are in that place again. " in str(error)
    assert kept(tmp_path / "run" / "journal.jsonl") == KEYS


@pytest.mark.parametrize(("harm", "left"), [(empty, KEYS[3:]), (cut, [*KEYS[:2], *KEYS[4:]])])
def test_a_cut_journal_says_how_much_is_gone(tmp_path, harm, left):
    error = interfered(tmp_path / "run", harm)
    assert "bytes are gone: what they answered is asked again" in str(error)
    assert kept(tmp_path / "run" / "journal.jsonl") == left


def test_answers_that_cannot_be_saved_are_said_to_be_lost(tmp_path):
    def harm(path):
        remove_all(path)
        path.parent.write_text("a file in place of the folder")

    assert "Its answers could not be saved" in str(interfered(tmp_path / "run", harm))


def test_no_more_is_asked_once_the_journal_is_gone(tmp_path, monkeypatch):
    monkeypatch.setattr("kshot.runs.journal._CHECK_SECONDS", -1.0)
    journal = Journal(tmp_path / "journal.jsonl")
    journal.put(KEYS[0], "asked", Generated("x"))
    remove(tmp_path / "journal.jsonl")
    for key in KEYS[1:3]:
        with pytest.raises(RunError, match="replaced, removed or cut"):
            journal.put(key, "asked", Generated("x"))
    journal.close()
    assert kept(tmp_path / "journal.jsonl") == KEYS[:2]  # the answer at which it was noticed is saved


def test_a_removed_run_folder_gets_its_answers_back_and_nothing_else(tmp_path):
    run = RunFolder(tmp_path / "run", {})
    run.write_spec()
    run.put(KEYS[0], "asked", Generated("x"))
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(RunError, match="Its answers are in that place again"):
        run.write_spec(tasks={})
    run.__exit__(RunError, RunError("x"), None)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["journal.jsonl"]
    with RunFolder(tmp_path / "run", {}) as again:
        assert again.get(KEYS[0]) == Generated("x")


def test_a_last_line_that_lacks_only_its_end_is_kept(tmp_path):
    path = tmp_path / "journal.jsonl"
    with closing(Journal(path)) as journal:
        for key in KEYS[:2]:
            journal.put(key, "asked", Generated(key))
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert kept(path) == KEYS[:2]
    assert path.read_bytes() == whole[:-1]
    with closing(Journal(path)) as journal:
        assert path.read_bytes() == whole
        journal.put(KEYS[2], "asked", Generated(KEYS[2]))
        assert journal.get(KEYS[2]) == Generated(KEYS[2])
    assert kept(path) == KEYS[:3]
