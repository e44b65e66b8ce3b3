"""Check the numbers and texts of a GPU: tree-packed rows against every sequence by itself on the CPU, in float32.

    python benchmarks/gpu_check.py

For each shape and dtype, it prints the largest difference of a log-probability.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from scoring import plain_batches  # noqa: E402
from workloads import SHAPES, ChunkedQueue, requests, small_model  # noqa: E402

COUNTS = {"text": 40, "letters": 40, "prefix1500": 20, "no prefix": 40, "short, all alike": 60, "fifty options": 8}


def packed_logprobs(folder: str, questions, device: str, dtype: str) -> list[list[float]]:
    """Return kshot's log-probabilities."""
    from kshot.backends.hf.model import Transformers
    from kshot.core.records import Loglik, Prompt

    model = Transformers(folder, device=device, dtype=dtype)
    logliks = [Loglik(Prompt(prompt), tuple(options)) for prompt, options in questions]
    found = dict(model.serve(ChunkedQueue(logliks, chunk=None)))
    return [[item.logprob for item in found[loglik].likelihoods] for loglik in logliks]


def written_texts(folder: str, questions, device: str) -> list[str]:
    """Return kshot's texts of many lengths: many at a time on a GPU, one at a time on the CPU."""
    from kshot.backends.hf.model import Transformers
    from kshot.core.records import Generate, Prompt

    model = Transformers(folder, device=device, dtype="float32", batch_size=1 if device == "cpu" else None)
    generates = [Generate(Prompt(prompt), max_tokens=3 + at % 37) for at, (prompt, _) in enumerate(questions)]
    found = dict(model.serve(ChunkedQueue(generates, chunk=None)))
    return [found[generate].text for generate in generates]


def largest_difference(ones, others) -> float:
    """Return the largest difference between two tables of numbers."""
    return max(abs(a - b) for x, y in zip(ones, others, strict=True) for a, b in zip(x, y, strict=True))


def main() -> None:
    """Compare on every shape; a difference beyond rounding is an error."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = False
    with tempfile.TemporaryDirectory() as place:
        folder = str(small_model(Path(place) / "model", layers=6, width=512))
        for shape, count in COUNTS.items():
            questions = requests(SHAPES[shape], count=count)
            truth = plain_batches(folder, questions, 1)["logprobs"]  # on the CPU, one sequence at a time, float32
            exact = largest_difference(packed_logprobs(folder, questions, device, "float32"), truth)
            rounded = largest_difference(packed_logprobs(folder, questions, device, "bfloat16"), truth)
            print(f"{shape:<20} {device} float32 {exact:.1e}  bfloat16 {rounded:.1e}", flush=True)
            assert exact < 1e-3, shape
            assert rounded < 0.5, shape
        questions = requests(SHAPES["text"], count=40)
        pairs = zip(written_texts(folder, questions, device), written_texts(folder, questions, "cpu"), strict=True)
        same = sum(a == b for a, b in pairs)
        print(f"{same} of {len(questions)} texts are equal to the CPU's", flush=True)
        assert same >= len(questions) - 2, same  # two tokens may be equally likely


if __name__ == "__main__":
    main()
