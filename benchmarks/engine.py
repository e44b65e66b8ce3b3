"""The engine's own cost: a task of trivial samples, and the same through a whole run (replay, journal, files).

    python benchmarks/engine.py [SAMPLES …]

Prints CPU microseconds per sample and peak memory for each size; memory must not grow with the number of samples.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DATASET = """
from kshot import Em, GenerationDataset

class Echo(GenerationDataset):
    instruction = "Question: {{ question }}\\nAnswer:"
    metrics = [Em()]
    evaluation_set = "test"

    def load_raw_dataset(self, dataset_path, *rest):
        self.evaluation_data = range_rows(int(dataset_path))

    def format_instance(self, row):
        return {"question": row["q"], "target": row["a"]}

class range_rows:
    def __init__(self, size): self.size = size
    def __len__(self): return self.size
    def __getitem__(self, i):
        if i >= self.size: raise IndexError
        return {"q": f"what is the number {i} in words and digits?", "a": f"it is {i}"}
"""


def engine_only(samples: int) -> tuple[float, float]:
    """Drive trivial generators with answers at hand: what the loop, the addresses and the queue cost."""
    from kshot.core.engine import drive
    from kshot.core.memo import MemoryMemo
    from kshot.core.records import Generate, Generated, Prompt, ask

    class Echo:
        name = fingerprint = "echo"
        answers = (Generate,)

        def serve(self, waiting):
            for request in waiting:
                yield request, Generated("yes")

    class Forgets(MemoryMemo):
        def put(self, key, asked, response):
            pass

    def job(i):
        (reply,) = yield from ask(Generate(Prompt(f"Question: what is the number {i} in words and digits?\nAnswer:")))
        return reply.text

    began = time.process_time()
    done = sum(1 for _ in drive(((i, job(i)) for i in range(samples)), {"model": Echo()}, Forgets()))
    assert done == samples
    return (time.process_time() - began) / samples * 1e6, _peak()


def whole_run(samples: int, folder: Path) -> tuple[float, float]:
    """Run a class dataset on the replay backend into a run folder: formatting, template, journal, scores, files."""
    recording = folder / f"recorded-{samples}.jsonl"
    with recording.open("w") as file:
        for i in range(samples):
            prompt = f"Question: what is the number {i} in words and digits?\nAnswer:"
            file.write(json.dumps({"prompt": prompt, "response": f" It is {i}."}) + "\n")
    (folder / "echo.py").write_text(DATASET)
    import kshot

    began = time.process_time()
    result = kshot.evaluate(
        f"replay:{recording}", f"{folder / 'echo.py'}:Echo", dataset_path=str(samples), out=folder / f"run-{samples}"
    )
    spent = (time.process_time() - began) / samples * 1e6
    assert result.results[0]["value"] == 100.0, result.results
    assert result.results[0]["n"] == samples
    return spent, _peak()


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure every size in a process of its own, so that peaks do not mix."""
    if sys.argv[1:2] == ["--one"]:
        kind, samples, folder = sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
        print(*(engine_only(samples) if kind == "engine" else whole_run(samples, folder)))
        return
    sizes = [int(size) for size in sys.argv[1:]] or [1_000, 10_000, 100_000]
    print(f"{'samples':>10}  {'engine µs':>10} {'MiB':>6}  {'whole run µs':>12} {'MiB':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            cells = []
            for kind in ("engine", "run"):
                command = [sys.executable, __file__, "--one", kind, str(size), folder]
                cells += subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            engine, peak, run, run_peak = map(float, cells)
            print(f"{size:>10}  {engine:>10.1f} {peak:>6.0f}  {run:>12.1f} {run_peak:>6.0f}")


if __name__ == "__main__":
    main()
