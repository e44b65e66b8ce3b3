"""Scoring options on one CPU thread: kshot, plain transformers batches of the best size, and lm-eval, on the same work.

    python benchmarks/scoring.py [SHAPE …] [--no-peers] [--questions N]

Each measurement is a process of its own. CPU seconds begin when the packages are imported and the model is loaded, so
they include tokenising and scoring. ``tokens`` are those that went through the model, counted at its embedding. lm-eval
is installed under benchmarks/.peers when it is first needed; if that fails, it is reported and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
PLAIN_BATCH_SIZES = (4, 16, 64)

from peers import python_of  # noqa: E402
from workloads import SHAPES, ChunkedQueue, requests, small_model  # noqa: E402


class TokenCounter:
    """Counts the tokens that reach a model's embedding."""

    def __init__(self, model):
        self.count = 0
        model.get_input_embeddings().register_forward_hook(self._hook)

    def _hook(self, _module, given, _out):
        self.count += given[0].numel()


def kshot_scores(folder: str, questions, _size: int) -> dict:
    """Give kshot's model all questions, a window at a time, as the engine does."""
    from kshot.backends.hf.model import Transformers
    from kshot.backends.hf.trie import TokenSequence, build_trie
    from kshot.core.records import Loglik, Prompt

    model = Transformers(folder, device="cpu")
    counter = TokenCounter(model._model)  # noqa: SLF001 - only the torch model has an embedding
    model._runner  # noqa: B018, SLF001 - the trial of the model is part of loading it
    counter.count = 0
    logliks = [Loglik(Prompt(prompt), tuple(options)) for prompt, options in questions]
    began = time.process_time()
    found = dict(model.serve(ChunkedQueue(logliks)))
    spent = time.process_time() - began
    counts = model.token_counts
    spans = [span for own in model._tokenizer.spans_of_all(logliks) for span in own]  # noqa: SLF001 - as above
    trie = len(build_trie([TokenSequence(span.ids[:-1], 0) for span in spans]))
    logprobs = [[item.logprob for item in found[loglik].likelihoods] for loglik in logliks]
    figures = {"cpu": spent, "tokens": counter.count, "computed": counts.computed, "trie": trie}
    return {**figures, "logprobs": logprobs}


def plain_batches(folder: str, questions, size: int) -> dict:
    """Score in plain batches: sorted by length, padded, the one-token options of a prompt together."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    counter = TokenCounter(model)
    began = time.process_time()
    wanted: dict[tuple, list] = {}
    for number, (prompt, options) in enumerate(questions):
        head = tokenizer.encode(prompt)
        for index, option in enumerate(options):
            tail = tokenizer.encode(option)
            wanted.setdefault((*head, *tail[:-1]), []).append((number, index, len(head), tail))
    logprobs = [[0.0] * len(options) for _, options in questions]
    keys = sorted(wanted, key=len, reverse=True)
    for at in range(0, len(keys), size):
        batch = keys[at : at + size]
        width = len(batch[0])
        ids = torch.tensor([[*key, *[0] * (width - len(key))] for key in batch])
        mask = torch.tensor([[1] * len(key) + [0] * (width - len(key)) for key in batch])
        first = min(head for key in batch for _, _, head, _ in wanted[key]) - 1
        with torch.inference_mode():
            keep = torch.arange(first, width)
            logits = model(input_ids=ids, attention_mask=mask, use_cache=False, logits_to_keep=keep).logits
        for row, key in zip(logits, batch, strict=True):
            for number, index, head, tail in wanted[key]:
                some = row[head - 1 - first : head - 1 - first + len(tail)].float().log_softmax(-1)
                logprobs[number][index] = some.gather(1, torch.tensor(tail)[:, None]).sum().item()
    return {"cpu": time.process_time() - began, "tokens": counter.count, "logprobs": logprobs}


def lm_eval_scores(folder: str, questions, size: int) -> dict:
    """Score with lm-eval's own model class."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    model = HFLM(pretrained=folder, device="cpu", batch_size=size, dtype="float32")
    counter = TokenCounter(model.model)
    instances = [
        Instance("loglikelihood", {}, (prompt, option), index)
        for prompt, options in questions
        for index, option in enumerate(options)
    ]
    began = time.process_time()
    found = iter(model.loglikelihood(instances, disable_tqdm=True))
    logprobs = [[next(found)[0] for _ in options] for _, options in questions]
    return {"cpu": time.process_time() - began, "tokens": counter.count, "logprobs": logprobs}


SYSTEMS = {"kshot": kshot_scores, "plain": plain_batches, "lm-eval": lm_eval_scores}


def measure_here(system: str, folder: str, shape: str, size: int, count: int | None) -> None:
    """Measure one system in this process, and print the figures as JSON."""
    import torch

    torch.set_num_threads(1)
    found = SYSTEMS[system](folder, requests(SHAPES[shape], count=count), size)
    found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print("\n" + json.dumps(found))


def measure(python: str, system: str, folder: str, shape: str, *, size: int, count: int | None) -> dict:
    """Measure one system in a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    command = [python, __file__, "--one", system, folder, shape, str(size), str(count or 0)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if ran.returncode:
        return {"error": (ran.stderr.strip().splitlines() or ["?"])[-1]}
    return {**json.loads(ran.stdout.strip().splitlines()[-1]), "size": size}


def compare(shape: str, folder: str, python: str | None, count: int | None) -> None:
    """Measure one shape on every system, the plain batches at their best size."""
    found = {"kshot": measure(sys.executable, "kshot", folder, shape, size=0, count=count)}
    plain = [measure(sys.executable, "plain", folder, shape, size=size, count=count) for size in PLAIN_BATCH_SIZES]
    found["plain"] = min(plain, key=lambda figures: figures.get("cpu", float("inf")))
    if python is not None:
        found["lm-eval"] = measure(python, "lm-eval", folder, shape, size=16, count=count)
    ours = found["kshot"]
    for name, figures in found.items():
        if "error" in figures:
            print(f"{shape:<22} {name:<8} failed: {figures['error']}")
            continue
        pairs = zip(figures["logprobs"], ours["logprobs"], strict=True)
        difference = max(abs(a - b) for x, y in pairs for a, b in zip(x, y, strict=True))
        more = f"trie {ours['trie']:,}" if name == "kshot" else f"{figures['cpu'] / ours['cpu']:.1f} × kshot"
        size = f"batches of {figures['size']}" if figures["size"] else ""
        shown = f"{figures['cpu']:>8.2f} s CPU {figures['tokens']:>10,} tokens {figures['peak']:>6,} MiB"
        print(f"{shape:<22} {name:<8}{shown}  {more:<16} differs by {difference:.0e}  {size}", flush=True)


def main() -> None:
    """Measure the shapes that the command line names."""
    if sys.argv[1:2] == ["--one"]:
        system, folder, shape, size, count = sys.argv[2:7]
        measure_here(system, folder, shape, int(size), int(count) or None)
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shapes", nargs="*", default=list(SHAPES))
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--questions", type=int)
    given = parser.parse_args()
    python = None if given.no_peers else python_of("lm-eval")
    with tempfile.TemporaryDirectory() as folder:
        model = str(small_model(Path(folder) / "model"))
        for shape in given.shapes:
            compare(shape, model, python, given.questions)


if __name__ == "__main__":
    main()
