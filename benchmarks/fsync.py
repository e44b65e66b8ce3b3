"""What flushing costs: samples per second of a whole run with a model that answers at once, for each ``--fsync``.

    python benchmarks/fsync.py [SAMPLES] [FOLDER]

Runs are written to FOLDER (default: the folder for temporary files), so name one on the disk that you want to measure.
Each mode has three runs in turn with the others; the fastest counts, because others use the disk too.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import kshot
from kshot import Em, GenerationDataset

MODES = ("never", "group", "always")
SAMPLES, ROUNDS = 3000, 3


class Numbers(GenerationDataset):
    """Texts of the length of a short question."""

    instruction = "Question: {question}\nAnswer:"
    metrics = (Em(),)
    evaluation_set = "test"

    def load_raw_dataset(self, dataset_path, *rest):  # noqa: ARG002 - all loaders have these arguments
        """Make so many rows."""
        self.evaluation_data = [{"number": number} for number in range(int(dataset_path))]

    def format_instance(self, row):
        """Ask for a number."""
        return {"question": f"what is the number {row['number']} in words?", "target": "yes"}


def seconds(mode: str, samples: int, folder: Path) -> float:
    """Return how long a run takes."""
    start = time.perf_counter()
    kshot.evaluate(lambda _: "yes", Numbers, dataset_path=str(samples), out=folder, fsync=mode)
    return time.perf_counter() - start


def one_flush(folder: Path) -> float:
    """Return the milliseconds of one flush of 200 new bytes, the median of 50."""
    taken = []
    with (folder / "flushed").open("ab", buffering=0) as file:
        for _ in range(50):
            file.write(b"x" * 200)
            start = time.perf_counter()
            os.fsync(file.fileno())
            taken.append(1000 * (time.perf_counter() - start))
    return sorted(taken)[25]


def main() -> None:
    """Measure every mode."""
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else SAMPLES
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as root:
        print(f"one flush: {one_flush(Path(root)):.2f} ms")
        seconds("never", 100, Path(root) / "warm")
        best = {mode: float("inf") for mode in MODES}
        for number in range(ROUNDS):
            for mode in MODES:
                best[mode] = min(best[mode], seconds(mode, samples, Path(root) / f"{mode} {number}"))
        for mode in MODES:
            print(f"--fsync {mode}: {samples / best[mode]:,.0f} samples per second")


if __name__ == "__main__":
    main()
