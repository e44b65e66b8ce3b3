"""Continuous batching: texts of any length are written together, and a finished text makes room for the next.

Prompts are read tree-packed, so what they share is computed once. Each prompt then gets a slot of the batch.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kshot.backends.hf.loading import invalid_logits
from kshot.backends.hf.packing import KeyValues, PackedModel
from kshot.backends.hf.sampling import ChosenLogprobs, adjusts_logits, append_token, apply_penalties, apply_sampling
from kshot.backends.hf.tokens import PromptTokenizer
from kshot.backends.hf.trie import Trie
from kshot.backends.hf.trie_pass import TriePass
from kshot.backends.texts import TextInProgress

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
