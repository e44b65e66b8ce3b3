"""The files of an index: where they are, when they are used again, and what a foreign one can do: nothing."""

import json
import os
import shutil
import sqlite3
import stat
from contextlib import closing

import pytest

from kshot.core.errors import RunError
from kshot.runs.listing import list_runs
from kshot.viewer import index_file
from kshot.viewer.index_file import APPLICATION_ID
from kshot.viewer.sample_index import SampleIndex
from tests.viewer.made_runs import ids, opened, page, sample, waited, write_run

ROWS = [sample("a", 100.0), sample("b", 0.0), sample("c", 0.0)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("KSHOT_CACHE", str(tmp_path / "cache"))
    return write_run(tmp_path / "runs" / "one", ROWS)


@pytest.fixture
def builds(monkeypatch):
    """How often an index was built."""
    seen = []
    build = index_file.build_index
    monkeypatch.setattr(index_file, "build_index", lambda *given: (seen.append(given[0]), build(*given))[1])
    return seen


def shown(folder):
    index = opened(folder)
    try:
        return ids(index)
    finally:
        index.close()


@pytest.fixture
def trusted(monkeypatch):
    """The index is taken for one that kshot has made, whatever is in it: the checks behind that must hold, too."""
    monkeypatch.setattr(index_file, "is_sealed", lambda _: True)


def changed(folder, *statements, name="samples.sqlite"):
    """Change the index as a stranger may have done."""
    with closing(sqlite3.connect(folder / name, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def test_an_index_is_made_once(folder, builds):
    assert shown(folder) == shown(folder) == ["a", "b", "c"]
    assert len(builds) == 1
    assert sorted(path.name for path in folder.iterdir()) == [
        "samples.jsonl",
        "samples.sqlite",
        "spec.json",
        "summary.json",
    ]


@pytest.mark.parametrize("name", ["samples.jsonl", "summary.json"])
def test_a_file_that_changed_has_it_made_again(folder, builds, name):
    shown(folder)
    os.utime(folder / name, (1, 1))
    shown(folder)
    assert len(builds) == 2


def test_a_run_list_is_the_same_with_an_index(folder):
    before = list_runs(folder.parent)
    opened(folder).close()
    assert list_runs(folder.parent) == before


@pytest.mark.parametrize(
    "statements",
    [
        ["PRAGMA application_id=1"],
        ["DROP TABLE names"],
        ["CREATE TRIGGER t AFTER INSERT ON judged BEGIN DELETE FROM names; END"],
        ["DROP TABLE names", "CREATE VIEW names AS SELECT load_extension('evil') AS part, 1 AS code"],
        ["UPDATE made_of SET stamp = 'x'"],
        ["DELETE FROM judged WHERE n = 1"],
        [
            "INSERT INTO judged SELECT 7, task, model, category, verdict, score, score_key, answer, answer_key FROM judged WHERE n = 1"
        ],
        ["UPDATE judged SET verdict = 99"],
        ["UPDATE samples SET place = 'x'"],
        ["UPDATE judged SET answer = x'00'"],
    ],
)
def test_a_foreign_index_is_made_again(folder, builds, trusted, statements):
    shown(folder)
    changed(folder, *statements)
    assert shown(folder) == ["a", "b", "c"]
    assert len(builds) == 2


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE samples SET place = 0",
        "UPDATE samples SET id = x'7a'",
        "UPDATE judged SET verdict = 3",
        "UPDATE names SET raw = x'7a' WHERE part = 'task'",
        "UPDATE samples SET place = 1000000",
    ],
)
def test_an_index_that_does_not_fit_its_rows_is_made_again(folder, builds, trusted, statement):
    shown(folder)
    changed(folder, statement)
    index = SampleIndex(folder)
    waited(index)
    assert ids(index) == ["a", "b", "c"]
    assert len(builds) == 2
    assert index.row(2)["id"] == "c"


def test_a_row_is_never_that_of_another_sample(folder, trusted):
    shown(folder)
    changed(folder, "UPDATE samples SET place = 0")
    assert SampleIndex(folder).row(1)["id"] == "b"


def test_a_damaged_index_is_made_again(folder, builds, trusted):
    shown(folder)
    path = folder / "samples.sqlite"
    raw = bytearray(path.read_bytes())
    for at in range(4096, len(raw), 64):
        raw[at : at + 32] = b"\xff" * len(raw[at : at + 32])
    path.write_bytes(raw)
    index = SampleIndex(folder)
    waited(index)
    assert ids(index) == ["a", "b", "c"]
    assert len(builds) == 2


def test_a_damaged_index_of_words_is_made_again(folder, trusted):
    index = opened(folder)
    assert ids(index, q="what") == ["a", "b", "c"]
    index.close()
    changed(folder, "UPDATE words_data SET block = x'ffffffffffffffff' WHERE id > 1", name="samples.words.sqlite")
    index = opened(folder)
    assert ids(index, q="what") == ["a", "b", "c"]


@pytest.mark.parametrize("kind", ["link", "dangling link", "folder", "other file", "other database"])
def test_what_is_not_an_index_stays_as_it_is(folder, tmp_path, builds, kind):
    path, other = folder / "samples.sqlite", tmp_path / "other"
    match kind:
        case "link":
            other.write_text("precious")
            path.symlink_to(other)
        case "dangling link":
            path.symlink_to(other)
        case "folder":
            path.mkdir()
        case "other file":
            path.write_text("precious")
        case "other database":
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                connection.execute("CREATE TABLE mine (x)")
    before = path.lstat()
    assert shown(folder) == shown(folder) == ["a", "b", "c"]
    assert len(builds) == 1  # in the cache
    after = path.lstat()
    assert (before.st_mtime_ns, before.st_mode, before.st_ino) == (after.st_mtime_ns, after.st_mode, after.st_ino)
    if kind == "link":
        assert other.read_text() == "precious"
    assert other.exists() == (kind == "link")
    (kept,) = (tmp_path / "cache").rglob("samples.sqlite")
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


def test_a_link_to_a_fitting_index_is_not_followed(folder, tmp_path, builds):
    shown(folder)
    shutil.move(folder / "samples.sqlite", tmp_path / "elsewhere")
    (folder / "samples.sqlite").symlink_to(tmp_path / "elsewhere")
    shown(folder)
    assert len(builds) == 2


def test_an_index_of_a_moved_folder_fits(folder, builds):
    shown(folder)
    shown(folder.rename(folder.parent / "two # ? %20"))
    assert len(builds) == 1


def test_a_huge_index_is_not_opened(folder, builds):
    shown(folder)
    with (folder / "samples.sqlite").open("ab") as file:
        file.truncate(1 << 30)
    assert shown(folder) == ["a", "b", "c"]
    assert len(builds) == 2
    assert (folder / "samples.sqlite").stat().st_size < 1 << 20


def test_drafts_that_were_left_are_removed_after_a_day(folder):
    old, young = folder / ".samples.sqlite.x.draft", folder / ".samples.sqlite.y.draft"
    for path in (old, young):
        path.write_text("")
    os.utime(old, (1, 1))
    shown(folder)
    assert (old.exists(), young.exists()) == (False, True)


def test_a_run_that_cannot_be_written_to_is_indexed_in_the_cache(folder, tmp_path, monkeypatch):
    make = index_file.tempfile.mkstemp

    def refused(**given):
        if given["dir"] == folder:
            raise PermissionError(13, "Permission denied")
        return make(**given)

    monkeypatch.setattr(index_file.tempfile, "mkstemp", refused)
    assert shown(folder) == ["a", "b", "c"]
    assert not (folder / "samples.sqlite").exists()
    assert len(list((tmp_path / "cache").rglob("samples.sqlite"))) == 1


def test_where_nothing_can_be_written_it_says_so(folder, monkeypatch):
    (folder.parent.parent / "cache").write_text("not a folder")
    (folder / "samples.sqlite").mkdir()
    found = waited(SampleIndex(folder))
    assert found.state == "failed"
    assert "the index of its samples cannot be written" in found.error
    assert "KSHOT_CACHE" in found.error


def test_no_draft_is_left_when_a_line_is_damaged(folder):
    with (folder / "samples.jsonl").open("a") as file:
        file.write("broken\n")
    index = SampleIndex(folder)
    assert waited(index).state == "failed"
    with pytest.raises(RunError, match=r"samples\.jsonl:4"):
        index.row(0)
    assert not list(folder.glob(".*"))


def test_the_file_is_marked_as_kshots(folder):
    shown(folder)
    assert (folder / "samples.sqlite").read_bytes()[68:72] == APPLICATION_ID.to_bytes(4, "big")
    assert json.loads(json.dumps(page(opened(folder)))) == page(opened(folder))


# ---- an index that a stranger made ----

LIES = [
    "UPDATE judged SET verdict = (verdict + 1) % 5",
    "UPDATE judged SET score = 9e999, score_key = 'x'",
    "UPDATE judged SET answer = 'another'",
    "UPDATE judged SET task = 'x', model = x'00', category = 1e300",
    "UPDATE names SET name = x'ff00'",
    "UPDATE samples SET scores = '{no JSON'",
    "UPDATE samples SET scores = x'ff'",
    "UPDATE samples SET scores = '" + "[" * 50_000 + "'",
    """UPDATE samples SET answers = '{"Right": null}'""",
    "UPDATE samples SET answers = 5",
]


def told(folder):
    """All that an index says of a run."""
    index = opened(folder)
    try:
        return [index.facets(), index.facets("Right"), page(index, sort="score"), page(index, metric="Right", q="what")]
    finally:
        index.close()


@pytest.mark.parametrize("lie", LIES)
def test_an_index_that_another_made_is_not_believed(folder, builds, lie):
    true = told(folder)
    changed(folder, lie)
    assert told(folder) == true
    assert len(builds) == 2
    assert told(folder) == true
    assert len(builds) == 2


def test_words_that_another_indexed_are_not_believed(folder):
    true = told(folder)
    changed(folder, "INSERT INTO words (rowid, text) VALUES (77, 'what')", name="samples.words.sqlite")
    assert told(folder) == true


def test_without_a_cache_an_index_is_made_each_time(folder, builds, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("KSHOT_CACHE", str(tmp_path / "file"))
    assert shown(folder) == shown(folder) == ["a", "b", "c"]
    assert len(builds) == 2


def test_the_seals_that_were_not_used_for_long_are_forgotten(folder, builds, monkeypatch, tmp_path):
    made = tmp_path / "cache" / "viewer" / "made"
    made.mkdir(parents=True)
    for at in range(4):
        (made / str(at)).touch()
        os.utime(made / str(at), (at, at))
    monkeypatch.setattr(index_file, "_MOST_SEALS", 4)
    assert shown(folder) == shown(folder)
    assert len(builds) == 1
    assert {"2", "3"} < {path.name for path in made.iterdir()}
    assert len(list(made.iterdir())) == 3
