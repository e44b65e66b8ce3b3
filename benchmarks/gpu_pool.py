"""Workers on one GPU: a pool of one beside none, two workers side by side, and two where one fits.

    python benchmarks/gpu_pool.py [--json FILE]       # the main shape of gpu.py, a random Llama of 8 B shape
    python benchmarks/gpu_pool.py --small             # a small one, anywhere

Each worker makes the weights in its own memory. All are open, and have answered 48 questions, before the clock starts;
the best of two runs counts. For the last line, other tensors fill the GPU until one model and a half fits.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from gpu import MAIN, random_model, time_of, write_folder, write_subjects  # noqa: E402
from workloads import requests  # noqa: E402

from kshot.backends.hf import loading  # noqa: E402
from kshot.backends.hf.model import Transformers  # noqa: E402

REPEATS = 2


class MadeInMemory(Transformers):
    """The model of a folder that has no weights: it makes random ones."""

    def __init__(self, folder: str, *, small: bool = False) -> None:
        super().__init__(folder)
        # A worker is a process of its own: nothing else is loaded there.
        loading.load_model = lambda _path, device, *_, **__: random_model(device.type, small=small)


def opened(spec: str, workers: int):
    """Open the model in this process (0), or in workers, and wait until all of these are open."""
    from kshot.backends import open_model
    from kshot.backends.pool.opening import open_pool
    from kshot.settings import settings_from

    if not workers:
        return open_model(spec)
    model = open_pool(spec, {}, settings_from({"workers": workers}), print)
    dispatcher = model._dispatcher  # noqa: SLF001 - a user need not wait for all of them
    while not all(worker.is_open for worker in dispatcher.workers):
        list(dispatcher.step())
        time.sleep(0.01)
    return model


def seconds(spec: str, workers: int, datasets: list[str], out: Path, device: str) -> float:
    """Return the seconds of a whole run, the model open and warm: the best of a few."""
    import kshot

    options = {"dataset_path": str(out.parent), "ranking_type": "ppl_no_option"}
    model = opened(spec, workers)
    try:
        for _ in range(max(workers, 1)):  # with two workers, both should have computed something
            kshot.evaluate(model, datasets[0], limit=48, **options)
        times = []
        for number in range(REPEATS):
            run = out / str(number)
            times.append(time_of(device, lambda run=run: kshot.evaluate(model, datasets, out=run, **options)))
            scored = len((run / "samples.jsonl").read_text().splitlines())
            asked = sum(len(file.read_text().splitlines()) for file in out.parent.glob("*.jsonl"))
            if scored != asked:
                raise SystemExit(f"{scored} of {asked} questions have a score")
        return min(times)
    finally:
        model.close()


def tried(spec: str, workers: int, datasets: list[str], out: Path, device: str) -> dict:
    """Return the seconds, or why it is refused; any other error is a fault of kshot."""
    from kshot.core.errors import BackendError

    try:
        return {"seconds": seconds(spec, workers, datasets, out, device)}
    except BackendError as error:
        return {"refused": str(error)}


def fill_memory(model_bytes: int):
    """Take so much of the GPU that one model and a half fits into what is left."""
    import torch

    free = torch.cuda.mem_get_info()[0] - model_bytes * 3 // 2
    return torch.empty(max(free, 0), dtype=torch.uint8, device="cuda")


def main() -> None:
    """Measure, and write JSON after each line."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a small model, few questions")
    parser.add_argument("--questions", type=int)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    found: dict = {"device": device, "torch": torch.__version__}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        write_folder(place / "model", small=given.small)
        weights = random_model("meta", small=given.small).parameters()
        model_bytes = sum(each.numel() * each.element_size() for each in weights)
        questions = requests(MAIN, count=given.questions or (12 if given.small else MAIN.questions))
        datasets = write_subjects(MAIN, questions, place)
        spec = f"{HERE / 'gpu_pool.py'}:MadeInMemory,folder={place / 'model'}" + (",small=yes" if given.small else "")
        for line, workers in (("none", 0), ("one", 1), ("two", 2), ("two_in_too_little_memory", 2)):
            ballast = None
            if line == "two_in_too_little_memory":
                if device != "cuda":
                    continue
                ballast = fill_memory(model_bytes)
            found[line] = tried(spec, workers, datasets, place / line, device)
            del ballast
            if device == "cuda":
                torch.cuda.empty_cache()
            print(f"{line:<26}{json.dumps(found[line])}", flush=True)
            if given.json:
                given.json.write_text(json.dumps(found) + "\n")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
