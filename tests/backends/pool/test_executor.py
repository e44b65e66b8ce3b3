"""Workers that build an index: the same files, whichever worker dies; nothing is left behind."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from kshot.backends.pool.opening import PoolExecutor
from kshot.backends.pool.processes import Processes
from kshot.backends.search import bm25
from kshot.backends.search.bm25 import Bm25
from kshot.backends.search.neural import Dense, Late
from kshot.core.corpus import Corpus, Passage
from kshot.core.errors import BackendError, UsageError
from kshot.index import encoders
from kshot.index.store import Store
from tests import tiny_encoders
from tests.backends.pool.pooled import book_of_lines, index_files, is_alive, lines, wait_until
from tests.cases import some
from tests.commands import kshot_process

TEXTS = [f"The {colour} cat number {at}, über alles" for at in range(20) for colour in ("red", "blue", "green")]


def corpus_of(texts):
    return Corpus(Passage(f"p{at}", text) for at, text in enumerate(texts))


@dataclass(frozen=True)
class Squares:
    """Squares numbers, and notes each process and each number; it dies, raises or waits at one of them."""

    folder: Path
    dies_at: int = -1
    deaths: int = 0
    raises_at: int = -1
    opens: bool = True

    def open(self):
        if not self.opens:
            raise UsageError("it has no room", hint="Make some.")
        self.note("pids", os.getpid())
        return self.squared

    def note(self, name, value):
        with (self.folder / name).open("a") as file:
            file.write(f"{value}\n")

    def squared(self, number):
        self.note("begun", number)
        if number == self.dies_at and lines(self.folder / "begun").count(str(number)) <= self.deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        if number == self.raises_at:
            raise ValueError("no square")
        return number * number


def pool(workers, told=None):
    def launcher(at_most):
        count = min(workers, at_most)
        return Processes([{} for _ in range(count)]), count

    return PoolExecutor(launcher, (told if told is not None else []).append)


def all_gone(folder):
    wait_until(lambda: not any(is_alive(int(pid)) for pid in lines(folder / "pids")), "a process is left")


def test_each_item_is_done_once_and_nothing_is_left(tmp_path):
    made = []

    def item(number):
        made.append(number)
        return number

    results = pool(3).map(Squares(tmp_path), range(5, 25), item)
    first = next(results)
    assert len(made) <= 2 * 3  # the others are made when a worker is free for them
    assert sorted([first, *results]) == [(number, number * number) for number in range(5, 25)]
    assert sorted(map(int, lines(tmp_path / "begun"))) == made == list(range(5, 25))
    all_gone(tmp_path)


def test_there_are_no_more_workers_than_items(tmp_path):
    assert dict(pool(8).map(Squares(tmp_path), [3, 4], lambda number: number)) == {3: 9, 4: 16}
    assert len(lines(tmp_path / "pids")) <= 2


def test_a_worker_that_is_killed_is_replaced(tmp_path):
    told = []
    found = dict(pool(2, told).map(Squares(tmp_path, dies_at=4, deaths=2), range(10), lambda number: number))
    assert found == {number: number * number for number in range(10)}
    assert lines(tmp_path / "begun").count("4") == 3
    assert len(told) == 2
    assert all("died and starts again: it was killed by SIGKILL" in line for line in told)
    assert told[1].endswith("; shards to build again, one by one: 1")
    all_gone(tmp_path)


def test_an_item_that_kills_three_workers_ends_it(tmp_path):
    with pytest.raises(BackendError, match=r"3 workers died while they did shard 5; .*SIGKILL"):
        dict(pool(2).map(Squares(tmp_path, dies_at=4, deaths=9), range(10), lambda number: number))
    all_gone(tmp_path)


def test_errors_of_the_work_are_told(tmp_path):
    with pytest.raises(BackendError, match="building an index: it failed: ValueError: no square"):
        dict(pool(2).map(Squares(tmp_path, raises_at=3), range(10), lambda number: number))
    with pytest.raises(UsageError, match=r"it has no room.*Make some"):
        dict(pool(2).map(Squares(tmp_path, opens=False), range(10), lambda number: number))
    all_gone(tmp_path)


def test_closing_it_early_leaves_nothing(tmp_path):
    results = pool(2).map(Squares(tmp_path), range(1000), lambda number: number)
    next(results)
    results.close()
    all_gone(tmp_path)
    assert len(lines(tmp_path / "begun")) < 1000


@pytest.mark.parametrize("options", [{}, {"method": "bm25+", "stopwords": "english"}])
def test_bm25_has_the_same_bytes_with_workers(tmp_path, monkeypatch, options):
    monkeypatch.setattr(bm25, "_SHARD_PASSAGES", 7)
    for name, executor in (("plain", None), ("pool", pool(2))):
        Bm25(**options).open(corpus_of(["", *TEXTS, "…"]), Store(tmp_path / name, executor=executor))
    assert index_files(tmp_path / "plain") == index_files(tmp_path / "pool")


@pytest.mark.needs("sentence-transformers")
@pytest.mark.parametrize("make", some([Dense, Late], 1))
def test_vectors_have_the_same_bytes_with_workers_of_as_many_threads(tmp_path, monkeypatch, make):
    monkeypatch.setattr(encoders, "SHARD_PASSAGES", 25)
    model = str(tiny_encoders.sentence_encoder(tmp_path / "tiny", length=24))
    for name, executor in (("plain", None), ("pool", pool(1))):  # several: BM25 above
        make(model).open(corpus_of(TEXTS), Store(tmp_path / name, executor=executor))
    assert index_files(tmp_path / "plain") == index_files(tmp_path / "pool")


def test_a_killed_run_goes_on_with_its_shards(tmp_path):
    arguments = book_of_lines(tmp_path, 17_000)  # three shards

    def run(out, *more, cache="cache", point=""):
        environment = {**os.environ, "KSHOT_CACHE": str(tmp_path / cache), "KSHOT_KILL_POINT": point}
        return kshot_process(*arguments, "--out", out, *more, cwd=tmp_path, env=environment)

    killed = run("a", "--workers", "2", point="index.building 2")
    assert killed.code == -signal.SIGKILL, killed.err
    (kept,) = (tmp_path / "cache" / "indexes").glob("*.shards")
    before = {path.name: path.stat().st_mtime_ns for path in kept.glob("*.npz")}
    assert len(before) == 2
    again = run("a", "--workers", "2", point="index.building 2")  # the first is to take up the two
    assert again.code == -signal.SIGKILL, again.err
    after = {path.name: path.stat().st_mtime_ns for path in kept.glob("*.npz")}
    assert len(after) == 3
    assert after.items() > before.items()  # these were not done again
    ended = run("a", "--workers", "2")
    assert ended.code == 0, ended.err
    plain = run("b", cache="other")
    assert plain.code == 0, plain.err
    assert index_files(tmp_path / "cache" / "indexes") == index_files(tmp_path / "other" / "indexes")
    for name in ("samples.jsonl", "summary.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
