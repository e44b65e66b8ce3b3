"""Check an exported model: ``python training/embedded/check.py ONNX_FOLDER HF_FOLDER``.

Logits of onnxruntime and transformers agree to 1e-3, greedy text exactly; prints accuracy and time of the starter
suite, and with ``--held-out`` the accuracy under settings that training never saw.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from kshot.lookup.generate import TASKS, generate, group_of
from kshot.lookup.prompts import prompts

NAMES = [task for tasks in TASKS.values() for task in tasks]
ROWS = 16


class Runner:
    """The model on onnxruntime: greedy text for many prompts."""

    def __init__(self, folder: Path, threads: int = 2) -> None:
        """Open model and tokenizer."""
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(
            str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        shape = next(i.shape for i in self.session.get_inputs() if i.name == "past")
        self.layers, self.heads, self.width = shape[0], shape[3], shape[5]

    def call(self, **inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Logits at the wanted places, and the keys and values so far."""
        logits, present = self.session.run(None, inputs)
        return logits, present

    def greedy(self, rows: Sequence[Sequence[int]], most: int = 6) -> tuple[list[list[int]], np.ndarray]:
        """Continue right-padded rows until each has a newline; gives the new tokens and the first logits."""
        lengths = np.array([len(row) for row in rows])
        tokens = np.zeros((len(rows), lengths.max()), np.int64)
        for row, ids in zip(tokens, rows, strict=True):
            row[: len(ids)] = ids
        places = np.arange(lengths.max())
        mask = (places < lengths[:, None]).astype(np.int64)
        positions = np.tile(places, (len(rows), 1))
        past = np.zeros((self.layers, 2, len(rows), self.heads, 0, self.width), np.float32)
        wanted = lengths[:, None] - 1
        first, new = None, []
        for step in range(most):
            logits, past = self.call(tokens=tokens, position_ids=positions, mask=mask, past=past, wanted=wanted)
            first = logits[:, 0] if first is None else first
            new.append(logits[:, 0].argmax(-1))
            if all("\n" in self.tokenizer.decode(list(ids)) for ids in zip(*new, strict=True)):
                break
            tokens, positions = new[-1][:, None], lengths[:, None] + step
            mask = np.concatenate([mask, np.ones_like(tokens)], 1)
            wanted = np.zeros_like(tokens)
        return [list(map(int, ids)) for ids in zip(*new, strict=True)], first

    def texts(self, prompts_: Sequence[str]) -> tuple[list[str], list[np.ndarray]]:
        """Answers, up to the newline, and first logits, in the order asked; prompts of like length run together."""
        ids = [encoding.ids for encoding in self.tokenizer.encode_batch(list(prompts_))]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        out: list[str] = [""] * len(ids)
        logits: list[np.ndarray] = [np.empty(0)] * len(ids)
        for start in range(0, len(order), ROWS):
            part = order[start : start + ROWS]
            new, first = self.greedy([ids[i] for i in part])
            for i, tokens, row in zip(part, new, first, strict=True):
                out[i], logits[i] = self.tokenizer.decode(tokens).split("\n")[0], row
        return out, logits


def suite(samples: int = 50) -> tuple[list[str], list[str]]:
    """Prompts and targets of the starter suite."""
    texts, targets = [], []
    for task, length, template in product(NAMES, (10, 20, 40, 80, 120), ("bare", "simple_rule")):
        data = generate(group_of(task), length, samples, 7_000)
        texts += prompts(data, task=task, variant=f"sep|small|{template}")
        targets += [record[task] for record in data]
    return texts, targets


def parity(runner: Runner, folder: Path, texts: Sequence[str]) -> tuple[float, int]:
    """Largest difference of a logit, and number of different greedy texts."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    ours, logits = runner.texts(texts)
    worst, different = 0.0, 0
    for text, own, row in zip(texts, ours, logits, strict=True):
        ids = tokenizer(text, return_tensors="pt").input_ids
        with torch.no_grad():
            worst = max(worst, float(np.abs(model(ids).logits[0, -1].numpy() - row).max()))
            new = model.generate(ids, max_new_tokens=6, do_sample=False)[0, ids.shape[1] :]
        different += tokenizer.decode(new).split("\n")[0] != own
    return worst, different


def held_out(runner: Runner, samples: int = 100) -> None:
    """Accuracy under settings that training never saw."""
    cases = {
        "hard, rule, 40": ({"hard": True}, 40, {"variant": "sep|small|simple_rule"}),
        "pool of length 7, rule, 20": ({}, 20, {"variant": "sep|small|simple_rule", "pool": 7}),
        "pool of length 7, bare, 20": ({}, 20, {"variant": "sep|small|bare", "pool": 7}),
        "pool of length 20, bare, 40": ({}, 40, {"variant": "sep|small|bare", "pool": 20}),
        "no examples, rule, 20": ({}, 20, {"variant": "sep|small|simple_rule", "shots": 0}),
        "one example, bare, 20": ({}, 20, {"variant": "sep|small|bare", "shots": 1}),
        "12 examples, bare, 20": ({}, 20, {"variant": "sep|small|bare", "shots": 12}),
    }
    print(f"{'':30}" + "".join(f"{task:>9}" for task in NAMES))
    for name, (made, length, asked) in cases.items():
        row = []
        for task in NAMES:
            group, options = group_of(task), dict(asked)
            data = generate(group, length, samples, 8_000, **(made if group == "nonunique" else {}))
            pool = generate(group, options.pop("pool"), 200, 8_001) if "pool" in options else None
            answers, _ = runner.texts(prompts(data, pool, task=task, **options))
            row.append(sum(a.strip() == r[task] for a, r in zip(answers, data, strict=True)) / samples)
        print(f"{name:30}" + "".join(f"{value:9.2f}" for value in row))


def main() -> None:
    """Read the command line, check, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("onnx", type=Path)
    parser.add_argument("hf", type=Path)
    parser.add_argument("--held-out", action="store_true")
    args = parser.parse_args()
    runner = Runner(args.onnx)
    texts, targets = suite()
    start = time.perf_counter()
    answers, _ = runner.texts(texts)
    right = sum(a.strip() == t for a, t in zip(answers, targets, strict=True))
    print(f"starter suite: {right / len(texts):.3f} of {len(texts)} in {time.perf_counter() - start:.1f} s")
    if args.held_out:
        held_out(runner)
    worst, different = parity(runner, args.hf, texts[::40])
    print(f"transformers: logits differ by {worst:.1e} at most, {different} greedy texts differ")
    if worst > 1e-3 or different:
        sys.exit("the two backends disagree")


if __name__ == "__main__":
    main()
