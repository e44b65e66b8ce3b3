"""Choosing 8 examples for each of 10,000 test rows among 50,000 training rows of 60 words.

    python benchmarks/retrievers.py [TEST_ROWS TRAIN_ROWS]

It prints the CPU seconds of each choice (all threads, from rows or vectors to lists of examples) and the peak memory.
Words are drawn by Zipf's law, or uniformly; vectors have 384 numbers, as MiniLM's do. Each must stay below 60 seconds.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import numpy as np

WORDS, VOCABULARY, SHOTS, WIDTH = 60, 30_000, 8, 384


def rows(kind: str, many: int, seed: int):
    """Make rows of 60 words: by Zipf's law, or each word as likely as any other."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, VOCABULARY + 1) if kind == "zipf" else np.ones(VOCABULARY)
    drawn = rng.choice(VOCABULARY, (many, WORDS), p=weights / weights.sum())
    return [{"question": " ".join(f"w{word}" for word in line), "answer": "yes"} for line in drawn.tolist()]


def measure(kind: str, tests: int, trains: int) -> tuple[float, float]:
    """Return the CPU seconds and the MiB of one choice."""
    from kshot.retrievers import BM25Retriever, TopkRetriever

    if kind == "vectors":
        rng = np.random.default_rng(2)
        dataset = {"train": [{"q": f"a{i}"} for i in range(trains)], "test": [{"q": f"b{i}"} for i in range(tests)]}
        train, test = (rng.standard_normal((many, WIDTH), dtype=np.float32) for many in (trains, tests))
        made = TopkRetriever(dataset, ice_num=SHOTS, vectors=(train, test))
    else:
        made = BM25Retriever({"train": rows(kind, trains, 0), "test": rows(kind, tests, 1)}, ice_num=SHOTS)
    began = time.process_time()
    found = made.retrieve()
    spent = time.process_time() - began
    assert len(found) == tests
    assert all(len(set(each)) == SHOTS for each in found)
    return spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure each choice in a process of its own, so that peaks do not mix."""
    if sys.argv[1:2] == ["--one"]:
        print(*measure(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
        return
    sizes = sys.argv[1:3] or ["10000", "50000"]
    print(f"{sizes[0]} test rows × {sizes[1]} training rows, {SHOTS} examples each")
    for kind, name in (("zipf", "BM25, Zipf words"), ("even", "BM25, even words"), ("vectors", "nearest vectors")):
        command = [sys.executable, __file__, "--one", kind, *sizes]
        spent, peak = map(float, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
        print(f"{name:<18} {spent:>6.1f} s CPU  {peak:>6.0f} MiB")


if __name__ == "__main__":
    main()
