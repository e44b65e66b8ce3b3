"""Scoring options on one CPU thread: kshot, plain transformers batches of the best size, and lm-eval, on the same work.

    python benchmarks/scoring.py [SHAPE …] [--no-peers] [--questions N]

Each measurement is a process of its own. CPU seconds begin when the packages are imported and the model is loaded, so
tokenising and scoring are in them; ``tokens`` are those put through the model, counted at its embedding. lm-eval gets
an environment of its own under benchmarks/.peers when first asked for; if that fails, it is reported and left out.
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
SIZES = (4, 16, 64)

from peers import python_of  # noqa: E402
from workloads import SHAPES, requests, small_model  # noqa: E402


def _counted(model) -> list[int]:
    """Count the tokens that reach a model's embedding."""
    seen = [0]

    def hook(_module, given, _out):
        seen[0] += given[0].numel()

    model.get_input_embeddings().register_forward_hook(hook)
    return seen


def kshot_backend(folder: str, asked, _size: int) -> dict:
    """Ask kshot's backend everything, a window at a time, as the engine does."""
    from kshot.backends.hf.model import Transformers
    from kshot.core.records import Loglik, Prompt

    class Waiting:
        def __init__(self, items):
            self.items = items

        def take(self, _at_most=None):
            taken, self.items = self.items[:1024], self.items[1024:]
            return taken

    backend = Transformers(folder, device="cpu")
    seen = _counted(backend._model)  # noqa: SLF001
    backend._computer  # noqa: B018, SLF001 - the trial of the model belongs to loading it
    seen[0] = 0
    questions = [Loglik(Prompt(prompt), tuple(options)) for prompt, options in asked]
    began = time.process_time()
    found = dict(backend.serve(Waiting(questions)))
    spent = time.process_time() - began
    work = backend.work
    told = [[item.logprob for item in found[question].likelihoods] for question in questions]
    return {"cpu": spent, "tokens": seen[0], "computed": work.computed, "trie": work.distinct, "told": told}


def plain_batches(folder: str, asked, size: int) -> dict:
    """A loop as one would write it: sorted by length, padded, one-token options of a prompt scored together."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    seen = _counted(model)
    began = time.process_time()
    wanted: dict[tuple, list] = {}
    for number, (prompt, options) in enumerate(asked):
        head = tokenizer.encode(prompt)
        for index, option in enumerate(options):
            tail = tokenizer.encode(option)
            wanted.setdefault((*head, *tail[:-1]), []).append((number, index, len(head), tail))
    told = [[0.0] * len(options) for _, options in asked]
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
                told[number][index] = some.gather(1, torch.tensor(tail)[:, None]).sum().item()
    return {"cpu": time.process_time() - began, "tokens": seen[0], "told": told}


def lm_eval_driver(folder: str, asked, size: int) -> dict:
    """lm-eval's own model class, asked for the same log-likelihoods."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    model = HFLM(pretrained=folder, device="cpu", batch_size=size, dtype="float32")
    seen = _counted(model.model)
    instances = [
        Instance("loglikelihood", {}, (prompt, option), index)
        for prompt, options in asked
        for index, option in enumerate(options)
    ]
    began = time.process_time()
    found = iter(model.loglikelihood(instances, disable_tqdm=True))
    told = [[next(found)[0] for _ in options] for _, options in asked]
    return {"cpu": time.process_time() - began, "tokens": seen[0], "told": told}


SYSTEMS = {"kshot": kshot_backend, "plain": plain_batches, "lm-eval": lm_eval_driver}


def one(system: str, folder: str, shape: str, size: int, count: int | None) -> None:
    """Measure one system in this process, and print what it found as JSON."""
    import torch

    torch.set_num_threads(1)
    found = SYSTEMS[system](folder, requests(SHAPES[shape], count=count), size)
    found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print("\n" + json.dumps(found))


def measured(python: str, system: str, folder: str, shape: str, *, size: int, count: int | None) -> dict:
    """Measure one system in a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    command = [python, __file__, "--one", system, folder, shape, str(size), str(count or 0)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if ran.returncode:
        return {"error": (ran.stderr.strip().splitlines() or ["?"])[-1]}
    return {**json.loads(ran.stdout.strip().splitlines()[-1]), "size": size}


def compared(shape: str, folder: str, python: str | None, count: int | None) -> None:
    """One shape on every system: the plain batches at their best size."""
    found = {"kshot": measured(sys.executable, "kshot", folder, shape, size=0, count=count)}
    plain = [measured(sys.executable, "plain", folder, shape, size=size, count=count) for size in SIZES]
    found["plain"] = min(plain, key=lambda one: one.get("cpu", float("inf")))
    if python is not None:
        found["lm-eval"] = measured(python, "lm-eval", folder, shape, size=16, count=count)
    ours = found["kshot"]
    for name, one_ in found.items():
        if "error" in one_:
            print(f"{shape:<22} {name:<8} failed: {one_['error']}")
            continue
        apart = max(
            abs(a - b) for x, y in zip(one_["told"], ours["told"], strict=True) for a, b in zip(x, y, strict=True)
        )
        more = f"trie {ours['trie']:,}" if name == "kshot" else f"{one_['cpu'] / ours['cpu']:.1f} × kshot"
        size = f"batches of {one_['size']}" if one_["size"] else ""
        figures = f"{one_['cpu']:>8.2f} s CPU {one_['tokens']:>10,} tokens {one_['peak']:>6,} MiB"
        print(f"{shape:<22} {name:<8}{figures}  {more:<16} differs by {apart:.0e}  {size}", flush=True)


def main() -> None:
    """Measure all shapes asked for."""
    if sys.argv[1:2] == ["--one"]:
        system, folder, shape, size, count = sys.argv[2:7]
        one(system, folder, shape, int(size), int(count) or None)
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
            compared(shape, model, python, given.questions)


if __name__ == "__main__":
    main()
