"""An index that is built in shards: the same bytes however it is divided and interrupted, and no shard done twice."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kshot.backends.search import bm25
from kshot.backends.search.bm25 import Bm25
from kshot.backends.search.neural import Dense, Late
from kshot.core.corpus import Corpus, Passage
from kshot.core.errors import RunError, UsageError
from kshot.core.protocols import InlineExecutor
from kshot.core.work_folders import resumable_folder
from kshot.index import encoders, store as stores
from kshot.index.shards import TextShards, shard_ranges
from kshot.index.store import MANIFEST_FILE, Store
from tests import tiny_encoders


def corpus_of(texts):
    return Corpus(Passage(f"p{at}", text) for at, text in enumerate(texts))


def content(folder):
    """The bytes of an index, but for the dates of its manifest."""
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name != MANIFEST_FILE}


def names(root):
    return sorted(path.name for path in root.iterdir())


class Backwards:
    """Yields the results in the wrong order, as workers may."""

    def map(self, work, numbers, item):
        yield from reversed(list(InlineExecutor().map(work, numbers, item)))


class InterruptionError(Exception):
    """What happens to a build."""


@dataclass(frozen=True)
class Lengths:
    """Counts characters, and writes down every shard that it does."""

    log: Path

    def open(self):
        return self.measured

    def measured(self, texts):
        with self.log.open("a") as file:
            file.write(f"{texts[0]}\n")
        return {"lengths": np.asarray([len(text) for text in texts])}


def lengths_index(log, count=6, each=1):
    corpus = corpus_of("x" * at for at in range(1, count + 1))

    def join(folder, parts):
        found = [length for _ in range(2) for part in parts for length in part["lengths"].tolist()]  # twice
        (folder / "lengths").write_text(" ".join(map(str, found)))

    return TextShards("lengths", Lengths(log), corpus, shard_ranges(corpus, each, 1000), join)


@given(st.lists(st.integers(0, 12), max_size=40), st.integers(1, 9), st.integers(1, 30))
def test_shards_divide_a_corpus(sizes, passages, characters):
    found = shard_ranges(corpus_of("x" * size for size in sizes), passages, characters)
    assert [at for shard in found for at in shard] == list(range(len(sizes)))
    for shard in found:
        assert len(shard) <= passages
        assert len(shard) == 1 or sum(sizes[at] for at in shard) <= characters
    assert all(found) or (found == [range(0)] and not sizes)


@pytest.mark.parametrize("executor", [InlineExecutor(), Backwards()])
def test_parts_are_joined_in_order_whatever_the_order_of_results(tmp_path, executor):
    reports = []
    store = Store(tmp_path / "root", lambda *report: reports.append(report), executor)
    folder = store.sharded("kind", {}, lengths_index(tmp_path / "log"))
    assert (folder / "lengths").read_text() == "1 2 3 4 5 6 1 2 3 4 5 6"
    assert reports == [("lengths", done, 6) for done in range(7)]
    assert names(store.root) == [folder.name]
    assert store.sharded("kind", {}, lengths_index(tmp_path / "log")) == folder
    assert len((tmp_path / "log").read_text().split()) == 6  # not built again


def interrupted_at(root, log, done):
    def stop(_, now, total):
        if now == done:
            raise InterruptionError

    with pytest.raises(InterruptionError):
        Store(root, stop).sharded("kind", {}, lengths_index(log))


def test_an_interrupted_build_goes_on_where_it_was(tmp_path):
    root, log, reports = tmp_path / "root", tmp_path / "log", []
    interrupted_at(root, log, 2)
    (kept,) = root.iterdir()
    assert kept.name.endswith(".shards")
    interrupted_at(root, log, 5)
    folder = Store(root, lambda *report: reports.append(report)).sharded("kind", {}, lengths_index(log))
    assert log.read_text().split() == ["x" * at for at in range(1, 7)]  # each shard once
    assert reports[0] == ("lengths", 5, 6)
    assert (folder / "lengths").read_text() == "1 2 3 4 5 6 1 2 3 4 5 6"
    assert names(root) == [folder.name]


@pytest.mark.parametrize("harm", ["cut", "emptied", "gone"])
def test_a_damaged_part_is_done_again(tmp_path, harm):
    root, log = tmp_path / "root", tmp_path / "log"
    interrupted_at(root, log, 4)
    path = sorted(next(root.iterdir()).glob("*.npz"))[2]
    whole = path.read_bytes()
    if harm == "gone":
        path.unlink()
    else:
        path.write_bytes({"cut": whole[:-9], "emptied": b""}[harm])
    folder = Store(root).sharded("kind", {}, lengths_index(log))
    assert (folder / "lengths").read_text() == "1 2 3 4 5 6 1 2 3 4 5 6"
    assert sorted(log.read_text().split()) == sorted(["x" * at for at in range(1, 7)] + ["xxx"])


def test_a_flipped_bit_anywhere_in_a_part_is_found(tmp_path):
    root, log = tmp_path / "root", tmp_path / "log"
    interrupted_at(root, log, 5)
    path = sorted(next(root.iterdir()).glob("*.npz"))[2]
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
        log.unlink()
        interrupted_at(root, log, 5)
        assert log.read_text().split() == ["xxx"], f"byte {at}"


def test_parts_of_other_shards_are_not_taken_up(tmp_path):
    root, log = tmp_path / "root", tmp_path / "log"
    interrupted_at(root, log, 4)
    folder = Store(root).sharded("kind", {}, lengths_index(log, each=2))
    assert (folder / "lengths").read_text() == "1 2 3 4 5 6 1 2 3 4 5 6"


def test_another_process_at_the_same_shards_is_left_alone(tmp_path):
    root, log = tmp_path / "root", tmp_path / "log"
    interrupted_at(root, log, 2)
    (kept,) = root.iterdir()
    with resumable_folder(root, kept.name) as held:  # another process does this
        assert held == kept
        folder = Store(root).sharded("kind", {}, lengths_index(log))
        assert len(list(held.glob("*.npz"))) == 2
        assert names(root) == sorted((kept.name, folder.name))
    assert len(log.read_text().split()) == 2 + 6  # it began anew, in a folder of its own


def test_abandoned_shards_are_removed_after_a_week(tmp_path):
    root, log = tmp_path / "root", tmp_path / "log"
    interrupted_at(root, log, 2)
    (kept,) = root.iterdir()
    other = Store(root).built("other", {"n": 1}, lambda folder: None)
    assert names(root) == sorted((kept.name, other.name))
    long_ago = time.time() - stores._SHARDS_SECONDS - 60
    os.utime(kept, (long_ago, long_ago))
    second = Store(root).built("other", {"n": 2}, lambda folder: None)
    assert names(root) == sorted((other.name, second.name))


def test_a_disk_that_is_full_is_one_clear_error_and_the_parts_stay(tmp_path, monkeypatch):
    root, log, replace = tmp_path / "root", tmp_path / "log", Path.replace

    def full(path, target):
        if "part2-2-3" in str(target):
            raise OSError(28, "No space left on device", str(target))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(RunError, match="No space left on device"):
        Store(root).sharded("kind", {}, lengths_index(log))
    monkeypatch.undo()
    Store(root).sharded("kind", {}, lengths_index(log))
    assert log.read_text().split() == ["x" * at for at in (1, 2, 3, 3, 4, 5, 6)]


# ---- real search engines ----

TEXTS = [
    f"The {colour} {animal} number {at}, über alles"
    for at in range(9)
    for colour in ("red", "blue")
    for animal in ("cat", "snow", "")
]


@pytest.mark.parametrize("options", [{}, {"method": "bm25+"}, {"method": "bm25l", "stopwords": "english"}])
def test_bm25_has_the_same_bytes_in_any_shards(tmp_path, monkeypatch, options):
    found = []
    for each in (1, 7, 1000):
        monkeypatch.setattr(bm25, "_SHARD_PASSAGES", each)
        Bm25(**options).open(corpus_of(["", *TEXTS, "…", ""]), Store(tmp_path / str(each), executor=Backwards()))
        (folder,) = (tmp_path / str(each)).iterdir()
        found.append(content(folder))
    assert found[0] == found[1] == found[2]
    assert len(found[0]) >= 6


@pytest.mark.needs("sentence-transformers")
@pytest.mark.parametrize("make", [Dense, Late])
def test_vectors_are_the_same_in_any_order_and_after_an_interruption(tmp_path, monkeypatch, make):
    monkeypatch.setattr(encoders, "SHARD_PASSAGES", 10)
    model = str(tiny_encoders.sentence_encoder(tmp_path / "tiny", length=24))
    corpus = corpus_of(["", *TEXTS, "cat " * 60])

    def stop(_, done, total):
        if done == 3:
            raise InterruptionError

    make(model).open(corpus, Store(tmp_path / "a"))
    with pytest.raises(InterruptionError):
        make(model).open(corpus, Store(tmp_path / "b", stop, Backwards()))
    make(model).open(corpus, Store(tmp_path / "b", executor=Backwards()))
    (one,), (other,) = (tmp_path / "a").iterdir(), (tmp_path / "b").iterdir()
    assert content(one) == content(other)


@pytest.mark.needs("sentence-transformers")
def test_settings_that_no_model_can_work_with_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(encoders, "SHARD_PASSAGES", 10)
    model = str(tiny_encoders.sentence_encoder(tmp_path / "tiny", length=24))
    with pytest.raises(UsageError, match="a window of 99 tokens"):
        Dense(model, window=99).open(corpus_of(TEXTS), Store(tmp_path / "root"))
    assert names(tmp_path / "root") == []
