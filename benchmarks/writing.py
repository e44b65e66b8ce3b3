"""Writing texts: kshot's continuous batching against transformers' generate, on the same prompts.

    python benchmarks/writing.py [--prompts N] [--size N]

On a GPU a random Llama of 8 B shape, else a small one and one thread. Every prompt begins with the same examples and
asks for a text of its own length, 4 to 64 tokens. ``generate`` gets them in batches, as they come, and sorted by the
length of their texts, as nobody can who does not know them before. CPU seconds, or wall-clock ones on a GPU.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1")
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from gpu import made  # noqa: E402
from workloads import Shape, requests, tokenizer  # noqa: E402

Asked = list[tuple[str, int]]


def kshot_writes(model, folder: str, asked: Asked, size: int | None, clock) -> tuple[float, int]:
    """Seconds of the backend, and the tokens written."""
    from kshot.backends.hf import loading as hf_loading
    from kshot.backends.hf.model import Transformers
    from kshot.core.records import Generate, Prompt

    class Waiting(list):
        def take(self, _at_most=None):
            taken = self[:1024]
            del self[:1024]
            return taken

    hf_loading.load_model = lambda *_, **__: model
    backend = Transformers(folder, **({"batch_size": size} if size else {}))
    list(backend.serve(Waiting([Generate(Prompt(text), max_tokens=8) for text, _ in asked[:4]])))
    questions = [Generate(Prompt(text), max_tokens=length) for text, length in asked]
    began = clock()
    found = dict(backend.serve(Waiting(questions)))
    spent = clock() - began
    return spent, sum(found[question].usage.completion_tokens for question in questions)


def generate_writes(model, asked: Asked, size: int, clock, *, known: bool) -> float:
    """Seconds of transformers' own loop; ``known``: batches are made of texts of like length."""
    import torch
    import transformers

    words = tokenizer()
    words.padding_side, words.pad_token = "left", "</s>"
    settings = transformers.GenerationConfig(do_sample=False, pad_token_id=1)
    began = clock()
    ordered = sorted(asked, key=lambda one: one[1]) if known else asked
    for at in range(0, len(ordered), size):
        batch = ordered[at : at + size]
        given = words([text for text, _ in batch], return_tensors="pt", padding=True, return_token_type_ids=False)
        settings.max_new_tokens = max(length for _, length in batch)
        with torch.inference_mode():
            model.generate(**given.to(model.device), generation_config=settings)
    return clock() - began


def main() -> None:
    """Measure, and print the ratios."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--size", type=int, help="texts written together; left out: kshot's own choice, and 16")
    given = parser.parse_args()
    gpu = torch.cuda.is_available()
    torch.set_num_threads(1)
    rng = random.Random(0)
    shape = Shape("writing", given.prompts, 350, (50, 70), 1, (1, 1))
    asked = [(prompt, rng.randint(4, 64)) for prompt, _ in requests(shape, count=given.prompts)]
    clock = time.perf_counter if gpu else time.process_time
    with tempfile.TemporaryDirectory() as place:
        model = made(Path(place), "cuda" if gpu else "cpu", small=not gpu)
        model.generation_config.eos_token_id = None
        generate_writes(model, asked[:4], 4, clock, known=False)
        plain = [generate_writes(model, asked, given.size or 16, clock, known=known) for known in (False, True)]
        ours, wrote = kshot_writes(model, place, asked, given.size, clock)
        print(f"{given.prompts} texts, {wrote:,} tokens; kshot {ours:.2f} s ({wrote / ours:,.0f} tokens/s)")
        for label, spent in zip(("as they come", "sorted by the length of their texts"), plain, strict=True):
            print(f"generate, {label}: {spent:.2f} s = {spent / ours:.1f} × kshot", flush=True)


if __name__ == "__main__":
    main()
