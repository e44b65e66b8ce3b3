"""Workloads for measuring the speed of models: random models, a tokenizer of plain words, questions of many shapes."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

VOCABULARY_WORDS = 8000
"""Each word is one token."""


@dataclass(frozen=True)
class Shape:
    """One kind of work: a shared prefix, questions and options, each of this many tokens (low, high).

    ``subjects``: the questions are divided among so many subjects, each with a prefix of its own, ``prefix`` to
    ``longest_prefix`` tokens long.
    """

    name: str
    questions: int
    prefix: int
    question: tuple[int, int]
    options: int
    option: tuple[int, int]
    letters: bool = False
    subjects: int = 1
    longest_prefix: int = 0


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("text", 500, 350, (50, 70), 4, (6, 10)),
        Shape("letters", 500, 600, (95, 115), 4, (1, 1), letters=True),
        Shape("prefix1500", 200, 1500, (60, 60), 4, (8, 8)),
        Shape("no prefix", 200, 0, (60, 200), 4, (4, 12)),
        Shape("no prefix, one token", 300, 0, (60, 200), 4, (1, 1), letters=True),
        Shape("short, all alike", 2400, 0, (20, 20), 1, (4, 4)),
        Shape("fifty options", 60, 0, (80, 160), 50, (2, 6)),
        Shape("20 to 4,000 tokens", 40, 0, (20, 4000), 2, (4, 12)),
    )
}


MMLU = (
    Shape("MMLU, letters", 14042, 400, (60, 130), 4, (1, 1), letters=True, subjects=57, longest_prefix=800),
    Shape("MMLU, option texts", 14042, 400, (60, 130), 4, (4, 12), subjects=57, longest_prefix=800),
)
"""All of MMLU with five examples: 57 subjects, one after the other."""


def subject_of(shape: Shape, index: int, count: int) -> int:
    """Return the subject of a question: those of a subject are next to each other."""
    return index * shape.subjects // count


def requests(shape: Shape, seed: int = 0, count: int | None = None) -> list[tuple[str, list[str]]]:
    """Return prompts with their options. Words are drawn at random, so only the shape's prefix is shared."""
    rng = random.Random(seed)

    def words(number: int) -> str:
        return " ".join(f"w{rng.randrange(VOCABULARY_WORDS)}" for _ in range(number))

    longest = shape.longest_prefix or shape.prefix
    prefixes = [words(rng.randint(shape.prefix, longest)) for _ in range(shape.subjects)]
    made = []
    total = count or shape.questions
    for index in range(total):
        prefix = prefixes[subject_of(shape, index, total)]
        low, high = shape.question
        # Wide ranges are spread evenly on a logarithmic scale: many short, few long.
        length = round(low * (high / low) ** rng.random()) if high > 10 * low else rng.randint(low, high)
        options = [f" w{number}" for number in range(shape.options)] if shape.letters else []
        options = options or [" " + words(rng.randint(*shape.option)) for _ in range(shape.options)]
        made.append((f"{prefix} {words(length)} w{index % VOCABULARY_WORDS}".strip(), options))
    return made


def tokenizer():
    """Make a tokenizer that knows w0 to w7999."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {"<s>": 0, "</s>": 1, "<unk>": 2} | {f"w{number}": number + 3 for number in range(VOCABULARY_WORDS)}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def small_model(folder: Path, layers: int = 4, width: int = 256) -> Path:
    """Save a random Llama (4 layers × 256 by default) and its tokenizer."""
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    words = tokenizer()
    config = transformers.LlamaConfig(
        vocab_size=len(words),
        hidden_size=width,
        intermediate_size=width * 11 // 4,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=8192,
        bos_token_id=0,
        eos_token_id=1,
    )
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


class ChunkedQueue:
    """Requests for a model: every ``take`` gives at most ``chunk`` of them (None: all), as the engine's window does."""

    def __init__(self, requests, chunk=1024):
        self._requests, self._chunk = list(requests), chunk

    def take(self, _at_most=None):
        """Remove and return the next requests."""
        count = len(self._requests) if self._chunk is None else self._chunk
        taken, self._requests = self._requests[:count], self._requests[count:]
        return taken
