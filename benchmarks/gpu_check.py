"""Whether a GPU gives the numbers and texts it should: packed rows against every sequence by itself, in float32 math.

    python benchmarks/gpu_check.py

For each shape and dtype: the largest difference of a log-probability from that of the same model, each sequence alone.
In bfloat16 both sides round, so the differences of unpacked batches stand beside.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from scoring import plain_batches  # noqa: E402
from workloads import SHAPES, requests, small_model  # noqa: E402

COUNTS = {"text": 40, "letters": 40, "prefix1500": 20, "no prefix": 40, "short, all alike": 60, "fifty options": 8}


class Waiting:
    """The engine's queue, in short."""

    def __init__(self, items):
        self.items = items

    def take(self, _at_most=None):
        """Give everything."""
        taken, self.items = self.items, []
        return taken


def packed(folder: str, asked, device: str, dtype: str) -> list[list[float]]:
    """Kshot's numbers."""
    from kshot.backends.hf.model import Transformers
    from kshot.core.records import Loglik, Prompt

    backend = Transformers(folder, device=device, dtype=dtype)
    questions = [Loglik(Prompt(prompt), tuple(options)) for prompt, options in asked]
    found = dict(backend.serve(Waiting(list(questions))))
    return [[item.logprob for item in found[question].likelihoods] for question in questions]


def texts(folder: str, asked, device: str) -> list[str]:
    """What kshot writes: forty texts of all lengths, many at a time on a GPU, one at a time on the CPU."""
    from kshot.backends.hf.model import Transformers
    from kshot.core.records import Generate, Prompt

    backend = Transformers(folder, device=device, dtype="float32", batch_size=1 if device == "cpu" else None)
    wanted = [Generate(Prompt(prompt), max_tokens=3 + at % 37) for at, (prompt, _) in enumerate(asked)]
    found = dict(backend.serve(Waiting(list(wanted))))
    return [found[one].text for one in wanted]


def apart(ones, others) -> float:
    """The largest difference."""
    return max(abs(a - b) for x, y in zip(ones, others, strict=True) for a, b in zip(x, y, strict=True))


def main() -> None:
    """Compare on every shape; a difference beyond rounding is an error."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = False
    with tempfile.TemporaryDirectory() as place:
        folder = str(small_model(Path(place) / "model", layers=6, width=512))
        for shape, count in COUNTS.items():
            asked = requests(SHAPES[shape], count=count)
            truth = plain_batches(folder, asked, 1)["told"]  # on the CPU, one sequence at a time, float32
            exact = apart(packed(folder, asked, device, "float32"), truth)
            rounded = apart(packed(folder, asked, device, "bfloat16"), truth)
            print(f"{shape:<20} {device} float32 {exact:.1e}  bfloat16 {rounded:.1e}", flush=True)
            assert exact < 1e-3, shape
            assert rounded < 0.5, shape
        asked = requests(SHAPES["text"], count=40)
        same = sum(a == b for a, b in zip(texts(folder, asked, device), texts(folder, asked, "cpu"), strict=True))
        print(f"{same} of {len(asked)} texts are the CPU's, word for word", flush=True)
        assert same >= len(asked) - 2, same  # two tokens may be as likely as each other


if __name__ == "__main__":
    main()
