"""Data by URL: files, archives and folder listings, fetched once."""

import errno
import functools
import http.server
import os
import shutil
import threading
from pathlib import Path

import pytest

import kshot
from kshot.core.errors import DataError
from kshot.passages.fetching import fetch_notes, local_path
from tests.passages.books import small_book


class Quiet(http.server.SimpleHTTPRequestHandler):
    requests = 0

    def do_GET(self):
        type(self).requests += 1
        super().do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.setenv("KSHOT_CACHE", str(tmp_path / "cache"))
    small_book(tmp_path / "site" / "book")
    handler = functools.partial(Quiet, directory=str(tmp_path / "site"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield tmp_path / "site", f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("form", ["book/", "book.zip", "book.tar.gz"])
def test_a_benchmark_can_be_fetched(site, form):
    folder, url = site
    if not form.endswith("/"):
        kind = "zip" if form.endswith("zip") else "gztar"
        shutil.make_archive(str(folder / "book"), kind, folder, "book")
    for _ in range(2):
        result = kshot.evaluate("fts5", "fastbook", data=f"{url}/{form}", chunker="headings:50,tokenizer=words")
        assert result.results[-1]["n"] == 4
        before = Quiet.requests
    kshot.evaluate("fts5", "fastbook", data=f"{url}/{form}", chunker="headings:50,tokenizer=words")
    assert Quiet.requests == before


def test_what_an_archive_lacks_is_noted_in_every_run(site):
    folder, url = site
    (folder / "book" / "latest").symlink_to("chapters")
    shutil.make_archive(str(folder / "book"), "gztar", folder, "book")
    for _ in range(2):
        result = kshot.evaluate("fts5", "fastbook", data=f"{url}/book.tar.gz", chunker="headings:50,tokenizer=words")
        assert result.results[-1]["n"] == 4
        notes = fetch_notes([f"documents={url}/book.tar.gz"])
        assert notes == [f"{url}/book.tar.gz: 1 links are left out, which name no file of the archive: 'book/latest'"]
        assert any("book/latest" in note for note in result.notes)


def test_questions_and_documents_apart(site):
    _, url = site
    data = [f"questions={url}/book/questions.json", f"documents={url}/book/chapters/"]
    assert kshot.evaluate("fts5", "fastbook", data=data, chunker="whole").results[-1]["n"] == 4


def test_what_is_not_there(site):
    _, url = site
    with pytest.raises(DataError, match="cannot be fetched: File not found"):
        local_path(f"{url}/nothing.json")


def test_a_listing_cannot_leave_its_folder(site, tmp_path):
    folder, url = site
    (folder / "evil").mkdir()
    (folder / "evil" / "index.html").write_text(
        '<a href="sub/..%2f..%2f..%2f..%2fESCAPED/">x</a><a href="..%2fx.md">y</a>'
    )
    with pytest.raises(DataError, match="nothing was found"):
        local_path(f"{url}/evil/")
    assert not list(tmp_path.rglob("*ESCAPED*"))


def test_a_broken_archive_is_refused_and_not_kept(site):
    folder, url = site
    (folder / "half.zip").write_bytes(b"PK half of one")
    for _ in range(2):
        with pytest.raises(DataError, match="not a complete archive"):
            local_path(f"{url}/half.zip")


def test_an_archive_cannot_leave_its_folder(site):
    import zipfile

    folder, url = site
    with zipfile.ZipFile(folder / "evil.zip", "w") as archive:
        archive.writestr("../../evil.txt", "x")
    with pytest.raises(DataError, match="outside its folder"):
        local_path(f"{url}/evil.zip")


def test_the_leftovers_of_a_killed_process_are_removed(site, tmp_path):
    _, url = site
    left = tmp_path / "cache" / "downloads" / ".fetching.123.abc" / "files"
    left.mkdir(parents=True)
    (left / "half").write_text("half a")
    local_path(f"{url}/book/questions.json")
    assert [path.name for path in (tmp_path / "cache" / "downloads").glob(".*")] == []


def test_a_download_is_on_the_disk_before_it_has_its_name_and_its_name_after(site, tmp_path, monkeypatch):
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("open files are listed on Linux alone")
    steps = []
    fsync, rename = os.fsync, Path.rename

    def flushed(descriptor):
        steps.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    def renamed(path, target):
        steps.append(f"rename {path.name}")
        return rename(path, target)

    (site[0] / "a.txt").write_text("a")
    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(Path, "rename", renamed)
    local_path(f"{site[1]}/a.txt")
    assert steps[-4:] == ["a.txt", "files", "rename files", "downloads"]


def test_a_disk_that_fails_at_the_end_of_a_download(site, monkeypatch):
    def broken(_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    (site[0] / "a.txt").write_text("a")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(DataError, match=r"the cache cannot be written.*KSHOT_CACHE"):
            local_path(f"{site[1]}/a.txt")
    assert local_path(f"{site[1]}/a.txt").read_text() == "a"
