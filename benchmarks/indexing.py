"""Building indexes with workers: seconds, processor time, and the peak of memory of this process and of each worker.

    .venv/bin/python benchmarks/indexing.py                                    # 1,000,000 passages by BM25
    .venv/bin/python benchmarks/indexing.py --engine dense --passages 20000 --words 20 --workers 0 2    # by MiniLM

Run it on an idle machine. The passages are made by a fixed seed: words by Zipf's law, 60 in the mean (a word is about
four tokens, since none is English). Every build is a process of its own; that without workers comes first, and the
files of the others are compared with its files. The corpus is made before the clock starts. ``--interrupt`` kills each
build but the first with SIGKILL at half of its shards, and goes on.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from kshot.backends.pool.opening import open_executor
from kshot.backends.search.specs import make_search_engine
from kshot.core.corpus import Corpus, Passage
from kshot.core.work_folders import file_digest
from kshot.index.store import MANIFEST_FILE, Store
from kshot.settings import settings_from

VOCABULARY, SEED = 200_000, 7
BLOCK = 10_000


def corpus_of(passages: int, mean_words: int) -> Corpus:
    """Make passages of words that are as common as words of a language are."""
    draw = np.random.default_rng(SEED)
    chances = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    words = np.asarray(
        [f"{'bcdfghklmnprst'[at % 14]}{'aeiou'[at % 5]}{at:x}" for at in range(VOCABULARY)], dtype=object
    )
    found: list[Passage] = []
    while len(found) < passages:
        lengths = draw.poisson(mean_words, min(BLOCK, passages - len(found)))
        drawn = words[np.searchsorted(chances, draw.random(int(lengths.sum())) * chances[-1])]
        ends = np.cumsum(lengths).tolist()
        for first, last in zip([0, *ends[:-1]], ends, strict=True):
            found.append(Passage(f"p{len(found)}", " ".join(drawn[first:last])))
    return Corpus(found)


def build(root: Path, given: argparse.Namespace, kill_at: float) -> None:
    """Build one index, and print what it took."""
    corpus, (workers,) = corpus_of(given.passages, given.words), given.workers
    corpus.digest  # noqa: B018 - computed now, outside of the time
    settings = settings_from({"workers": workers} if workers else {})
    before = peak(os.getpid())
    first: list[int] = []
    peaks = {0: 0}

    def progress(_: str, done: int, total: int) -> None:
        first.append(done)
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        peaks.update({int(child): peak(int(child)) for child in children})
        if kill_at and done >= total * kill_at:
            os.kill(os.getpid(), 9)

    def used() -> float:
        """Return the processor time of this process and of the workers that have ended."""
        found = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(each.ru_utime + each.ru_stime for each in found)

    executor = open_executor(settings, print, device=None)
    began, spent = time.perf_counter(), used()
    make_search_engine(given.engine).open(corpus, Store(root, progress, executor))
    seconds, spent = time.perf_counter() - began, used() - spent
    shown = f"{before:>11,} {peak(os.getpid()):>9,} {max(peaks.values()):>12,}"
    print(f"{workers:>7} {first[0]:>7} {seconds:>9.1f} {spent:>9.1f} {shown}", flush=True)


def peak(process: int) -> int:
    """Return the most memory that a process has had, in MiB; ``ru_maxrss`` of a child counts what its parent had."""
    with suppress(OSError):  # it has ended
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) >> 10
    return 0


def digests(root: Path) -> dict[str, str]:
    """Return the digest of each file of the one index, but for the manifest, which has dates."""
    (folder,) = (path for path in root.iterdir() if path.is_dir())
    found: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        if path.name != MANIFEST_FILE:
            with path.open("rb") as file:
                found[path.name] = file_digest(file).hex()
    return found


def main() -> None:
    """Build the index with each number of workers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="bm25")
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--words", type=int, default=60)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--interrupt", action="store_true")
    parser.add_argument("--build", nargs=2, metavar=("ROOT", "KILL_AT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.build:
        build(Path(given.build[0]), given, float(given.build[1]))
        return
    print(f"{given.engine}, {given.passages:,} passages; 0 workers: in this process. Peaks of memory in MiB.")
    print("workers    from   seconds       CPU with corpus      peak  each worker")
    first: dict[str, str] | None = None
    for workers in given.workers:
        with tempfile.TemporaryDirectory() as root:
            command = [sys.executable, __file__, "--engine", given.engine, "--passages", str(given.passages)]
            command += ["--words", str(given.words), "--workers", str(workers), "--build", root]
            if given.interrupt and first is not None:
                subprocess.run([*command, "0.5"], check=False)
            subprocess.run([*command, "0"], check=True)
            found = digests(Path(root))
            if first is not None:
                same = [name for name in found if found[name] == first.get(name)]
                print(f"        {len(same)} of {len(first)} files have the same bytes as the first build's", flush=True)
            first = first or found


if __name__ == "__main__":
    main()
