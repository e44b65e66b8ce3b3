"""Tiny random models, saved as real model folders, and a queue of requests for them."""

from __future__ import annotations

import shutil
import threading
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from kshot.core.records import Request, Response

CORPUS = [
    "The capital of France is Paris. The capital of Germany is Berlin. Hello world, hello there!\nhello\nhello\nhello",
    "Question: what is the answer to this question? Answer: the answer is B. Options: A, B, C, D.",
    "A quick brown fox jumps over the lazy dog; the dog sleeps.\n\nPeople say that hello is a greeting.",
    "naïve café, Zürich, 日本語 and 中文, 0 1 2 3 4 5 6 7 8 9 10 11 12 the the the and and of of to to in in",
]
CHAT = (
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ["<s>", "</s>", "<|system|>", "<|user|>", "<|assistant|>"]


def build(
    kind: Literal["llama", "gpt2"],
    folder: Path,
    *,
    bos: bool = False,
    chat: bool = False,
    seed: int = 0,
    head_dim: int = 12,
) -> Path:
    """Save a two-layer model with 512 positions and about 400 tokens.

    ``bos``: its tokenizer puts <s> in front. ``head_dim`` is for Llamas; vLLM needs 32 or more.
    """
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    tokenizer = tokenizer_of(bos=bos)
    if chat:
        tokenizer.chat_template = CHAT
    size = {"vocab_size": len(tokenizer), "bos_token_id": 0, "eos_token_id": 1}
    if kind == "llama":
        config: Any = transformers.LlamaConfig(
            hidden_size=48,
            intermediate_size=96,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=head_dim,
            max_position_embeddings=512,
            initializer_range=0.2,
            **size,
        )
        create: Any = transformers.LlamaForCausalLM
    else:
        config = transformers.GPT2Config(n_embd=48, n_layer=2, n_head=4, n_positions=512, initializer_range=0.2, **size)
        create = transformers.GPT2LMHeadModel
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = create(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tokenizer_of(*, bos: bool) -> Any:
    """Train a byte-level BPE tokenizer, the same every time."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(CORPUS * 4, trainer)
    steps: list[Any] = [processors.ByteLevel(trim_offsets=True)]
    if bos:
        template = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)])
        steps.append(template)
    core.post_processor = processors.Sequence(steps)
    return PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<s>", eos_token="</s>", additional_special_tokens=SPECIAL[2:]
    )


def copied(folder: Path, target: Path) -> Path:
    """Copy a model folder, so that a test can damage it."""
    shutil.copytree(folder, target)
    return target


class Queue:
    """A list as a RequestQueue; requests given as ``later`` join when the first ones are taken."""

    more_expected = False

    def __init__(self, requests: Iterable[Request], later: Iterable[Request] = ()) -> None:
        self.requests, self.later = list(requests), list(later)
        self.news = threading.Event()

    def take(self, at_most: int | None = None, /) -> list[Request]:
        count = len(self.requests) if at_most is None else at_most
        taken, self.requests = self.requests[:count], self.requests[count:]
        if not self.requests:
            self.requests, self.later = self.later, []
        return taken

    def __iter__(self) -> Iterator[Request]:
        while taken := self.take(1):
            yield taken[0]

    def notify(self) -> None:
        self.news.set()


def answers_of(backend: Any, requests: Iterable[Request], later: Iterable[Request] = ()) -> Iterator[Any]:
    """Yield the answers of a backend as they come, and wait for those of one that works in the background."""
    queue = Queue(requests, later)
    stream = backend.serve(queue)
    try:
        for answer in stream:
            if answer is not None:
                yield answer
            else:
                queue.news.wait(60)
                queue.news.clear()
    finally:
        stream.close()


def distinct_prefixes(backend: Any, requests: Iterable[Any]) -> int:
    """Return how many distinct beginnings the sequences that a model reads for these requests have."""
    tokenizer = backend._tokenizer
    sequences = [
        tokens
        for one in requests
        for tokens in (
            [span.tokens[:-1] for span in tokenizer.spans(one.prompt, one.continuations)]
            if hasattr(one, "continuations")
            else [tokenizer.encode_prompt(one.prompt)]
        )
    ]
    return len({sequence[: at + 1] for sequence in sequences for at in range(len(sequence))})


def ask_all(backend: Any, requests: Iterable[Request]) -> list[Response]:
    """Return the response of every request, in the order of the requests."""
    asked = list(requests)
    found = dict(answers_of(backend, asked))
    assert len(found) == len(set(asked))
    return [found[request] for request in asked]
