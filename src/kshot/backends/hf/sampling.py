"""Writing texts token by token: choosing the next token and knowing when to stop, for each text of a batch by itself.

Where a model allows it, texts of any length are written together, and a finished text makes room for the next. Prompts
are then read tree-packed, so what they share is computed once, and each prompt gets a slot of the batch.
"""

from __future__ import annotations

import hashlib
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kshot.backends.hf.loading import invalid_logits
from kshot.backends.hf.packing import KeyValues, PackedModel
from kshot.backends.hf.scoring import TriePass
from kshot.backends.hf.tokens import PromptTokenizer
from kshot.backends.hf.trie import Trie
from kshot.backends.texts import TextInProgress, cut_at_stop, summed_pieces, written_pieces
from kshot.core.reasoning import tokens_of, without_thoughts
from kshot.core.records import Generate, Generated, Usage
from kshot.core.serialization import sampling_digest

_BYTES_PER_CHARACTER = 4
"""The most bytes, and so the most tokens, that one character takes."""
_SPARE_TOKENS = 8
_CONTEXT_TOKENS = 16
"""Tokens before the searched ones that are decoded along with them."""


def adjusts_logits(request: Generate) -> bool:
    """Whether a request asks for more than the token with the highest logit."""
    return request.temperature > 0 or (request.repetition_penalty or 1) != 1 or bool(request.no_repeat_ngram_size)


def restart(rows: Iterable[TextInProgress]) -> None:
    """Drop what was written. A text depends on its request alone, so it comes out the same again."""
    for row in rows:
        row.new_tokens, row.stop_reason, row.logprobs = [], "", []


def split_into_batches(
    rows: Sequence[TextInProgress], size: int, limit: int | None, *, equal_lengths: bool = False
) -> Iterator[list[TextInProgress]]:
    """Split rows into batches of at most ``size``, the longest prompts first.

    Finished rows go on being computed until the last row of their batch is finished, so rows are batched only where
    none of them runs past the model's context ``limit`` meanwhile. ``equal_lengths``: all prompts of a batch have the
    same length.
    """
    batch: list[TextInProgress] = []
    for row in sorted(rows, key=lambda row: (-len(row.prompt), -row.max_new_tokens)):
        steps = max([row.max_new_tokens, *(other.max_new_tokens for other in batch)])
        length = max([len(row.prompt), *(len(other.prompt) for other in batch)]) + steps
        unequal = equal_lengths and batch and len(row.prompt) != len(batch[0].prompt)
        if batch and (len(batch) == size or unequal or (limit is not None and length > limit)):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


class ChosenLogprobs:
    """The log-probabilities of the tokens that are chosen for rows, where these want them.

    They are those of the model: of its logits as they were before anything adjusted them.
    """

    def __init__(self, rows: Sequence[TextInProgress]) -> None:
        self._rows = rows
        self._wanted = [index for index, row in enumerate(rows) if row.request.token_logprobs]
        self._logits: Any = None

    def keep(self, logits: Any) -> None:
        """Keep the logits of one step, by row, before they are adjusted."""
        if self._wanted:
            self._logits = logits[self._wanted].float()  # a copy: they are selected by a list

    def record(self, chosen: Sequence[int]) -> None:
        """Add the log-probability of each row's chosen token, unless the row has ended."""
        if not self._wanted:
            return
        tokens = self._logits.new_tensor([chosen[index] for index in self._wanted]).long()
        values = self._logits.gather(1, tokens[:, None])[:, 0] - self._logits.logsumexp(dim=-1)
        for index, value in zip(self._wanted, values.tolist(), strict=True):
            if not self._rows[index].stop_reason:
                self._rows[index].logprobs.append(value)


class RowLogitsProcessor:
    """A logits processor of transformers after which the greedy choice is the choice that each request asks for.

    Sampling is by Gumbel-max: argmax(logits + g), g = -log(-log u), has the distribution softmax(logits). The noise
    comes from the request alone, so a text does not depend on what it is batched with.
    """

    def __init__(self, rows: Sequence[TextInProgress], width: int, name: str, logprobs: ChosenLogprobs) -> None:
        self.rows, self.width, self.name, self.logprobs = rows, width, name, logprobs

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Adjust the scores of every row that is still being written."""
        live = [index for index, row in enumerate(self.rows) if not row.stop_reason]
        # The maximum is NaN where any score is, and it is never infinite in a working model.
        if live and not scores[live].amax(dim=-1).isfinite().all():
            raise invalid_logits(self.name)
        self.logprobs.keep(scores)
        step = input_ids.shape[1] - self.width
        for index in live:
            row = self.rows[index]
            if adjusts_logits(row.request):
                tokens = input_ids[index, self.width - len(row.prompt) :]
                scores[index] = apply_sampling(apply_penalties(scores[index], tokens, row.request), row.request, step)
        return scores


def apply_penalties(scores: Any, tokens: Any, request: Generate) -> Any:
    """Apply the repetition penalty and the ban on repeated n-grams; ``tokens`` are those so far, without padding."""
    if (penalty := request.repetition_penalty) and penalty != 1:
        used = tokens.unique()
        chosen = scores[used]
        scores = scores.index_copy(0, used, (chosen * penalty).where(chosen < 0, chosen / penalty))
    if size := request.no_repeat_ngram_size:
        ids = tokens.tolist()
        tail = ids[len(ids) - size + 1 :]
        banned = [ids[at + size - 1] for at in range(len(ids) - size + 1) if ids[at : at + size - 1] == tail]
        scores = scores.clone()
        scores[banned] = float("-inf")
    return scores


def apply_sampling(scores: Any, request: Generate, step: int) -> Any:
    """Return scores whose argmax is a sample at the temperature, among the top k and the top p."""
    import torch

    if request.temperature <= 0:
        return scores
    scores = scores / request.temperature
    if request.top_k and 0 < request.top_k < scores.shape[0]:
        scores = scores.masked_fill(scores < scores.topk(request.top_k).values[-1], float("-inf"))
    if request.top_p is not None and request.top_p < 1:
        ordered, places = scores.sort(descending=True)
        # On a GPU, running sums of floats differ from run to run.
        shares = ordered.softmax(dim=0).cpu()
        # A token stays while those before it have not reached top_p: the first one always stays.
        dropped = shares.cumsum(dim=0) - shares >= request.top_p
        dropped[0] = False
        dropped = torch.zeros_like(dropped).scatter(0, places.cpu(), dropped).to(scores.device)
        scores = scores.masked_fill(dropped, float("-inf"))
    return scores + gumbel_noise(request, step, scores.shape[0]).to(scores)


def drawn_seed(request: Generate, *parts: int) -> int:
    """Return a seed of the request's own, so that replicas differ and a text does not depend on its batch."""
    text = "\0".join(map(str, (request.seed, sampling_digest(request), *parts)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def gumbel_noise(request: Generate, step: int, size: int) -> Any:
    """Draw standard Gumbel noise for one step of one request: the same on every device and in every batch."""
    import torch

    source = torch.Generator("cpu").manual_seed(drawn_seed(request, step))
    return -torch.empty(size, dtype=torch.float64).exponential_(generator=source).log()


class RowStoppingCriterion:
    """A stopping criterion of transformers, by row: a stop token, a stop string, or the length limit."""

    def __init__(self, rows: Sequence[TextInProgress], tokenizer: PromptTokenizer, logprobs: ChosenLogprobs) -> None:
        self.rows, self.tokenizer, self.logprobs = rows, tokenizer, logprobs

    def __call__(self, input_ids: Any, _scores: Any, **_options: Any) -> Any:
        """Add the last token to every unfinished row, and say which rows are finished."""
        chosen = input_ids[:, -1].tolist()
        self.logprobs.record(chosen)
        for row, token in zip(self.rows, chosen, strict=True):
            if not row.stop_reason:
                append_token(row, token, self.tokenizer)
        return input_ids.new_tensor([bool(row.stop_reason) for row in self.rows]).bool()


def write_rows(
    model: Any, inputs: Mapping[str, Any], rows: Sequence[TextInProgress], name: str, tokenizer: PromptTokenizer
) -> None:
    """Write rows to their ends by transformers' own loop; ``inputs`` are what the model reads of them."""
    import torch
    from transformers import GenerationConfig

    longest = max(row.max_new_tokens for row in rows)
    logprobs = ChosenLogprobs(rows)
    with torch.inference_mode():
        model.generate(
            **inputs,
            generation_config=GenerationConfig(do_sample=False, num_beams=1, max_new_tokens=longest, pad_token_id=0),
            logits_processor=[RowLogitsProcessor(rows, inputs["input_ids"].shape[1], name, logprobs)],
            stopping_criteria=[RowStoppingCriterion(rows, tokenizer, logprobs)],
        )


def append_token(row: TextInProgress, token: int, tokenizer: PromptTokenizer) -> None:
    """Add a token to a row, and set its stop reason if that ends it."""
    row.new_tokens.append(token)
    if token in row.stop_ids or (row.request.stop and _has_stop_string(row, tokenizer)):
        row.stop_reason = "stop"
    elif len(row.new_tokens) >= row.max_new_tokens:
        row.stop_reason = row.length_reason


def _has_stop_string(row: TextInProgress, tokenizer: PromptTokenizer) -> bool:
    # Only the tail can contain a stop string that was not there one token ago.
    tail = row.new_tokens[-(_BYTES_PER_CHARACTER * max(map(len, row.request.stop)) + _SPARE_TOKENS) :]
    earlier = row.new_tokens[: len(row.new_tokens) - len(tail)][-_CONTEXT_TOKENS:]
    before = [*row.prompt[-_CONTEXT_TOKENS:], *earlier][-_CONTEXT_TOKENS:]
    return cut_at_stop(tokenizer.decode_after(before, tail), row.request.stop) is not None


def generated_response(row: TextInProgress, tokenizer: PromptTokenizer) -> Generated:
    """Return the response of a finished row, from its own new tokens."""
    new = row.new_tokens
    kept = new[:-1] if new and new[-1] in row.stop_ids else new
    text = tokenizer.decode_after(row.prompt, kept)
    short = cut_at_stop(text, row.request.stop)
    usage = Usage(len(row.prompt), len(new))
    reason = row.stop_reason if short is None else "stop"
    shown = text if short is None else short
    tokens = None
    if row.request.token_logprobs:
        pieces = written_pieces(tokenizer.decode_after, row.prompt, kept)
        tokens = tokens_of(summed_pieces(pieces, row.logprobs), shown)
    reply = Generated(shown, reason, usage, "", row.cut_tokens, tokens)
    return without_thoughts(reply, opened=tokenizer.opens_thoughts(row.prompt))


# ---- continuous batching ----

_LENGTH_MULTIPLE = 64
"""Buffers have a multiple of this many tokens. On a GPU the attended length does too: it suits the kernels."""


def slot_layer_class() -> Any:
    """Return the class of a cache layer with slots; its base class needs transformers."""
    from transformers.cache_utils import DynamicLayer

    class SlotLayer(DynamicLayer):  # type: ignore[misc]  # transformers has no types
        """Keys and values of many texts of different lengths; ``slots`` knows the lengths."""

        def __init__(self, slots: SlotBatch) -> None:
            super().__init__()
            self.slots = slots

        def update(self, key_states: Any, value_states: Any, *_args: Any, **_options: Any) -> tuple[Any, Any]:
            """Append one token to each slot, and return the slots in use."""
            count, width = len(key_states), self.slots.width
            places = self.slots.next_places(self.keys.shape[1], self.keys.device)
            self.keys.flatten(0, 1).index_copy_(0, places, key_states[:, :, 0])
            self.values.flatten(0, 1).index_copy_(0, places, value_states[:, :, 0])
            return self.keys[:count, :width].transpose(1, 2), self.values[:count, :width].transpose(1, 2)

        def get_seq_length(self, *_args: Any) -> int:
            """Return the number of tokens of the longest text."""
            return self.slots.width - 1

        def fill(self, slot: int, pair: tuple[Any, ...]) -> None:
            """Put a prompt's keys and values into a slot; the buffers grow with the longest prompt."""
            needed = pair[0].shape[-2] + 1
            if not self.is_initialized:
                self.lazy_initialization(*pair)
                self.keys, self.values = (_buffer(states, self.slots.size, needed) for states in pair)
            self.grow(needed)
            self.keys[slot, : needed - 1] = pair[0][0].transpose(0, 1)
            self.values[slot, : needed - 1] = pair[1][0].transpose(0, 1)

        def grow(self, needed: int) -> None:
            """Make room for this many tokens in each slot."""
            if self.is_initialized and self.keys.shape[1] < needed:
                self.keys, self.values = (_grown(states, needed) for states in (self.keys, self.values))

        def copy_slot(self, source: int, target: int) -> None:
            """Copy one slot into another."""
            if self.is_initialized:
                self.keys[target], self.values[target] = self.keys[source], self.values[source]

    return SlotLayer


def _buffer(states: Any, size: int, needed: int) -> Any:
    """Return a buffer by slot, token and head, so that a token is written in one piece."""
    length = -(-(needed + needed // 8) // _LENGTH_MULTIPLE) * _LENGTH_MULTIPLE
    return states.new_zeros((size, length, states.shape[1], states.shape[-1]))


def _grown(states: Any, needed: int) -> Any:
    buffer = _buffer(states.transpose(1, 2), len(states), needed)
    buffer[:, : states.shape[1]] = states
    return buffer


class SlotBatch:
    """A batch of texts being written; the slots in use come first."""

    def __init__(self, model: PackedModel, size: int) -> None:
        from transformers.cache_utils import Cache

        self.size, self._model, self._torch = size, model, model.torch
        layer_class = slot_layer_class()
        # A layer must not keep its slots alive: their memory is needed as soon as the last text is written.
        self._layers = [layer_class(weakref.proxy(self)) for _ in model.layers]
        self._cache = Cache(layers=self._layers)
        self._numbers = model.torch.arange(size, device=model.device)
        self._lengths: Any = model.torch.zeros(size, dtype=model.torch.long, device=model.device)
        self.width = 1
        self._next_places: dict[tuple[int, Any], Any] = {}
        self.rows: list[TextInProgress] = []

    def add(self, row: TextInProgress, states: KeyValues) -> None:
        """Give a slot to a row whose first token is chosen."""
        slot = len(self.rows)
        with self._torch.inference_mode():
            for layer, pair in zip(self._layers, states, strict=True):
                if pair:
                    layer.fill(slot, pair)
            self._lengths[slot] = len(row.prompt)
        self.rows.append(row)

    def next_places(self, length: int, device: Any) -> Any:
        """Return where the next token of each slot goes, in buffers of this length laid end to end on a device."""
        found = self._next_places.get((length, device))
        if found is None:
            count = len(self.rows)
            found = (self._numbers[:count] * length + self._lengths[:count]).to(device)
            self._next_places[length, device] = found
        return found

    def step(self) -> Any:
        """Read every row's last token, and return the logits after it in float32."""
        torch, count, multiple = self._torch, len(self.rows), _LENGTH_MULTIPLE if self._model.is_cuda else 1
        longest = max(len(row.prompt) + len(row.new_tokens) for row in self.rows)
        self.width, self._next_places = -(-longest // multiple) * multiple, {}
        ids = torch.tensor([[row.new_tokens[-1]] for row in self.rows], device=self._model.device)
        with torch.inference_mode(), self._model.attention_kernels(one_off=True):
            for layer in self._layers:
                layer.grow(self.width)
            lengths = self._lengths[:count, None]
            mask = torch.arange(self.width, device=self._model.device) <= lengths
            logits = self._model.model(
                input_ids=ids,
                position_ids=lengths,
                attention_mask=self._model.additive_mask(mask)[:, None, None],
                past_key_values=self._cache,
                use_cache=True,
            ).logits[:, -1]
            self._lengths[:count] += 1
            return logits.float()

    def remove_finished(self) -> Iterator[TextInProgress]:
        """Remove and give the finished rows; the last rows move into their slots."""
        for slot in range(len(self.rows) - 1, -1, -1):
            if not self.rows[slot].stop_reason:
                continue
            finished, last = self.rows[slot], self.rows.pop()
            if slot < len(self.rows):
                self.rows[slot] = last
                with self._torch.inference_mode():
                    for layer in self._layers:
                        layer.copy_slot(len(self.rows), slot)
                    self._lengths[slot] = self._lengths[len(self.rows)]
            yield finished


def choose_tokens(logits: Any, rows: Sequence[TextInProgress], name: str, tokenizer: PromptTokenizer) -> None:
    """Choose each row's next token, greedily or as its request asks."""
    import torch

    logprobs = ChosenLogprobs(rows)
    with torch.inference_mode():
        logprobs.keep(logits)
        for index, row in enumerate(rows):
            if adjusts_logits(row.request):
                tokens = torch.tensor([*row.prompt, *row.new_tokens], device=logits.device)
                adjusted = apply_penalties(logits[index], tokens, row.request)
                logits[index] = apply_sampling(adjusted, row.request, len(row.new_tokens))
        # The maximum is NaN where any score is, and never infinite in a working model. One transfer for both.
        best, place = logits.max(dim=-1)
        finite, chosen = torch.stack([best.isfinite().long(), place]).tolist()
        if not all(finite):
            raise invalid_logits(name)
        logprobs.record(chosen)
    for row, token in zip(rows, chosen, strict=True):
        append_token(row, token, tokenizer)


def write_texts(
    model: PackedModel, trie: Trie, rows: Sequence[TextInProgress], size: int, tokenizer: PromptTokenizer
) -> Iterator[TextInProgress]:
    """Write all rows to their ends. ``rows[i]`` continues sequence i of the trie, which wants its last place only."""
    rows_at: dict[int, list[TextInProgress]] = {}
    for nodes, row in zip(trie.nodes, rows, strict=True):
        rows_at.setdefault(int(nodes[-1]), []).append(row)
    wanted = np.array(sorted(rows_at), np.int64)
    trie_pass = TriePass(model, trie, wanted)
    slots = SlotBatch(model, min(size, len(rows)))
    ready: deque[tuple[TextInProgress, KeyValues]] = deque()
    while True:
        free = slots.size - len(slots.rows)
        # A single prompt makes a short row, so a few prompts are read at a time, and some of them wait for a slot.
        if not trie_pass.done and len(ready) < free:
            nth = int(np.searchsorted(wanted, trie_pass.place)) + max(free - len(ready), slots.size // 2)
            read = trie_pass.step(int(wanted[nth]) if nth < len(wanted) else None)
            for place, logits in zip(read.wanted.tolist(), read.logits.float(), strict=True):
                begun = rows_at[place]
                choose_tokens(logits.repeat(len(begun), 1), begun, model.name, tokenizer)
                yield from (row for row in begun if row.stop_reason)
                if unfinished := [row for row in begun if not row.stop_reason]:
                    states = trie_pass.copy_states(place)
                    ready.extend((row, states) for row in unfinished)
            continue
        while ready and len(slots.rows) < slots.size:
            slots.add(*ready.popleft())
        if not slots.rows:
            return
        choose_tokens(slots.step(), slots.rows, model.name, tokenizer)
        yield from slots.remove_finished()
