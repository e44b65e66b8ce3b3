"""Workers: how much faster two are than one, and what each launcher costs per request.

    python benchmarks/pool.py [--questions N] [--requests N] [--no-ray]

Scoring: a random Llama on a CPU, questions with four options after a prefix of 1,500 tokens. Each worker has one
thread, has loaded its weights, and has answered a few other questions before the clock starts. The cost per request is
that of a model that answers at once, through the engine: alone, in worker processes, and in Ray actors. The machine
must be idle.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1")
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from workloads import SHAPES, Shape, requests, small_model  # noqa: E402

from kshot.backends import open_model  # noqa: E402
from kshot.backends.pool.opening import open_pool  # noqa: E402
from kshot.core.engine import drive  # noqa: E402
from kshot.core.memo import MemoryMemo  # noqa: E402
from kshot.core.records import Generate, Loglik, Prompt, ask  # noqa: E402
from kshot.settings import settings_from  # noqa: E402

ECHO = """
from kshot import Generate, Generated

class Echo:
    name = fingerprint = "echo"
    answers = (Generate,)

    def serve(self, queue):
        while batch := queue.take():
            for request in batch:
                yield request, Generated("yes")
"""
REPEATS = 3


class Forgets(MemoryMemo):
    """Keeps nothing, so that equal requests are asked again."""

    def put(self, key, asked, response):
        """Drop the answer."""


def seconds(model, asked) -> float:
    """Return the wall-clock seconds that a model takes for requests, through the engine."""

    def method(request):
        (reply,) = yield from ask(request)
        return reply

    began = time.perf_counter()
    count = sum(1 for _ in drive(((request, method(request)) for request in asked), {"model": model}, Forgets()))
    assert count == len(asked)
    return time.perf_counter() - began


def logliks(shape: Shape, seed: int, count: int) -> list[Loglik]:
    """Return the questions of a shape."""
    return [Loglik(Prompt(text), tuple(options)) for text, options in requests(shape, seed, count)]


def pooled(spec: str, workers: int, **more):
    """Open a model in workers; all of them are open, and have loaded what they load with the first request."""
    model = open_pool(spec, {}, settings_from({"workers": workers, **more}), print)
    dispatcher = model._dispatcher  # noqa: SLF001 - a user need not wait for all of them
    while not all(worker.is_open for worker in dispatcher.workers):
        list(dispatcher.step())
        time.sleep(0.01)
    return model


def scoring(folder: Path, questions: int) -> None:
    """Print how long one worker and two take for the same questions, the best of a few times."""
    shape, found = SHAPES["prefix1500"], {}
    for workers in (1, 2):
        model = pooled(f"hf:{folder}", workers)
        try:
            seed = 100
            while True:  # until each worker has computed something
                seconds(model, logliks(shape, seed := seed + 1, 8))
                if len([report for report in model._dispatcher.reports() if report.tokens[1]]) == workers:  # noqa: SLF001
                    break
            before = model.abilities.tokens_read()[1]
            times = [seconds(model, logliks(shape, seed, questions)) for seed in range(REPEATS)]
            computed = (model.abilities.tokens_read()[1] - before) // REPEATS
        finally:
            model.close()
        found[workers] = min(times)
        print(f"{workers} worker(s), one thread each: {min(times):.2f} s, {computed:,} tokens computed")
    print(f"two workers are {found[1] / found[2]:.2f} × as fast as one (wanted: 1.7)")


def costs(folder: Path, count: int, *, ray: bool) -> None:
    """Print the microseconds per request of each way to run a model that answers at once."""
    (folder / "echo.py").write_text(ECHO)
    spec = f"{folder / 'echo.py'}:Echo"
    asked = [Generate(Prompt(f"Question: what is the number {i} in words and digits?\nAnswer:")) for i in range(count)]
    ways = {
        "none": lambda: open_model(spec),
        "1 process": lambda: pooled(spec, 1),
        "2 processes": lambda: pooled(spec, 2),
    }
    if ray:
        ways |= {
            "1 Ray actor": lambda: pooled(spec, 1, ray="local"),
            "2 Ray actors": lambda: pooled(spec, 2, ray="local"),
        }
    plain = 0.0
    for name, opened in ways.items():
        model = opened()
        try:
            seconds(model, asked[:1000])
            took = min(seconds(model, asked) for _ in range(REPEATS)) / count * 1e6
        finally:
            model.close()
        plain = plain or took
        print(f"{name:14} {took:7.1f} µs a request ({took - plain:+.1f})")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=400)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--no-ray", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        costs(Path(folder), given.requests, ray=not given.no_ray)
        scoring(small_model(Path(folder) / "model"), given.questions)


if __name__ == "__main__":
    main()
