"""Training prompts made on the device: the text of ``kshot.lookup.prompts``, token by token, without Python strings.

A row is a head (rule text, maybe a worked example), some example lines and a query line. Tensor operations draw and
spell the lines. Heads are tokenized once per template x task x separator (x length of the worked example).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer
from torch import Tensor

from kshot.lookup.generate import LOOKUP_TASKS, TASKS, VOCAB
from kshot.lookup.prompt_writer import SEPARATORS, TEMPLATES, Variant, default_texts, fill

NAMES = [task for tasks in TASKS.values() for task in tasks]
MAX_LENGTH = 88
SMALL_LENGTHS = (6, 12)
MAX_SHOTS = 8
NOISE_TOKENS = (8, 120)  # heads of random tokens: other wording must not keep the model from using the examples
# Slots of a head for the worked example: its query, target and count, and from CHAR on its context characters.
QUERY, TARGET, COUNT, CHAR = 1000, 1001, 1002, 1003


@dataclass
class Lines:
    """Some records as tensors: context characters [n, width], query, answer, occurrences."""

    context: Tensor
    query: Tensor
    target: Tensor
    count: Tensor


class PromptRenderer:
    """Draws batches of training prompts."""

    def __init__(self, tokenizer: Tokenizer, device: str) -> None:
        """Tokenize the parts that do not change."""
        self.device, self.tokens = device, tokenizer.get_vocab_size()

        def encode(text: str) -> list[int]:
            return tokenizer.encode(text).ids

        spaced = [encode(" " + c) for c in VOCAB]
        (self.bar,), (self.colon,), (self.blank,) = encode(" |"), encode(":"), encode("\n\n")
        self.spaced = torch.tensor([ids for (ids,) in spaced], device=device)
        heads, index = self._heads(tokenizer)
        self.head_length = torch.tensor([len(head) for head in heads], device=device)
        width = int(self.head_length.max())
        self.heads = torch.tensor([head + [0] * (width - len(head)) for head in heads], device=device)
        self.head_index = index.to(device)

    def _heads(self, tokenizer: Tokenizer) -> tuple[list[list[int]], Tensor]:
        index = torch.zeros(len(TEMPLATES), len(NAMES), 2, MAX_LENGTH + 1, dtype=torch.long)
        heads: list[list[int]] = []
        for t, template in enumerate(TEMPLATES):
            for n, task in enumerate(NAMES):
                for s, separator in enumerate(SEPARATORS):
                    text = head_text(Variant(separator, "small", template), task)
                    lengths = range(SMALL_LENGTHS[0], MAX_LENGTH + 1) if "\x02" in text else [0]
                    for length in lengths:
                        index[t, n, s, length or slice(None)] = len(heads)
                        heads.append(self._head(tokenizer, text, length, separator))
        return heads, index

    def _head(self, tokenizer: Tokenizer, text: str, length: int, separator: str) -> list[int]:
        ids: list[int] = []
        for piece in re.split(r"(\x02| \x03| \x04| \x05)", text):
            if piece == "\x02":
                ids += [CHAR + i for i in range(length - 1)] + ([self.bar] if separator == "sep" else [])
                ids += [QUERY, self.colon, TARGET]
            elif piece in (" \x03", " \x04", " \x05"):
                ids.append({"\x03": QUERY, "\x04": TARGET, "\x05": COUNT}[piece[1]])
            elif piece:
                ids += tokenizer.encode(piece).ids
        return ids

    def lines(self, length: Tensor, task: Tensor, width: int, most: int = 99) -> Lines:
        """Draw one record per entry of ``length`` (6 or more, nonunique 7 or more), distributed as in ``generate``."""
        n, device = len(length), self.device
        size = length - 1
        unique = task < len(TASKS["unique"])
        divisor = torch.randint(4, 6, (n,), device=device)
        upper = torch.where(unique, 1, (size // divisor).clamp(2, most))
        lower = torch.where(unique, 1, 2)
        count = lower + (torch.rand(n, device=device) * (upper - lower + 1)).long()
        # k places of m without neighbours: k of m - k + 1 slots, then the i-th moves on by i.
        start = torch.where(unique, 1, 2)
        slots = torch.where(unique, size - 2, size - 3 - count + 1)
        keys = torch.rand(n, width, device=device)
        grid = torch.arange(width, device=device)
        keys = keys.masked_fill(grid >= slots[:, None], 2.0)
        chosen = keys <= keys.sort(1).values.gather(1, count[:, None] - 1)
        place = (grid + chosen.cumsum(1) - 1 + start[:, None]).masked_fill(~chosen, width)
        here = torch.zeros(n, width + 1, dtype=torch.bool, device=device).scatter_(1, place, value=1)[:, :width]
        query = torch.randint(0, len(VOCAB), (n,), device=device)
        other = torch.randint(0, len(VOCAB) - 1, (n, width), device=device)
        context = torch.where(here, query[:, None], other + (other >= query[:, None]))
        first = here.int().argmax(1)
        last = width - 1 - here.flip(1).int().argmax(1)
        rules = [LOOKUP_TASKS[name] for name in NAMES]
        steps = [(int(rule.occurrence == "last"), 1 if rule.side == "right" else -1) for rule in rules]
        is_last, step = torch.tensor(steps, device=device)[task].unbind(1)
        target = context.gather(1, (torch.where(is_last == 0, first, last) + step)[:, None])[:, 0]
        return Lines(context, query, target, count)

    def spell(self, lines: Lines, length: Tensor, sep: Tensor, width: int) -> Tensor:
        """Return the tokens of whole lines [n, width], with the answer and the blank line after it."""
        grid = torch.arange(width, device=self.device)
        tail = grid - (length[:, None] - 1) + (1 - sep[:, None])  # 0: bar, 1: query, 2: colon, 3: answer, 4: blank line
        n = len(length)
        context = self.spaced[lines.context]
        if context.shape[1] < width:
            context = torch.cat([context, context.new_zeros(n, width - context.shape[1])], 1)
        out = torch.where(grid < length[:, None] - 1, context[:, :width], self.blank)
        rest = grid >= length[:, None] - 1
        out = torch.where(rest & (tail == 0), self.bar, out)
        out = torch.where(rest & (tail == 1), self.spaced[lines.query][:, None], out)
        out = torch.where(rest & (tail == 2), self.colon, out)
        return torch.where(rest & (tail == 3), self.spaced[lines.target][:, None], out)

    def specs(self, n: int, longest: int, *, same: bool) -> dict[str, Tensor]:
        """Draw the settings of each row."""
        device = self.device

        def pick(low: int, high: int) -> Tensor:
            return torch.randint(low, high + 1, (n,), device=device)

        def chance(p: float) -> Tensor:
            return torch.rand(n, device=device) < p

        task, sep = pick(0, len(NAMES) - 1), chance(0.6).long()
        template = torch.where(chance(0.4), 0, pick(1, len(TEMPLATES) - 1))
        unique = task < len(TASKS["unique"])
        length = pick(8, longest)
        length = torch.where(unique & (length == 8), pick(6, 8), length)
        pool = torch.where(unique, pick(*SMALL_LENGTHS), pick(8, SMALL_LENGTHS[1]))
        pool = torch.where(chance(0.25), torch.where(unique, 6, 10), pool)
        shots = torch.where(chance(0.5), 5, torch.where(template == 0, pick(3, MAX_SHOTS), pick(1, MAX_SHOTS)))
        if same:
            pool = length
        noise = torch.where((template == 0) & chance(0.35), pick(*NOISE_TOKENS), 0)
        return {
            "task": task,
            "sep": sep,
            "template": template,
            "length": length,
            "pool": pool,
            "shots": shots,
            "noise": noise,
        }

    def batch(self, rows: int, width: int, longest: int, *, same: bool) -> tuple[Tensor, Tensor]:
        """Return tokens [rows, width], and the loss weight of the token after each of them."""
        spec = self.specs(rows * 4, longest, same=same)
        head = self.head_index[spec["template"], spec["task"], 1 - spec["sep"], spec["pool"]]
        line, last = spec["pool"] + 3 + spec["sep"], spec["length"] + 3 + spec["sep"]
        total = self.head_length[head] + spec["noise"] + spec["shots"] * line + last
        keep = (total > width).int().argsort(stable=True)[:rows]
        spec = {name: value[keep] for name, value in spec.items()}
        return self.render(spec, width, longest if same else SMALL_LENGTHS[1], longest)

    def render(self, spec: dict[str, Tensor], width: int, widest: int, longest: int) -> tuple[Tensor, Tensor]:
        """Fill rows as specified; a row that is too long for ``width`` gets no weight."""
        rows = len(spec["task"])

        def repeat(x: Tensor) -> Tensor:
            return x.repeat_interleave(MAX_SHOTS)

        task, sep, pool, shots = spec["task"], spec["sep"], spec["pool"], spec["shots"]
        examples = self.lines(repeat(pool), repeat(task), widest)
        worked = self.lines(pool, task, widest, most=9)
        asked = self.lines(spec["length"], task, longest)
        self.last = {"examples": examples, "worked": worked, "asked": asked}
        spelt = self.spell(examples, repeat(pool), repeat(sep), widest + 4).view(rows, -1)
        query = self.spell(asked, spec["length"], sep, longest + 4)
        head = self.head_index[spec["template"], task, 1 - sep, pool]
        heads = self._noisy(self._filled(self.heads[head], worked), spec["noise"])
        source = torch.cat([heads, spelt, query], 1)
        begin, line = (self.head_length[head] + spec["noise"])[:, None], (pool + 3 + sep)[:, None]
        after = torch.arange(width, device=self.device) - begin
        which = (after.clamp(min=0) // line).minimum(shots[:, None])
        within = after - which * line
        is_query = which == shots[:, None]
        base = self.heads.shape[1]
        index = torch.where(is_query, base + spelt.shape[1] + within, base + which * (widest + 4) + within)
        index = torch.where(after < 0, after + begin, index)
        end = torch.where(is_query, (spec["length"] + 3 + sep)[:, None], line)
        inside = (after >= 0) & (within < end)
        tokens = source.gather(1, index.clamp(0, source.shape[1] - 1)).masked_fill((after >= 0) & ~inside, 0)
        weight = torch.where(is_query, 1.0, 0.4) * (inside & (within == end - 3))
        # Nothing determines the answer of the first bare example.
        weight = weight.masked_fill((spec["template"][:, None] == 0) & (which == 0), 0.0)
        weight = weight + 0.1 * (inside & (within == end - 2))
        fits = begin + shots[:, None] * line + (spec["length"] + 3 + sep)[:, None] <= width
        return tokens, weight * fits

    def _noisy(self, heads: Tensor, noise: Tensor) -> Tensor:
        """Put random tokens, and a blank line, before the examples of some bare rows."""
        grid = torch.arange(heads.shape[1], device=self.device)
        random = torch.randint(1, self.tokens, heads.shape, device=self.device)
        random = torch.where(grid == noise[:, None] - 1, self.blank, random)
        return torch.where(noise[:, None] > 0, random, heads)

    def _filled(self, heads: Tensor, worked: Lines) -> Tensor:
        values = torch.stack([worked.query, worked.target, worked.count + VOCAB.index("0")], 1)
        values = self.spaced[torch.cat([values, worked.context], 1)]
        slot = (heads - QUERY).clamp(0, values.shape[1] - 1)
        return torch.where(heads >= QUERY, values.gather(1, slot), heads)


def head_text(form: Variant, task: str) -> str:
    """Return the text before the first example; control characters mark where the parts of the worked example go."""
    texts = default_texts()
    words = texts["separators"][form.separator]
    explanation = fill(
        texts["explanation"], solved_line="\x02", query="\x03", target="\x04", occurrences="\x05", **words
    )
    rules = {f"rule_{kind}": text for kind, text in texts["rules"][task].items()}
    return fill(texts["completion"][form.template], examples="", explanation=explanation, **rules, **words)
