"""Index folders: whole or not there, whatever happens to who builds them."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kshot.backends.search.bm25 import Bm25
from kshot.backends.search.bm25_disk import Bm25Disk
from kshot.backends.search.fts5 import Fts5
from kshot.core.corpus import Corpus, Passage
from kshot.core.errors import BackendError, RunError
from kshot.index.store import FILES, Store

BUILDER = """
import sys
from pathlib import Path
from kshot.backends.search.specs import engine_of
from kshot.index.store import Store
from kshot.core.corpus import Corpus, Passage

def progress(label, done, total):
    print(done, total, flush=True)

count = int(sys.argv[3])
corpus = Corpus(Passage(f"p{i}", f"word{i % 97} word{i % 89} word{i}") for i in range(count))
index = engine_of(sys.argv[2]).open(corpus, Store(Path(sys.argv[1]), progress))
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


@pytest.mark.parametrize("harm", ["cut", "gone", "unsealed"])
def test_a_damaged_folder_is_built_anew(tmp_path, harm):
    store = Store(tmp_path)
    folder = store.built("kind", {}, two)
    if harm == "cut":
        (folder / "b" / "c").write_text("t")
    else:
        (folder / ("a" if harm == "gone" else FILES)).unlink()
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


def test_a_full_disk_is_one_clear_error_and_others_errors_stay(tmp_path):
    def full(folder):
        raise OSError(28, "No space left on device")

    with pytest.raises(RunError, match="No space left on device"):
        Store(tmp_path).built("kind", {}, full)
    with pytest.raises(FileNotFoundError):
        Store(tmp_path).built("kind", {}, lambda _: (tmp_path / "model").read_bytes())


def test_what_a_live_process_builds_is_left_alone(tmp_path):
    inner = []

    def build(folder):
        (folder / "half").write_text("…")
        Store(tmp_path).built("other", {}, two)  # sweeps the folder's neighbours
        inner.append(folder.is_dir())

    Store(tmp_path).built("kind", {}, build)
    assert inner == [True]
    assert len(names(tmp_path)) == 2


def test_two_at_once_both_end_well(tmp_path):
    store, places = Store(tmp_path), []

    def slow(folder):
        two(folder)
        places.append(Store(tmp_path).built("kind", {}, two))  # another is quicker

    assert store.built("kind", {}, slow) == places[0]
    assert names(tmp_path) == [places[0].name]


def start(root, spec, count):
    command = [sys.executable, "-c", BUILDER, str(root), spec, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_processes_at_once(tmp_path):
    both = [start(tmp_path, "bm25", 3000) for _ in range(2)]
    outs = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], outs
    # 2230 % 97 is 96 and 2230 % 89 is 5: it has both words; 96 and 5 have one of them more than once
    assert outs[0][0].splitlines()[-1] == outs[1][0].splitlines()[-1] == "found 2230 96 5"
    assert len(names(tmp_path)) == 1


@pytest.mark.parametrize("spec", ["fts5", "bm25", "bm25:disk"])
def test_killed_while_building(tmp_path, spec):
    rng, count = random.Random(spec), 12_000
    midway = 0
    for delay in (0, 0.01, rng.uniform(0, 0.05), rng.uniform(0, 0.2)):
        process = start(tmp_path, spec, count)
        assert process.stdout.readline()  # it has begun to index
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        process.stderr.close()
        left = names(tmp_path)
        midway += any(name.startswith(".") for name in left)
        for name in left:  # whatever has a name is whole
            assert name.startswith(".") or (tmp_path / name / FILES).exists()
    assert midway, "no kill fell into the building"
    final = start(tmp_path, spec, count)
    out, errors = final.communicate(timeout=120)
    assert final.returncode == 0, errors
    calm = start(tmp_path / "calm", spec, count).communicate(timeout=120)[0]
    assert out.splitlines()[-1] == calm.splitlines()[-1]
    assert out.splitlines()[-1].startswith("found ")
    assert [name for name in names(tmp_path) if name != "calm"] == names(tmp_path / "calm")  # leftovers are swept


PASSAGES = [Passage(f"p{i}", f"alpha beta{i} gamma{i % 7}") for i in range(400)]


@pytest.mark.parametrize("engine", [Fts5(), Bm25(), Bm25Disk()], ids=lambda e: e.name)
def test_a_truncated_index_file_is_built_anew(tmp_path, engine):
    corpus, store = Corpus(PASSAGES), Store(tmp_path)
    before = engine.open(corpus, store).search(["beta3 gamma3"], 3, None)
    (folder,) = tmp_path.iterdir()
    endings = {p.suffix or p.name for p in folder.iterdir() if p.stat().st_size > 100 and p.name != FILES}
    for ending in sorted(endings):
        path = next(p for p in folder.iterdir() if p.name.endswith(ending))
        os.truncate(path, path.stat().st_size // 2)
        assert engine.open(corpus, store).search(["beta3 gamma3"], 3, None) == before


@pytest.mark.parametrize("engine", [Fts5(), Bm25(), Bm25Disk()], ids=lambda e: e.name)
def test_an_index_file_of_garbage_is_built_anew_or_one_clear_error(tmp_path, engine):
    corpus, store = Corpus(PASSAGES), Store(tmp_path)
    before = engine.open(corpus, store).search(["beta3 gamma3"], 3, None)
    (folder,) = tmp_path.iterdir()
    name = {"fts5": "passages.sqlite", "bm25": "indptr.csc.index.npy", "bm25:disk": "meta.json"}[engine.name]
    (folder / name).write_bytes(b"\x01" * (folder / name).stat().st_size)
    assert engine.open(corpus, store).search(["beta3 gamma3"], 3, None) == before
    known = (folder / name).stat()  # what a disk does to a file, nobody writes down
    (folder / name).write_bytes(b"\x01" * known.st_size)
    os.utime(folder / name, ns=(known.st_atime_ns, known.st_mtime_ns))
    with pytest.raises(BackendError, match=r"this index is damaged.*Remove the folder"):
        engine.open(corpus, store).search(["beta3"], 3, None)


def test_the_default_place(monkeypatch, tmp_path):
    monkeypatch.setenv("KSHOT_CACHE", str(tmp_path))
    assert Store().root == tmp_path / "indexes"
    monkeypatch.delenv("KSHOT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert Store().root == tmp_path / "x" / "kshot" / "indexes"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert Store().root == Path.home() / ".cache" / "kshot" / "indexes"
