"""The built-in model: 2.3 million weights trained on token lookup, run by onnxruntime; ``CARD.md`` describes it.

Its folder is a Hugging Face model folder too. ``model.onnx`` is only the graph, and reads its weights from
``model.safetensors``, so ``hf:embedded`` runs the very same numbers.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from kshot import __version__
from kshot.backends.texts import (
    Pieces,
    ScoredSpans,
    TextInProgress,
    cut_at_stop,
    cuts_left,
    replace_surrogates,
    rolling_windows,
    scored_parts,
    scored_pieces,
    start_token,
    summed_pieces,
    unscorable,
    written_pieces,
)
from kshot.core.errors import BackendError, UsageError
from kshot.core.protocols import Abilities, RequestQueue
from kshot.core.reasoning import tokens_of
from kshot.core.records import (
    Failed,
    Generate,
    Generated,
    Likelihood,
    Loglik,
    Prompt,
    Request,
    Response,
    Scored,
    TokenLogprobs,
    Usage,
)
from kshot.core.serialization import sampling_digest

_Span: TypeAlias = tuple[list[int], int]
"""A whole sequence, and the index of the first token whose probability is wanted."""


def text_of(prompt: Prompt) -> str:
    """Return the text of a prompt; a conversation is an error."""
    if prompt.messages:
        raise BackendError("it has no chat template", where="embedded", hint="Use --model-type base.")
    return replace_surrogates(prompt.text)


def too_long(count: int, limit: int) -> Failed:
    """Return the failure of a prompt that does not fit into the context window."""
    return Failed("too_long", f"the prompt has {count} tokens; the embedded model takes {limit}")


class ScoredSequence(NamedTuple):
    """A prompt with one of its continuations: its tokens, and the index of the continuation's first token."""

    entry: ScoredSpans[_Span]
    number: int
    tokens: list[int]
    start: int


# ---- choosing the next token of a text, from its request alone ----


def choose_token(logits: NDArray[np.float32], request: Generate, prompt: Sequence[int], new: Sequence[int]) -> int:
    """Return the most likely token at temperature 0, else a sample by Gumbel-max with noise seeded by the request."""
    scores = logits.astype(np.float64)
    if request.repetition_penalty not in {None, 1.0}:
        used = np.unique([*prompt, *new])
        penalty = float(request.repetition_penalty or 1.0)
        scores[used] = np.where(scores[used] > 0, scores[used] / penalty, scores[used] * penalty)
    for token in _repeated_ngram_ends([*prompt, *new], request.no_repeat_ngram_size or 0):
        scores[token] = -np.inf
    if request.temperature <= 0:
        return int(scores.argmax())
    scores /= request.temperature
    if request.top_k is not None and request.top_k < len(scores):
        scores[scores < np.sort(scores)[-request.top_k]] = -np.inf
    if request.top_p is not None and request.top_p < 1:
        scores = _keep_top_p(scores, request.top_p)
    seed = hashlib.blake2b(f"{sampling_digest(request)}:{len(new)}".encode(), digest_size=8).digest()
    noise = np.random.Generator(np.random.PCG64(int.from_bytes(seed, "big"))).gumbel(size=len(scores))
    return int((scores + noise).argmax())


def _keep_top_p(scores: NDArray[np.float64], top_p: float) -> NDArray[np.float64]:
    order = np.argsort(-scores)
    weights = np.exp(scores[order] - scores[order[0]])
    before = np.cumsum(weights) - weights  # a token stays while those above it have not reached the share
    kept = order[before < top_p * weights.sum()]
    out = np.full_like(scores, -np.inf)
    out[kept] = scores[kept]
    return out


def _repeated_ngram_ends(tokens: Sequence[int], size: int) -> set[int]:
    """Return the tokens that would complete an n-gram that has occurred already."""
    if size < 1 or len(tokens) < size:
        return set()
    tail = tuple(tokens[len(tokens) - size + 1 :])
    ngrams = (tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1))
    return {ngram[-1] for ngram in ngrams if ngram[:-1] == tail}


# ---- the model ----

FOLDER = Path(__file__).parent
FILES = ("model.onnx", "model.safetensors", "tokenizer.json")

Floats: TypeAlias = NDArray[np.float32]
Integers: TypeAlias = NDArray[np.int64]
T = TypeVar("T")

MAX_BATCH_TOKENS = 2048
"""Tokens computed together, padding included."""


class Embedded:
    """The built-in model: greedy and sampled text, and log-probabilities, on a CPU without torch."""

    name = "embedded"
    answers = (Generate, Loglik)
    notes = ()

    def __init__(
        self,
        *,
        batch_size: int = 16,
        threads: int | None = None,
        truncate: str | None = None,
        deterministic: bool = False,
    ) -> None:
        """Say how many sequences run together, and on how many threads (default: all cores).

        ``truncate="left"`` cuts prompts that are too long from the left. ``deterministic`` runs each sequence by
        itself, so that its numbers are the same whatever else is asked.
        """
        self._cuts_prompts = cuts_left(truncate)
        if batch_size < 1:
            raise UsageError(f"batch_size is {batch_size}; it must be 1 or more")
        self._batch_size, self._deterministic = 1 if deterministic else batch_size, deterministic
        self._threads = threads or int(os.environ.get("OMP_NUM_THREADS") or 0) or os.cpu_count() or 1
        config = json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))
        self._context_limit: int = config["max_position_embeddings"]
        self._eos_id: int = config["eos_token_id"]
        self._cache_shape = (config["num_hidden_layers"], 2, config["num_attention_heads"], config["head_dim"])

    @cached_property
    def fingerprint(self) -> str:
        """A digest of weights, graph and tokenizer; with ``deterministic``, also what the last digits depend on."""
        whole = hashlib.blake2b(digest_size=16)
        for name in FILES:
            whole.update((FOLDER / name).read_bytes())
        found = f"embedded:{whole.hexdigest()}{':truncate left' if self._cuts_prompts else ''}"
        if self._deterministic:
            import onnxruntime

            versions = f"{__version__} {onnxruntime.__version__}"
            # With other vector instructions, sums are made in another order.
            extensions = np.show_config(mode="dicts").get("SIMD Extensions", {}).get("found", ())
            found += f":deterministic {versions} {'/'.join((platform.machine(), *extensions))} {self._threads}"
        return found

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        return Tokenizer.from_file(str(FOLDER / "tokenizer.json"))

    @cached_property
    def _session(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.use_deterministic_compute = self._deterministic
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(str(FOLDER / "model.onnx"), options, providers=["CPUExecutionProvider"])

    @property
    def abilities(self) -> Abilities:
        """It can count tokens."""
        return Abilities(count_tokens=self.count_tokens, cuts_prompts=self._cuts_prompts)

    def close(self) -> None:
        """Drop the session; a later request opens it again."""
        vars(self).pop("_session", None)

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text."""
        return len(self._tokenizer.encode(text).ids)

    def serve(self, queue: RequestQueue, /) -> Iterator[tuple[Request, Response]]:
        """Answer all waiting requests, in batches."""
        while requests := queue.take():
            yield from self._score([request for request in requests if isinstance(request, Loglik)])
            yield from self._generate([request for request in requests if isinstance(request, Generate)])

    # ---- running ----

    def _run(
        self, tokens: Integers, positions: Integers, mask: Integers, past: Floats, wanted: Integers
    ) -> tuple[Floats, Floats]:
        """Run the graph; return the logits at the wanted places, and the cache."""
        inputs = {"tokens": tokens, "position_ids": positions, "mask": mask, "past": past, "wanted": wanted}
        logits, present = self._session.run(None, inputs)
        return logits, present

    def _batches(self, items: Sequence[T], length: Callable[[T], int]) -> Iterator[list[T]]:
        """Cut a sequence into batches of few rows and few tokens, because attention grows with their square."""
        batch: list[T] = []
        for item in items:
            longest = max([length(item), *map(length, batch)])
            if batch and (len(batch) == self._batch_size or longest * (len(batch) + 1) > MAX_BATCH_TOKENS):
                yield batch
                batch = []
            batch.append(item)
        if batch:
            yield batch

    def _run_from_start(self, rows: Sequence[Sequence[int]], wanted: Integers) -> tuple[Floats, Floats, Integers]:
        """Run right-padded rows with an empty cache; return logits at the wanted places, the cache, and the mask."""
        lengths = np.array([len(row) for row in rows])
        tokens = np.zeros((len(rows), lengths.max()), np.int64)
        for line, row in zip(tokens, rows, strict=True):
            line[: len(row)] = row
        positions = np.arange(lengths.max())
        mask = (positions < lengths[:, None]).astype(np.int64)
        layers, pair, heads, width = self._cache_shape
        empty = np.zeros((layers, pair, len(rows), heads, 0, width), np.float32)
        logits, past = self._run(tokens, np.tile(positions, (len(rows), 1)), mask, empty, wanted)
        return logits, past, mask

    # ---- Generate ----

    def _generate(self, requests: Sequence[Generate]) -> Iterator[tuple[Request, Response]]:
        texts: list[TextInProgress] = []
        encoded = self._tokenizer.encode_batch([text_of(request.prompt) for request in requests])
        for request, encoding in zip(requests, encoded, strict=True):
            whole = encoding.ids or [self._eos_id]
            # Where prompts are cut, there is room for the whole reply. A reply that needs the whole window leaves none.
            room = max(self._context_limit - request.max_tokens, 0) if self._cuts_prompts else len(whole)
            prompt = whole[max(len(whole) - room, 0) :]
            if len(prompt) >= self._context_limit or not prompt:
                yield request, too_long(len(whole), self._context_limit)
            elif request.max_tokens < 1:
                yield request, Generated("", "length", Usage(len(prompt), 0))
            else:
                count = min(request.max_tokens, self._context_limit - len(prompt))
                texts.append(TextInProgress(request, prompt, count, len(whole) - len(prompt)))
        texts.sort(key=lambda text: -len(text.prompt))
        for batch in self._batches(texts, lambda text: len(text.prompt)):
            self._write_batch(batch)
            for text in batch:
                usage = Usage(len(text.prompt), len(text.new_tokens))
                tokens = self._token_logprobs(text) if text.request.token_logprobs else None
                reply = Generated(text.text, text.stop_reason, usage, "", text.cut_tokens, tokens)
                yield text.request, reply

    def _write_batch(self, batch: Sequence[TextInProgress]) -> None:
        """Write all texts of a batch to their ends; a finished text leaves the batch."""
        live = list(batch)
        lengths = np.array([[len(text.prompt)] for text in live])
        logits, past, mask = self._run_from_start([text.prompt for text in live], lengths - 1)
        step = 0
        while True:
            for text, row in zip(live, logits[:, -1], strict=True):
                self._append_token(text, row)
            unfinished = [i for i, text in enumerate(live) if not text.stop_reason]
            if not unfinished:
                return
            if len(unfinished) < len(live):
                live, lengths = [live[i] for i in unfinished], lengths[unfinished]
                past, mask = past[:, :, unfinished], mask[unfinished]
            tokens = np.array([[text.new_tokens[-1]] for text in live], np.int64)
            mask = np.concatenate([mask, np.ones_like(tokens)], axis=1)
            logits, past = self._run(tokens, lengths + step, mask, past, np.zeros_like(tokens))
            step += 1

    def _append_token(self, text: TextInProgress, logits: Floats) -> None:
        token = choose_token(logits, text.request, text.prompt, text.new_tokens)
        if token == self._eos_id:
            text.stop_reason = "stop"
            return
        text.new_tokens.append(token)
        if text.request.token_logprobs:
            wide = logits[None].astype(np.float64)
            text.logprobs.append(float(wide[0, token] - _log_totals(wide)[0]))
        text.text = self._tokenizer.decode(text.new_tokens, skip_special_tokens=True)
        if (short := cut_at_stop(text.text, text.request.stop)) is not None:
            text.text, text.stop_reason = short, "stop"
        elif len(text.new_tokens) >= text.max_new_tokens:
            text.stop_reason = text.length_reason

    def _token_logprobs(self, text: TextInProgress) -> TokenLogprobs | None:
        """Return the tokens of a finished text with their log-probabilities."""

        def decode_after(before: Sequence[int], tokens: Sequence[int]) -> str:
            own: str = self._tokenizer.decode([*before, *tokens], skip_special_tokens=True)
            return own[len(self._tokenizer.decode(list(before), skip_special_tokens=True)) :] if before else own

        return tokens_of(summed_pieces(written_pieces(decode_after, (), text.new_tokens), text.logprobs), text.text)

    # ---- Loglik ----

    def _score(self, requests: Sequence[Loglik]) -> Iterator[tuple[Request, Response]]:
        sequences: list[ScoredSequence] = []
        for request in requests:
            found = self._windows(request) if request.rolling else self._spans(request)
            if isinstance(found, Failed):
                yield request, found
            elif not found.spans:
                yield request, Scored(())
            else:
                sequences += (ScoredSequence(found, number, *span) for number, span in enumerate(found.spans))
        for batch in self._batches(sequences, lambda sequence: len(sequence.tokens)):
            yield from self._score_batch(batch)

    def _spans(self, request: Loglik) -> ScoredSpans[_Span] | Failed:
        context, texts = scored_parts(request, text_of(request.prompt))
        counted = request.prompt.rules == "lm-eval"
        spans = [self._span(context, text, counted=counted) for text in texts]
        for text, (tokens, start) in zip(request.continuations, spans, strict=True):
            if start >= len(tokens):
                return unscorable(text, request.prompt.text)
        pieces = self._pieces(context, texts, spans) if request.token_logprobs else ()
        longest = max((len(tokens) for tokens, _ in spans), default=0)
        if longest <= self._context_limit:
            return ScoredSpans(request, spans, pieces=pieces)
        if not self._cuts_prompts:
            return too_long(longest, self._context_limit)
        most = self._context_limit + 1  # the last token is predicted and never read
        if (needed := max(len(tokens) - start for tokens, start in spans)) >= most:
            return too_long(needed, self._context_limit)
        cut = [(tokens[-most:], start - max(len(tokens) - most, 0)) for tokens, start in spans]
        return ScoredSpans(request, cut, cut_tokens=max(longest - most, 0), pieces=pieces)

    def _pieces(self, context: str, texts: Sequence[str], spans: Sequence[_Span]) -> list[Pieces]:
        """Return the texts of the scored tokens of each continuation."""
        wholes = [context + replace_surrogates(text) for text in texts]
        encoded = self._tokenizer.encode_batch(wholes)
        return [
            scored_pieces(whole, [end for _, end in encoding.offsets], len(tokens) - start, len(context))
            for whole, encoding, (tokens, start) in zip(wholes, encoded, spans, strict=True)
        ]

    def _span(self, context: str, continuation: str, *, counted: bool) -> _Span:
        """Return the tokens of both texts, and where the continuation begins; a token across the seam is part of it.

        ``counted`` (lm-eval's rule): it begins after as many tokens as the context alone has, and those are read first.
        """
        found = self._tokenizer.encode(context + replace_surrogates(continuation))
        if counted:
            before = self._tokenizer.encode(context).ids
            return [*before, *found.ids[len(before) :]], max(len(before), 1)
        ends = (index for index, (_, end) in enumerate(found.offsets) if end > len(context))
        return found.ids, max(next(ends, len(found.ids)), 1)  # the first token of all is given, not predicted

    def _windows(self, request: Loglik) -> ScoredSpans[_Span] | Failed:
        """Cut documents into windows. The model has no BOS token, so EOS stands before a document."""
        assert request.rolling is not None  # noqa: S101 - the caller has looked
        if request.rolling == "bos":
            raise BackendError("it has no BOS token", where="embedded", hint="Use --rolling-start eos or none.")
        first = start_token(request.rolling, None, self._eos_id)
        texts = [replace_surrogates(text) for text in request.continuations]
        encoded = self._tokenizer.encode_batch(texts)
        windows = [list(rolling_windows(each.ids, first, self._context_limit)) for each in encoded]
        if not all(windows):
            return Failed("no_tokens", "the document has no token that can be scored")
        spans = [span for some in windows for span in some]
        pieces = [
            scored_pieces(text, [end for _, end in each.offsets], len(each.offsets) - (first is None))
            for text, each in (zip(texts, encoded, strict=True) if request.token_logprobs else ())
        ]
        return ScoredSpans(request, spans, [len(some) for some in windows], pieces=pieces)

    def _score_batch(self, sequences: Sequence[ScoredSequence]) -> Iterator[tuple[Request, Response]]:
        counts = [len(tokens) - start for _, _, tokens, start in sequences]
        wanted = np.array(
            [[min(start - 1 + i, len(tokens) - 2) for i in range(max(counts))] for _, _, tokens, start in sequences]
        )
        logits, _, _ = self._run_from_start([sequence.tokens[:-1] for sequence in sequences], wanted)
        for (entry, number, tokens, start), count, lines in zip(sequences, counts, logits, strict=True):
            chosen = lines[:count].astype(np.float64)
            values = chosen[np.arange(count), tokens[start:]] - _log_totals(chosen)
            greedy = bool((chosen.argmax(axis=1) == tokens[start:]).all())
            likelihood = Likelihood(float(values.sum()), count, greedy)
            if (scored := entry.add(number, likelihood, values.tolist() if entry.pieces else ())) is not None:
                yield entry.request, scored


def _log_totals(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log(sum(exp(logits))) of each row: subtracted from a logit, it leaves the log-probability."""
    peak = logits.max(axis=1)
    totals: NDArray[np.float64] = peak + np.log(np.exp(logits - peak[:, None]).sum(axis=1))
    return totals
