"""Continuous batching: texts are written together, each at its own length; one that is done makes room for the next.

Prompts are read tree-packed, so what they share is computed once; each then gets a slot of the batch.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kshot.backends.hf.packing import Packer, States
from kshot.backends.hf.sampling import Row, advance, broken, penalised, sampled
from kshot.backends.hf.tokens import Tokens
from kshot.backends.hf.trie import Trie
from kshot.backends.hf.trie_pass import Walk

_GRAIN = 64
"""Lengths of buffers are multiples of this; on a GPU also what is looked at of them, for the kernels' sake."""


def slot_type() -> Any:
    """The class of a cache layer with slots; made when transformers is there to inherit from."""
    from transformers.cache_utils import DynamicLayer

    class SlotLayer(DynamicLayer):  # type: ignore[misc]
        """Keys and values of many texts, each of its own length; ``slots`` knows the lengths."""

        def __init__(self, slots: Slots) -> None:
            super().__init__()
            self.slots = slots

        def update(self, key_states: Any, value_states: Any, *_args: Any, **_options: Any) -> tuple[Any, Any]:
            """Write one token a slot behind what the slot holds, and return the slots in use."""
            count, width = len(key_states), self.slots.width
            places = self.slots.places(self.keys.shape[1])
            self.keys.flatten(0, 1).index_copy_(0, places, key_states[:, :, 0])
            self.values.flatten(0, 1).index_copy_(0, places, value_states[:, :, 0])
            return self.keys[:count, :width].transpose(1, 2), self.values[:count, :width].transpose(1, 2)

        def get_seq_length(self, *_args: Any) -> int:
            """Tokens of the longest."""
            return self.slots.width - 1

        def place(self, slot: int, pair: tuple[Any, ...]) -> None:
            """Put a prompt's keys and values into a slot; the buffers grow with the longest."""
            needed = pair[0].shape[-2] + 1
            if not self.is_initialized:
                self.lazy_initialization(*pair)
                self.keys, self.values = (_buffer(held, self.slots.size, needed) for held in pair)
            self.stretch(needed)
            self.keys[slot, : needed - 1] = pair[0][0].transpose(0, 1)
            self.values[slot, : needed - 1] = pair[1][0].transpose(0, 1)

        def stretch(self, needed: int) -> None:
            """Make room for this many tokens a slot."""
            if self.is_initialized and self.keys.shape[1] < needed:
                self.keys, self.values = (_wider(held, needed) for held in (self.keys, self.values))

        def move(self, slot: int, to: int) -> None:
            """Copy a slot."""
            if self.is_initialized:
                self.keys[to], self.values[to] = self.keys[slot], self.values[slot]

    return SlotLayer


def _buffer(like: Any, size: int, needed: int) -> Any:
    """Room for so many texts of so many tokens; by slot, token and head, so that a token is written in one piece."""
    return like.new_zeros((size, -(-(needed + needed // 8) // _GRAIN) * _GRAIN, like.shape[1], like.shape[-1]))


def _wider(held: Any, needed: int) -> Any:
    wider = _buffer(held.transpose(1, 2), len(held), needed)
    wider[:, : held.shape[1]] = held
    return wider


class Slots:
    """A batch of texts being written; slots in use come first."""

    def __init__(self, packer: Packer, size: int) -> None:
        from transformers.cache_utils import Cache

        self.size, self._packer, self._torch = size, packer, packer.torch
        make = slot_type()
        # A layer must not keep its slots alive: the memory is wanted back as soon as the last text is written.
        self._layers = [make(weakref.proxy(self)) for _ in packer.layers]
        self._cache = Cache(layers=self._layers)
        self.numbers = packer.torch.arange(size, device=packer.device)
        self.lengths: Any = packer.torch.zeros(size, dtype=packer.torch.long, device=packer.device)
        self.width = 1
        self._places: tuple[int, Any] = (0, None)
        self.rows: list[Row] = []

    def enter(self, row: Row, states: States) -> None:
        """Give a row, whose first token is chosen, a slot."""
        slot = len(self.rows)
        with self._torch.inference_mode():
            for layer, pair in zip(self._layers, states, strict=True):
                if pair:
                    layer.place(slot, pair)
            self.lengths[slot] = len(row.prompt)
        self.rows.append(row)

    def places(self, length: int) -> Any:
        """Where the next token of each slot goes, in buffers of this length laid end to end."""
        if self._places[0] != length:
            count = len(self.rows)
            self._places = length, self.numbers[:count] * length + self.lengths[:count]
        return self._places[1]

    def step(self) -> Any:
        """Read every row's last token; return the logits after it, in float32."""
        torch, count, grain = self._torch, len(self.rows), _GRAIN if self._packer.cuda else 1
        longest = max(len(row.prompt) + len(row.told) for row in self.rows)
        self.width, self._places = -(-longest // grain) * grain, (0, None)
        ids = torch.tensor([[row.told[-1]] for row in self.rows], device=self._packer.device)
        with torch.inference_mode(), self._packer.kernels(odd=True):
            for layer in self._layers:
                layer.stretch(self.width)
            lengths = self.lengths[:count, None]
            mask = torch.arange(self.width, device=self._packer.device) <= lengths
            logits = self._packer.model(
                input_ids=ids,
                position_ids=lengths,
                attention_mask=self._packer.seen(mask)[:, None, None],
                past_key_values=self._cache,
                use_cache=True,
            ).logits[:, -1]
            self.lengths[:count] += 1
            return logits.float()

    def leave(self) -> Iterator[Row]:
        """Give back the rows that are done; the last ones move into their slots."""
        for slot in range(len(self.rows) - 1, -1, -1):
            if not self.rows[slot].finish:
                continue
            done, last = self.rows[slot], self.rows.pop()
            if slot < len(self.rows):
                self.rows[slot] = last
                with self._torch.inference_mode():
                    for layer in self._layers:
                        layer.move(len(self.rows), slot)
                    self.lengths[slot] = self.lengths[len(self.rows)]
            yield done


def chosen(logits: Any, rows: Sequence[Row], name: str, tokens: Tokens) -> None:
    """Choose each row's next token, greedily or as its request asks."""
    import torch

    with torch.inference_mode():
        for index, row in enumerate(rows):
            if row.shaped:
                seen = torch.tensor([*row.prompt, *row.told], device=logits.device)
                logits[index] = sampled(penalised(logits[index], seen, row.request), row.request, len(row.told))
        # The maximum is NaN where any score is, and never infinite in a healthy model. One transfer for both.
        best, place = logits.max(dim=-1)
        fine, tokens_ = torch.stack([best.isfinite().long(), place]).tolist()
    if not all(fine):
        raise broken(name)
    for row, token in zip(rows, tokens_, strict=True):
        advance(row, token, tokens)


def written(packer: Packer, trie: Trie, rows: Sequence[Row], size: int, tokens: Tokens) -> Iterator[Row]:
    """Write all rows to their ends; ``rows[i]`` continues item i of the trie, whose wanted place is its last."""
    ends: dict[int, list[Row]] = {}
    for nodes, row in zip(trie.nodes, rows, strict=True):
        ends.setdefault(int(nodes[-1]), []).append(row)
    wanted = np.array(sorted(ends), np.int64)
    walk = Walk(packer, trie, wanted)
    slots = Slots(packer, min(size, len(rows)))
    ready: deque[tuple[Row, States]] = deque()
    while True:
        free = slots.size - len(slots.rows)
        # A prompt alone makes a short row, so they are read a few at a time, and some wait.
        if not walk.done and len(ready) < free:
            nth = int(np.searchsorted(wanted, walk.place)) + max(free - len(ready), slots.size // 2)
            read = walk.step(int(wanted[nth]) if nth < len(wanted) else None)
            for place, logits in zip(read.wanted.tolist(), read.logits.float(), strict=True):
                begun = ends[place]
                chosen(logits.repeat(len(begun), 1), begun, packer.name, tokens)
                yield from (row for row in begun if row.finish)
                if going := [row for row in begun if not row.finish]:
                    states = walk.copy(place)
                    ready.extend((row, states) for row in going)
            continue
        while ready and len(slots.rows) < slots.size:
            slots.enter(*ready.popleft())
        if not slots.rows:
            return
        chosen(slots.step(), slots.rows, packer.name, tokens)
        yield from slots.leave()
