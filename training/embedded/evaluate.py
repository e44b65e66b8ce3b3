"""The accuracy of a trained model by task x length x variant, on records of seeds that training never uses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import torch
from model import Llama
from tokenizers import Tokenizer

from kshot.lookup.generate import TASKS, generate, group_of
from kshot.lookup.prompt_writer import TEMPLATES, prompts

NAMES = [task for tasks in TASKS.values() for task in tasks]
LENGTHS = (10, 20, 30, 40, 60, 80, 100, 120)
VARIANTS = (
    *(f"{separator}|small|{template}" for separator, template in product(("sep", "nosep"), TEMPLATES)),
    "sep|same|bare",
    "sep|same|simple_rule",
)


@torch.no_grad()
def accuracy(model: Llama, tokenizer: Tokenizer, texts: Sequence[str], targets: Sequence[str], device: str) -> float:
    """Return the share of prompts whose likeliest next token is the answer."""
    ids = [encoding.ids for encoding in tokenizer.encode_batch(list(texts))]
    right = 0
    for start in range(0, len(ids), 500):
        part = ids[start : start + 500]
        width = -(-max(map(len, part)) // 64) * 64
        tokens = torch.tensor([row + [0] * (width - len(row)) for row in part], device=device)
        last = torch.tensor([len(row) - 1 for row in part], device=device)
        hidden = model.hidden(tokens)[torch.arange(len(part), device=device), last]
        best = (hidden @ model.model.embed_tokens.weight.T).argmax(1).tolist()
        wanted = [tokenizer.token_to_id("Ġ" + target) for target in targets[start : start + 500]]
        right += sum(a == b for a, b in zip(best, wanted, strict=True))
    return right / len(ids)


def table(
    model: Llama, tokenizer: Tokenizer, device: str, samples: int, lengths: Sequence[int] = LENGTHS
) -> dict[str, dict[str, list[float]]]:
    """Return variant -> task -> accuracy at each length."""
    model = model.float().eval()
    records = {(g, n): generate(g, n, samples, 90_000 + n) for g, n in product(TASKS, lengths)}
    out: dict[str, dict[str, list[float]]] = {}
    for variant, task in product(VARIANTS, NAMES):
        row = out.setdefault(variant, {}).setdefault(task, [])
        for length in lengths:
            data = records[group_of(task), length]
            texts = prompts(data, task=task, variant=variant)
            row.append(accuracy(model, tokenizer, texts, [r[task] for r in data], device))
    return out


def show(results: dict[str, dict[str, list[float]]], lengths: Sequence[int] = LENGTHS) -> str:
    """Return the table as text."""
    lines = []
    for variant, tasks in results.items():
        lines.append(f"{variant:33}" + "".join(f"{n:>7}" for n in lengths))
        lines += [f"  {task:31}" + "".join(f"{value:7.3f}" for value in row) for task, row in tasks.items()]
    return "\n".join(lines)
