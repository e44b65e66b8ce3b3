"""Index folders are complete or absent, whatever happens to the process that builds them."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kshot.backends.search.bm25 import Bm25, Bm25Disk
from kshot.backends.search.fts5 import Fts5
from kshot.core.corpus import Corpus, Passage
from kshot.core.errors import BackendError, RunError
from kshot.index.store import MANIFEST_FILE, Store

BUILDER = """
import sys
from pathlib import Path
from kshot.backends.search.specs import make_search_engine
from kshot.core.corpus import Corpus, Passage
from kshot.index import store

root, spec, count, pause = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]

def reach(point):
    if point == pause:
        print("reached", point, flush=True)
        sys.stdin.read()

write_manifest = store._write_manifest

def paused_write_manifest(folder):
    reach("built")
    write_manifest(folder)
    reach("complete")

store._write_manifest = paused_write_manifest
corpus = Corpus(Passage(f"p{i}", f"word{i % 97} word{i % 89} word{i}") for i in range(count))
kept = store.Store(root, lambda label, done, total: reach({0: "begun", total: "read"}.get(done, "halfway")))
index = make_search_engine(spec).open(corpus, kept)
(found,) = index.search(["word96 word5"], 3, None)
print("found", *found.positions)
"""


def two(folder):
    (folder / "a").write_text("one")
    (folder / "b").mkdir()
    (folder / "b" / "c").write_text("two")


def names(root):
    return sorted(path.name for path in root.iterdir())


def test_it_builds_once(tmp_path):
    calls = []

    def build(folder):
        calls.append(folder)
        two(folder)

    store = Store(tmp_path / "deep" / "root")
    first = store.built("kind", {"k": 1}, build)
    assert store.built("kind", {"k": 1}, build) == first
    assert store.built("kind", {"k": 2}, build) != first
    assert len(calls) == 2
    assert (first / "b" / "c").read_text() == "two"
    assert json.loads((first / "key.json").read_text()) == {"k": 1}
    assert len(names(store.root)) == 2


def test_a_failed_build_leaves_nothing(tmp_path):
    def build(folder):
        two(folder)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        Store(tmp_path).built("kind", {}, build)
    assert names(tmp_path) == []


@pytest.mark.parametrize("harm", ["cut", "gone", "unlisted"])
def test_a_damaged_folder_is_built_anew(tmp_path, harm):
    store = Store(tmp_path)
    folder = store.built("kind", {}, two)
    if harm == "cut":
        (folder / "b" / "c").write_text("t")
    else:
        (folder / ("a" if harm == "gone" else MANIFEST_FILE)).unlink()
    assert store.built("kind", {}, two) == folder
    assert (folder / "b" / "c").read_text() == "two"
    assert (folder / "a").read_text() == "one"
    assert names(tmp_path) == [folder.name]


@pytest.mark.parametrize("root", ["file/below", "/proc/nowhere"])
def test_a_folder_that_cannot_be_written(tmp_path, root):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"no index can be kept there.*KSHOT_CACHE"):
        Store(tmp_path / root).built("kind", {}, two)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_serves_what_it_holds(tmp_path):
    folder = Store(tmp_path).built("kind", {}, two)
    tmp_path.chmod(0o500)
    try:
        assert Store(tmp_path).built("kind", {}, two) == folder
        with pytest.raises(RunError, match="no index can be kept there"):
            Store(tmp_path).built("kind", {"other": 1}, two)
    finally:
        tmp_path.chmod(0o700)


def test_a_full_disk_is_one_clear_error_and_other_errors_pass_through(tmp_path):
    def full(folder):
        raise OSError(28, "No space left on device")

    with pytest.raises(RunError, match="No space left on device"):
        Store(tmp_path).built("kind", {}, full)
    with pytest.raises(FileNotFoundError):
        Store(tmp_path).built("kind", {}, lambda _: (tmp_path / "model").read_bytes())


def test_a_fault_of_a_file_elsewhere_is_not_blamed_on_the_store(tmp_path):
    other = tmp_path / "root of another" / "rows.jsonl"

    def build(folder):
        raise OSError(28, "No space left on device", str(other))

    with pytest.raises(OSError, match="root of another"):
        Store(tmp_path / "root").built("kind", {}, build)


def test_what_a_live_process_builds_is_left_alone(tmp_path):
    inner = []

    def build(folder):
        (folder / "half").write_text("…")
        Store(tmp_path).built("other", {}, two)  # removes leftovers beside it
        inner.append(folder.is_dir())

    Store(tmp_path).built("kind", {}, build)
    assert inner == [True]
    assert len(names(tmp_path)) == 2


def test_two_builds_at_once_give_one_folder(tmp_path):
    store, places = Store(tmp_path), []

    def slow(folder):
        two(folder)
        places.append(Store(tmp_path).built("kind", {}, two))  # another is first

    assert store.built("kind", {}, slow) == places[0]
    assert names(tmp_path) == [places[0].name]


def start(root, spec, count, pause=""):
    command = [sys.executable, "-c", BUILDER, str(root), spec, str(count), pause]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_two_processes_at_once(tmp_path):
    both = [start(tmp_path, "bm25", 3000) for _ in range(2)]
    outs = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], outs
    # 2230 % 97 is 96 and 2230 % 89 is 5: it has both words; 96 and 5 have one of them more than once
    assert outs[0][0].splitlines()[-1] == outs[1][0].splitlines()[-1] == "found 2230 96 5"
    assert len(names(tmp_path)) == 1


@pytest.mark.parametrize("spec", ["fts5", "bm25", "bm25:disk"])
def test_killed_while_building(tmp_path, spec):
    count = 12_000
    for point in ("begun", "halfway", "read", "built", "complete"):
        process = start(tmp_path, spec, count, point)
        assert process.stdout.readline() == f"reached {point}\n", process.stderr.read()
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=300)
        # what the process before left behind is removed, finished shards are not, and no folder has its final name
        (left,) = (name for name in names(tmp_path) if not name.endswith(".shards"))
        assert left.startswith(".")
    final = start(tmp_path, spec, count)
    out, errors = final.communicate(timeout=300)
    assert final.returncode == 0, errors
    undisturbed = start(tmp_path / "undisturbed", spec, count).communicate(timeout=300)[0]
    assert out.splitlines()[-1] == undisturbed.splitlines()[-1]
    assert out.splitlines()[-1].startswith("found ")
    assert [name for name in names(tmp_path) if name != "undisturbed"] == names(tmp_path / "undisturbed")


PASSAGES = [Passage(f"p{i}", f"alpha beta{i} gamma{i % 7}") for i in range(400)]


@pytest.mark.parametrize("search_engine", [Fts5(), Bm25(), Bm25Disk()], ids=lambda e: e.name)
def test_a_truncated_index_file_is_built_anew(tmp_path, search_engine):
    corpus, store = Corpus(PASSAGES), Store(tmp_path)
    before = search_engine.open(corpus, store).search(["beta3 gamma3"], 3, None)
    (folder,) = tmp_path.iterdir()
    endings = {p.suffix or p.name for p in folder.iterdir() if p.stat().st_size > 100 and p.name != MANIFEST_FILE}
    for ending in sorted(endings):
        path = next(p for p in folder.iterdir() if p.name.endswith(ending))
        os.truncate(path, path.stat().st_size // 2)
        assert search_engine.open(corpus, store).search(["beta3 gamma3"], 3, None) == before


@pytest.mark.parametrize("search_engine", [Fts5(), Bm25(), Bm25Disk()], ids=lambda e: e.name)
def test_an_index_file_of_garbage_is_built_anew_or_one_clear_error(tmp_path, search_engine):
    corpus, store = Corpus(PASSAGES), Store(tmp_path)
    before = search_engine.open(corpus, store).search(["beta3 gamma3"], 3, None)
    (folder,) = tmp_path.iterdir()
    name = {"fts5": "passages.sqlite", "bm25": "indptr.csc.index.npy", "bm25:disk": "meta.json"}[search_engine.name]
    (folder / name).write_bytes(b"\x01" * (folder / name).stat().st_size)
    assert search_engine.open(corpus, store).search(["beta3 gamma3"], 3, None) == before
    known = (folder / name).stat()  # a failing disk changes a file without its date
    (folder / name).write_bytes(b"\x01" * known.st_size)
    os.utime(folder / name, ns=(known.st_atime_ns, known.st_mtime_ns))
    with pytest.raises(BackendError, match=r"this index is damaged.*Remove the folder"):
        search_engine.open(corpus, store).search(["beta3"], 3, None)


def test_the_default_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("KSHOT_CACHE", str(tmp_path))
    assert Store().root == tmp_path / "indexes"
    monkeypatch.delenv("KSHOT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert Store().root == tmp_path / "x" / "kshot" / "indexes"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert Store().root == Path.home() / ".cache" / "kshot" / "indexes"


FULL = """
import os, resource, sys
import kshot.api, kshot.passages.source
from kshot.cli import main

def evaluated(limit):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))  # the file system takes no more, as a full disk does
    try:
        return main(["run", "-d", "handbook", "-m", sys.argv[1], "--limit", "1", "--fsync", "never", "--out", "run"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
first = evaluated(6000)
left = os.listdir(os.path.join(os.environ["KSHOT_CACHE"], "indexes"))
print([first, left, evaluated(most)])
"""


@pytest.mark.parametrize("engine", ["fts5", "bm25", pytest.param("bm25:disk", marks=pytest.mark.needs("tantivy"))])
def test_a_full_disk_is_one_message_and_leaves_nothing(tmp_path, engine):
    pytest.importorskip("resource", reason="this system has no limits on file sizes")
    done = subprocess.run(
        [sys.executable, "-c", FULL, engine], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "KSHOT_CACHE": str(tmp_path / "cache")},
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "[2, [], 0]", done.stderr
    (message,) = done.stderr.splitlines()
    assert message.startswith(f"kshot: {tmp_path}/cache/indexes: no index can be kept there: ")
    assert "or set KSHOT_CACHE." in message


def test_a_published_index_survives_a_power_cut(tmp_path, monkeypatch):
    """Its files are flushed before it gets its name, and the name after that."""
    steps, fsync, rename = [], os.fsync, Path.rename

    def flushed(descriptor):
        steps.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    def renamed(path, target):
        steps.append("rename")
        return rename(path, target)

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("open files are listed on Linux alone")
    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(Path, "rename", renamed)
    Store(tmp_path).built("test", {"x": 1}, lambda folder: (folder / "data").write_text("x"))
    at = steps.index("rename")
    assert {"data", "key.json", "files.json"} <= set(steps[:at])
    assert steps[at + 1 :] == [tmp_path.name]
