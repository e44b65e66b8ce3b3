"""Names of files from foreign texts: portable, distinct, and inside their folder."""

import os

import pytest

from kshot.core.durable import open_new
from kshot.core.errors import RunError
from kshot.core.text_files import FileNames, leaves_folder, path_inside, portable

HOSTILE = [
    "../evil", "..", ".", "...", "/etc/passwd", "a/../../b", "nul\0byte", "C:\\evil", "..\\evil", "\\\\host\\share",
    "dots...", "space ", " ", "", "CON", "nul.txt", "com1", ".hidden", "~", "a" * 300, "模型", "\x1b[31m", "\u202ex",
    "\ud800", "a:b", "-rf", "A", "a", "é", "e\u0301", "x y", "x-y", "X Y", "aUx.json",
]  # fmt: skip


def test_every_name_is_portable():
    for text in HOSTILE:
        name = portable(text)
        assert name.isascii()
        assert 0 < len(name) <= 140
        assert not set(name) & set('/\\:*?"<>|\0 ')
        assert name[0] != "."
        assert name[-1] not in ". "
        assert name.split(".")[0].lower() not in {"con", "nul", "com1", "aux"}


def test_different_names_never_share_a_file():
    names = FileNames(taken=("qrels",))
    found = [names.of(text) for text in [*HOSTILE, "qrels", "QRELS"]]
    assert len({name.casefold() for name in found}) == len(found)
    assert "qrels" not in {name.casefold() for name in found}
    assert [names.of(text) for text in [*HOSTILE, "qrels", "QRELS"]] == found


def test_usual_names_stay_as_they_are():
    names = FileNames()
    assert [names.of(name) for name in ("fts5", "bm25,k1=1.2", "BM25+x")] == ["fts5", "bm25-k1-1.2", "BM25+x"]


@pytest.mark.parametrize(
    "name", ["../evil", "a/../../b", "/etc/passwd", "C:\\evil", "C:/evil", "..\\evil", "\\x", "a\\..\\..\\b", "x\0y"]
)
def test_what_leaves_the_folder_is_refused(tmp_path, name):
    assert leaves_folder(name)
    with pytest.raises(RunError, match="lies outside the folder"):
        path_inside(tmp_path, name)


@pytest.mark.parametrize("name", ["a", "a/b.jsonl", "..a", "a..b", "a/...", "ARC-Easy", "x:y/z", "日本"])
def test_what_stays_inside_is_taken(tmp_path, name):
    assert not leaves_folder(name)
    assert path_inside(tmp_path, name) == tmp_path / name


def test_links_out_of_the_folder_are_not_written_through(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "link").symlink_to(tmp_path)
    with pytest.raises(RunError, match="outside"):
        path_inside(tmp_path / "out", "link/x")
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "out" / "file").symlink_to(victim)
    with pytest.raises(RunError, match="outside"):
        path_inside(tmp_path / "out", "file")
    with open_new(tmp_path / "out" / "file") as file:
        file.write("new")
    assert victim.read_text() == "mine"
    assert not (tmp_path / "out" / "file").is_symlink()
    (tmp_path / "out" / "circle").symlink_to("circle")
    with pytest.raises(RunError, match="a link to elsewhere"):
        path_inside(tmp_path / "out", "circle")
    os.link(victim, tmp_path / "out" / "hard")
    with open_new(tmp_path / "out" / "hard") as file:
        file.write("new")
    assert victim.read_text() == "mine"
