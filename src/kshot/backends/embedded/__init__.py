"""The model in the box: 2.3 million weights trained on token lookup, run by onnxruntime; see ``CARD.md`` beside it.

The folder is a Hugging Face model folder too: ``model.onnx`` is only the graph, and reads its weights from
``model.safetensors``, so ``hf:embedded`` runs the very same numbers.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kshot.backends.embedded.choosing import next_token
from kshot.backends.texts import replace_surrogates
from kshot.core.errors import BackendError
from kshot.core.protocols import Abilities, RequestQueue
from kshot.core.records import Failed, Generate, Generated, Likelihood, Loglik, Prompt, Request, Response, Scored, Usage

FOLDER = Path(__file__).parent
FILES = ("model.onnx", "model.safetensors", "tokenizer.json")

Floats = NDArray[np.float32]
T = TypeVar("T")

BATCH_TOKENS = 2048
"""Tokens computed together, padding included."""


@dataclass(slots=True)
class _Text:
    """A text being written: its request, the tokens it starts from, and those it has got."""

    request: Generate
    prompt: list[int]
    room: int
    new: list[int] = field(default_factory=list)
    text: str = ""
    finish: str = ""


@dataclass(slots=True)
class _Sum:
    """A Loglik request whose continuations come in one by one."""

    request: Loglik
    found: dict[int, Likelihood] = field(default_factory=dict)


class Embedded:
    """Greedy and sampled text, and log-probabilities, on one CPU without torch."""

    name = "embedded"
    answers = (Generate, Loglik)
    notes = ()

    def __init__(self, *, batch_size: int = 16, threads: int | None = None) -> None:
        """Say how many sequences run together and on how many threads (default: all cores)."""
        self._batch_size = batch_size
        self._threads = threads or int(os.environ.get("OMP_NUM_THREADS") or 0) or os.cpu_count() or 1
        config = json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))
        self._limit: int = config["max_position_embeddings"]
        self._end: int = config["eos_token_id"]
        self._cache = (config["num_hidden_layers"], 2, config["num_attention_heads"], config["head_dim"])

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the weights, the graph and the tokenizer."""
        whole = hashlib.blake2b(digest_size=16)
        for name in FILES:
            whole.update((FOLDER / name).read_bytes())
        return f"embedded:{whole.hexdigest()}"

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        return Tokenizer.from_file(str(FOLDER / "tokenizer.json"))

    @cached_property
    def _session(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(str(FOLDER / "model.onnx"), options, providers=["CPUExecutionProvider"])

    @property
    def abilities(self) -> Abilities:
        """It can count tokens."""
        return Abilities(count_tokens=self.count_tokens)

    def close(self) -> None:
        """Drop the session; a request after this opens it again."""
        vars(self).pop("_session", None)

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text."""
        return len(self._tokenizer.encode(text).ids)

    def serve(self, waiting: RequestQueue) -> Iterator[tuple[Request, Response]]:
        """Answer everything that waits, in batches of like length."""
        while taken := waiting.take():
            yield from self._weigh([request for request in taken if isinstance(request, Loglik)])
            yield from self._write([request for request in taken if isinstance(request, Generate)])

    def _text_of(self, prompt: Prompt) -> str:
        if prompt.messages:
            raise BackendError("it has no chat template", where=self.name, hint="Use --model-type base.")
        return replace_surrogates(prompt.text)

    def _too_long(self, count: int) -> Failed:
        return Failed("too_long", f"the prompt has {count} tokens; the embedded model takes {self._limit}")

    # ---- running ----

    def _run(
        self,
        tokens: NDArray[np.int64],
        places: NDArray[np.int64],
        mask: NDArray[np.int64],
        past: Floats,
        wanted: NDArray[np.int64],
    ) -> tuple[Floats, Floats]:
        inputs = {"tokens": tokens, "position_ids": places, "mask": mask, "past": past, "wanted": wanted}
        logits, present = self._session.run(None, inputs)
        return logits, present

    def _batches(self, items: Sequence[T], length: Callable[[T], int]) -> Iterator[list[T]]:
        """Cut a sequence so that no batch has too many rows, or too many tokens: attention grows with their square."""
        batch: list[T] = []
        for item in items:
            longest = max([length(item), *map(length, batch)])
            if batch and (len(batch) == self._batch_size or longest * (len(batch) + 1) > BATCH_TOKENS):
                yield batch
                batch = []
            batch.append(item)
        if batch:
            yield batch

    def _start(
        self, rows: Sequence[Sequence[int]], wanted: NDArray[np.int64]
    ) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """Run right-padded rows from nothing; gives logits at the wanted places, the cache, and the mask."""
        lengths = np.array([len(row) for row in rows])
        tokens = np.zeros((len(rows), lengths.max()), np.int64)
        for line, row in zip(tokens, rows, strict=True):
            line[: len(row)] = row
        places = np.arange(lengths.max())
        mask = (places < lengths[:, None]).astype(np.int64)
        layers, pair, heads, width = self._cache
        nothing = np.zeros((layers, pair, len(rows), heads, 0, width), np.float32)
        logits, past = self._run(tokens, np.tile(places, (len(rows), 1)), mask, nothing, wanted)
        return logits, past, mask

    # ---- Generate ----

    def _write(self, requests: Sequence[Generate]) -> Iterator[tuple[Request, Response]]:
        texts: list[_Text] = []
        encoded = self._tokenizer.encode_batch([self._text_of(request.prompt) for request in requests])
        for request, encoding in zip(requests, encoded, strict=True):
            prompt = encoding.ids or [self._end]
            if len(prompt) >= self._limit:
                yield request, self._too_long(len(prompt))
            elif request.max_tokens < 1:
                yield request, Generated("", "length", Usage(len(prompt), 0))
            else:
                texts.append(_Text(request, prompt, min(request.max_tokens, self._limit - len(prompt))))
        texts.sort(key=lambda text: -len(text.prompt))
        for batch in self._batches(texts, lambda text: len(text.prompt)):
            self._continue(batch)
            for text in batch:
                usage = Usage(len(text.prompt), len(text.new))
                yield text.request, Generated(text.text, text.finish, usage)

    def _continue(self, batch: list[_Text]) -> None:
        """Write all texts of a batch to their ends; a finished one leaves it."""
        live = list(batch)
        lengths = np.array([[len(text.prompt)] for text in live])
        logits, past, mask = self._start([text.prompt for text in live], lengths - 1)
        step = 0
        while True:
            for text, row in zip(live, logits[:, -1], strict=True):
                self._add(text, row)
            going = [i for i, text in enumerate(live) if not text.finish]
            if not going:
                return
            if len(going) < len(live):
                live, lengths = [live[i] for i in going], lengths[going]
                past, mask = past[:, :, going], mask[going]
            tokens = np.array([[text.new[-1]] for text in live], np.int64)
            mask = np.concatenate([mask, np.ones_like(tokens)], axis=1)
            logits, past = self._run(tokens, lengths + step, mask, past, np.zeros_like(tokens))
            step += 1

    def _add(self, text: _Text, logits: Floats) -> None:
        token = next_token(logits, text.request, text.prompt, text.new)
        if token == self._end:
            text.finish = "stop"
            return
        text.new.append(token)
        text.text = self._tokenizer.decode(text.new, skip_special_tokens=True)
        cuts = [at for stop in text.request.stop if stop and (at := text.text.find(stop)) >= 0]
        if cuts:
            text.text, text.finish = text.text[: min(cuts)], "stop"
        elif len(text.new) >= text.room:
            text.finish = "length"

    # ---- Loglik ----

    def _weigh(self, requests: Sequence[Loglik]) -> Iterator[tuple[Request, Response]]:
        rows: list[tuple[_Sum, int, list[int], int]] = []
        for request in requests:
            spans = [self._span(self._text_of(request.prompt), text) for text in request.continuations]
            longest = max((len(tokens) for tokens, _ in spans), default=0)
            if longest > self._limit:
                yield request, self._too_long(longest)
                continue
            entry = _Sum(request)
            if not spans:
                yield request, Scored(())
            rows += [(entry, index, tokens, start) for index, (tokens, start) in enumerate(spans)]
        for batch in self._batches(rows, lambda row: len(row[2])):
            yield from self._read(batch)

    def _span(self, context: str, continuation: str) -> tuple[list[int], int]:
        """Tokens of the whole, and where the continuation's begin; a token across the seam is the continuation's."""
        found = self._tokenizer.encode(context + replace_surrogates(continuation))
        ends = (index for index, (_, end) in enumerate(found.offsets) if end > len(context))
        start = max(next(ends, len(found.ids)), 1)  # the first token of all is given, not predicted
        if start >= len(found.ids):
            raise BackendError(f"no token of the continuation {continuation[:60]!r} can be scored", where=self.name)
        return found.ids, start

    def _read(self, rows: Sequence[tuple[_Sum, int, list[int], int]]) -> Iterator[tuple[Request, Response]]:
        counts = [len(tokens) - start for _, _, tokens, start in rows]
        wanted = np.array(
            [[min(start - 1 + i, len(tokens) - 2) for i in range(max(counts))] for _, _, tokens, start in rows]
        )
        logits, _, _ = self._start([tokens[:-1] for _, _, tokens, _ in rows], wanted)
        for (entry, index, tokens, start), count, lines in zip(rows, counts, logits, strict=True):
            chosen = lines[:count].astype(np.float64)
            peak = chosen.max(axis=1)
            totals = peak + np.log(np.exp(chosen - peak[:, None]).sum(axis=1))
            total = float((chosen[np.arange(count), tokens[start:]] - totals).sum())
            entry.found[index] = Likelihood(total, count)
            if len(entry.found) == len(entry.request.continuations):
                yield entry.request, Scored(tuple(entry.found[i] for i in range(len(entry.found))))
