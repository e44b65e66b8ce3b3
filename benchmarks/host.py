"""The host's part in scoring on a GPU: how long a GPU would wait for ``kshot.evaluate``. It needs no GPU.

    python benchmarks/host.py                                     # the main shape of gpu.py, and all of MMLU's
    python benchmarks/host.py --shapes "MMLU, letters" --questions 1140
    python benchmarks/host.py --shapes "1,500-token prefix" --profile 25

All that the host does is real: datasets, prompts, tokens, tries, rows, journal, scores, files. The device is simulated.
It computes one row after the other, at 35 µs for a token (a row of 2,048 in 72 ms, as an H200 with a Llama of 8 B
shape) and 8 ms for a row at least; starting a row takes the host 20 ms, and a flush of the disk 2 ms. The clock is the
CPU time of the thread that runs ``evaluate``, with these times added, so other programs on this machine change little.
Tokenizers use this one thread only. It prints a line for each shape, and JSON as its last line.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

os.environ["TOKENIZERS_PARALLELISM"] = "false"
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from gpu import MAIN, llama_config, write_subjects  # noqa: E402
from workloads import MMLU, SHAPES, Shape, requests, tokenizer  # noqa: E402

TOKEN_SECONDS = 35e-6
MIN_ROW_SECONDS = 8e-3
LAUNCH_SECONDS = 20e-3
FLUSH_SECONDS = 2e-3
ALL = {shape.name: shape for shape in (MAIN, *MMLU, *SHAPES.values())}


class SimulatedDevice:
    """A device that computes rows one after the other while the host goes on, and both their clocks."""

    def __init__(self) -> None:
        self.added = 0.0
        """Seconds that the host would have waited, or spent on what is not done here."""
        self.restart()

    def restart(self) -> None:
        """Forget what was computed; the run begins now."""
        self.began = self.now()
        self.free = self.began
        self.busy = self.waited = 0.0
        self.gaps: list[float] = []
        self.last_launch: float | None = None
        self.host: list[float] = []
        """Seconds of the host from one row to the next, without what it waited."""

    def now(self) -> float:
        """Return the time of the host."""
        return time.thread_time() + self.added

    def launch(self, tokens: int) -> float:
        """Start a row of this many tokens; return when it will be done."""
        self.added += LAUNCH_SECONDS
        now = self.now()
        self.gaps.append(max(now - self.free, 0.0))
        own = now - self.waited
        if self.last_launch is not None:
            self.host.append(own - self.last_launch)
        self.last_launch = own
        seconds = max(tokens * TOKEN_SECONDS, MIN_ROW_SECONDS)
        self.busy += seconds
        self.free = max(now, self.free) + seconds
        return self.free

    def wait(self, until: float) -> None:
        """Let the host wait for the device."""
        waited = max(until - self.now(), 0.0)
        self.added += waited
        self.waited += waited


def simulate(device: SimulatedDevice) -> None:
    """Put the device in the place of torch: all that would run on a GPU takes its time, and gives made-up numbers."""
    import torch
    import transformers

    from kshot.backends.hf import loading, model_runner, packing, scoring
    from kshot.core import hub

    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(llama_config(small=False)).eval()
    loading.load_model = lambda *_, **__: model
    hub.choose_device = lambda *_: torch.device("cuda")
    packing.input_device = lambda *_: torch.device("cuda")
    model_runner.trial_failure = lambda _: ""

    def compute(self, tokens, until):
        self.computed += tokens
        return until(tokens)

    packed = packing.PackedModel
    packed.compute_row = lambda self, tokens, *_, **__: compute(self, len(tokens), device.launch)
    packed.compute_batch = lambda self, batch, *_, **__: compute(self, batch.tokens.size, device.launch)
    packed.keep_places = packed.append_states = lambda *_: None
    packed.copy_states = lambda *_: []
    scoring.gather_logprobs = lambda _model, done, _rows, tokens: (
        done,
        np.stack([-(tokens % 89 + 1) / 16, np.zeros(len(tokens))]),
    )

    class Transfer:
        def __init__(self, _model, found):
            self.done, self.values = found

        def read(self):
            device.wait(self.done)
            return self.values

    scoring._HostTransfer = Transfer  # noqa: SLF001 - the one place where the host waits for a GPU
    fsync, main = os.fsync, threading.main_thread()

    def flush(descriptor):
        if threading.current_thread() is main:
            device.added += FLUSH_SECONDS
        fsync(descriptor)

    os.fsync = flush


def model_folder(folder: Path) -> Path:
    """Write what a model's folder has, with empty weights."""
    import torch
    from safetensors.torch import save_file

    llama_config(small=False).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    save_file({"simulated": torch.zeros(1)}, folder / "model.safetensors")
    return folder


def measure(shape: Shape, count: int | None, device: SimulatedDevice, model: Path, profile: int) -> dict:
    """Run one shape, and print its line of the table."""
    import kshot

    questions = requests(shape, count=count or shape.questions)
    profiler = cProfile.Profile(time.thread_time)
    with tempfile.TemporaryDirectory() as place:
        datasets = write_subjects(shape, questions, Path(place))
        options = {"dataset_path": place, "ranking_type": "ppl_no_option"}
        kshot.evaluate(f"hf:{model}", datasets[0], limit=48, **options)
        device.restart()
        if profile:
            profiler.enable()
        kshot.evaluate(f"hf:{model}", datasets, out=Path(place) / "run", **options)
        profiler.disable()
        ended = max(device.now(), device.free)
        scored = len((Path(place) / "run" / "samples.jsonl").read_text().splitlines())
        if scored != len(questions):
            raise SystemExit(f"{scored} of {len(questions)} questions have a score")
    total = ended - device.began
    row = {"shape": shape.name, "questions": len(questions), "rows": len(device.gaps), "seconds": total}
    row |= {"idle": 1 - device.busy / total, "first": device.gaps[0], "last": ended - device.free}
    row |= {"between": sum(device.gaps[1:]), "host_ms": float(np.mean(device.host)) * 1e3}
    row |= {"longest_host_ms": max(device.host) * 1e3, "gaps": sum(gap > 0 for gap in device.gaps[1:])}
    print(
        f"{shape.name:<22}{len(questions):>6} questions {row['rows']:>5} rows {total:>7.2f} s"
        f"  idle {row['idle']:>6.1%}:  {row['first']:.2f} s before,"
        f" {row['between']:.2f} s in {row['gaps']} gaps, {row['last']:.2f} s after;"
        f"  host {row['host_ms']:.0f} ms a row, at most {row['longest_host_ms']:.0f}",
        flush=True,
    )
    if profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(profile)
        pstats.Stats(profiler).sort_stats("cumtime").print_stats(2 * profile)
    return row


def main() -> None:
    """Measure the shapes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="*", choices=ALL, default=[shape.name for shape in (MAIN, *MMLU)])
    parser.add_argument("--questions", type=int, help="questions of each shape (default: all)")
    parser.add_argument("--profile", type=int, default=0, metavar="LINES", help="show where the host spends its time")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    device = SimulatedDevice()
    simulate(device)
    with tempfile.TemporaryDirectory() as place:
        model = model_folder(Path(place))
        rows = [measure(ALL[name], given.questions, device, model, given.profile) for name in given.shapes]
    body = json.dumps(rows)
    if given.json:
        given.json.write_text(body + "\n")
    print(body)


if __name__ == "__main__":
    main()
