"""Writing texts: kshot's continuous batching against transformers' generate, on the same prompts.

    python benchmarks/writing.py [--prompts N] [--size N]

On a GPU the model is a random Llama of 8 B shape, else a small one on one thread. Every prompt begins with the same
examples and asks for a text of its own length, 4 to 64 tokens. ``generate`` gets the prompts in batches: in their own
order, and sorted by the length of their texts, which real work does not know. CPU seconds, or wall-clock ones on a GPU.
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

from gpu import random_model, write_folder  # noqa: E402
from workloads import ChunkedQueue, Shape, requests, tokenizer  # noqa: E402

PromptsWithLengths = list[tuple[str, int]]


def kshot_writes(model, folder: str, prompts: PromptsWithLengths, size: int | None, clock) -> tuple[float, int]:
    """Return the seconds that kshot takes, and the tokens that it writes."""
    from kshot.backends.hf import loading
    from kshot.backends.hf.model import Transformers
    from kshot.core.records import Generate, Prompt

    loading.load_model = lambda *_, **__: model
    language_model = Transformers(folder, **({"batch_size": size} if size else {}))
    list(language_model.serve(ChunkedQueue(Generate(Prompt(text), max_tokens=8) for text, _ in prompts[:4])))
    generates = [Generate(Prompt(text), max_tokens=length) for text, length in prompts]
    began = clock()
    found = dict(language_model.serve(ChunkedQueue(generates)))
    spent = clock() - began
    return spent, sum(found[generate].usage.completion_tokens for generate in generates)


def generate_writes(model, prompts: PromptsWithLengths, size: int, clock, *, sort: bool) -> float:
    """Return the seconds that ``generate`` takes; ``sort``: batches are made of texts of similar length."""
    import torch
    import transformers

    encode = tokenizer()
    encode.padding_side, encode.pad_token = "left", "</s>"
    settings = transformers.GenerationConfig(do_sample=False, pad_token_id=1)
    began = clock()
    ordered = sorted(prompts, key=lambda pair: pair[1]) if sort else prompts
    for at in range(0, len(ordered), size):
        batch = ordered[at : at + size]
        inputs = encode([text for text, _ in batch], return_tensors="pt", padding=True, return_token_type_ids=False)
        settings.max_new_tokens = max(length for _, length in batch)
        with torch.inference_mode():
            model.generate(**inputs.to(model.device), generation_config=settings)
    return clock() - began


def main() -> None:
    """Measure both, and print the ratios."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument(
        "--size", type=int, help="texts written together (default: kshot's own choice, and 16 for generate)"
    )
    given = parser.parse_args()
    gpu = torch.cuda.is_available()
    torch.set_num_threads(1)
    rng = random.Random(0)
    shape = Shape("writing", given.prompts, 350, (50, 70), 1, (1, 1))
    prompts = [(prompt, rng.randint(4, 64)) for prompt, _ in requests(shape, count=given.prompts)]
    clock = time.perf_counter if gpu else time.process_time
    with tempfile.TemporaryDirectory() as place:
        model = random_model("cuda" if gpu else "cpu", small=not gpu)
        write_folder(Path(place), small=not gpu)
        model.generation_config.eos_token_id = None
        generate_writes(model, prompts[:4], 4, clock, sort=False)
        plain = [generate_writes(model, prompts, given.size or 16, clock, sort=sort) for sort in (False, True)]
        ours, tokens = kshot_writes(model, place, prompts, given.size, clock)
        print(f"{given.prompts} texts, {tokens:,} tokens; kshot {ours:.2f} s ({tokens / ours:,.0f} tokens/s)")
        for label, spent in zip(("in their own order", "sorted by the length of their texts"), plain, strict=True):
            print(f"generate, {label}: {spent:.2f} s = {spent / ours:.1f} × kshot", flush=True)


if __name__ == "__main__":
    main()
