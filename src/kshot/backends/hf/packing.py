"""Tree-packed computing: a trie of tokens goes through the model in rows of one batch, every token once.

A row is a run of the trie in its depth-first layout, without padding. The keys and values of the row's ancestors lie in
a cache of batch 1; each token has its own position, and a mask through which it sees its ancestors only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kshot.backends.hf.row_length import Pace
from kshot.backends.hf.tree_batches import Batch
from kshot.backends.hf.trie import Ints, common

States: TypeAlias = list[tuple[Any, ...]]
"""Keys and values by layer; nothing for a layer that borrows another's."""

_TRUNKS = 4
_GRAIN = 256
"""On a GPU the length of the keys is rounded up to this: cuDNN builds a kernel for each new pair of lengths, 50 ms."""


def layer_type() -> Any:
    """The class of a cache layer that is written in place; made when transformers is there to inherit from."""
    from transformers.cache_utils import DynamicLayer

    class PackedLayer(DynamicLayer):  # type: ignore[misc]
        """Keys and values in buffers with room to spare: nothing is copied when a row is added or taken away."""

        used = 0
        grain = 1

        def update(self, key_states: Any, value_states: Any, *_args: Any, **_options: Any) -> tuple[Any, Any]:
            """Write behind what is there, and return all of it."""
            first, self.used = self.used, self.used + key_states.shape[-2]
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
                self.keys, self.values = (_room(states, states, 0, self.used) for states in (key_states, value_states))
            elif self.keys.shape[-2] < self.used:
                self.keys, self.values = (_room(held, held, first, self.used) for held in (self.keys, self.values))
            self.keys[..., first : self.used, :] = key_states
            self.values[..., first : self.used, :] = value_states
            stop = -(-self.used // self.grain) * self.grain
            return self.keys[..., :stop, :], self.values[..., :stop, :]

        def get_seq_length(self, *_args: Any) -> int:
            """Tokens in it."""
            return self.used

        def keep(self, start: int, moved: Any) -> None:
            """Keep the first ``start`` tokens, and behind them those at the places ``moved`` (a slice or a tensor)."""
            if moved is not None:
                for held in (self.keys, self.values):
                    tail = held[..., moved, :].clone()
                    held[..., start : start + tail.shape[-2], :] = tail
                start += tail.shape[-2]
            self.used = start

    return PackedLayer


def _room(like: Any, held: Any, used: int, needed: int) -> Any:
    """A buffer for ``needed`` tokens and a quarter more, the first ``used`` of them copied; no NaN in the rest."""
    wider = like.new_zeros((*like.shape[:-2], -(-(needed + needed // 4) // _GRAIN) * _GRAIN, like.shape[-1]))
    wider[..., :used, :] = held[..., :used, :]
    return wider


@dataclass(slots=True)
class Trunk:
    """A prefix that came up often, and its keys and values by layer."""

    tokens: NDArray[np.int32]
    states: States


class Packer:
    """A model that computes tries: its cache, the prefixes it holds on to, and the pace it has found."""

    def __init__(self, model: Any, torch: Any, name: str, *, pace: Pace, takes: frozenset[str]) -> None:
        from transformers.cache_utils import Cache

        self.model, self.torch, self.name, self.pace = model, torch, name, pace
        self.device = model.device
        self.cuda = self.device.type == "cuda"
        config = model.config.get_text_config()
        make = layer_type()
        self.layers = [make() for _ in range(config.num_hidden_layers)]
        self.grain = _GRAIN if self.cuda else 1
        for layer in self.layers:
            layer.grain = self.grain
        self.cache = Cache(layers=self.layers)
        self.keeps = "logits_to_keep" in takes
        # Logits are wide: at most this many rows of them at a time.
        self.most_wanted = max((1 << (29 if self.cuda else 25)) // config.vocab_size, 16)
        # Batches of trees need the layer that makes the logits; and a trial of them.
        self.head = model.get_output_embeddings()
        self.wide = self.head is not None
        # Rows that may be under way while earlier ones are read.
        self.ahead = 2 if self.cuda else 0
        self.trunks: list[Trunk] = []
        self._clocks: list[tuple[int, int, Any, Any]] = []
        self.computed = 0

    def held(self) -> list[NDArray[np.int32]]:
        """The prefixes whose keys and values are at hand."""
        return [trunk.tokens for trunk in self.trunks]

    def sent(self, numbers: Ints) -> Any:
        """Numbers on their way to the device; nobody waits for them."""
        tensor = self.torch.from_numpy(numbers)
        return tensor.pin_memory().to(self.device, non_blocking=True) if self.cuda else tensor.to(self.device)

    def forward(self, tokens: Ints, depths: Ints, first: int, ends: Ints, wanted: Ints, *, odd: bool = False) -> Any:
        """Logits at the ``wanted`` places of a row that begins at ``first``; ``ends`` cover the cache and the row.

        ``odd``: no second row of this length is expected.
        """
        torch, count, keys = self.torch, len(tokens), len(ends)
        # Keys beyond the last are seen by none. One transfer for all of it.
        unused = np.zeros(-keys % self.grain, np.int64)
        packed = self.sent(np.concatenate([tokens, depths, ends - first, unused, wanted - first]))
        ids, positions, until, places = packed.split([count, count, keys + len(unused), len(wanted)])
        own = torch.arange(count, device=self.device)[:, None]
        mask = (own < until) & (torch.arange(count - keys, count + len(unused), device=self.device) <= own)
        options = {"logits_to_keep": places if len(wanted) else places.new_zeros(1)} if self.keeps else {}
        with torch.inference_mode(), self.kernels(odd=odd):
            logits = self.model(
                input_ids=ids[None],
                position_ids=positions[None],
                attention_mask=self.seen(mask)[None, None],
                past_key_values=self.cache,
                use_cache=True,
                **options,
            ).logits[0]
        self.computed += count
        return logits[: len(wanted)] if self.keeps else logits[places]

    def batch(self, batch: Batch, wanted: Ints, *, odd: bool = False) -> Any:
        """Logits at the ``wanted`` places of a batch of trees, counted row by row."""
        torch, shape = self.torch, batch.tokens.shape
        count = batch.tokens.size
        packed = self.sent(np.concatenate([batch.tokens, batch.depths, batch.ends, wanted], axis=None))
        ids, positions, until, places = packed.split([count, count, count, len(wanted)])
        inputs = {"input_ids": ids.view(shape)}
        if not batch.straight:  # else what comes last, the padding, changes nothing before it
            own = torch.arange(shape[1], device=self.device)
            mask = (own[:, None] < until.view(shape)[:, None]) & (own <= own[:, None])
            inputs |= {"position_ids": positions.view(shape), "attention_mask": self.seen(mask)[:, None]}

        def narrowed(_module: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
            # Models can keep the same columns of all rows only, and logits are wide.
            return given[0].flatten(0, 1)[places][None], *given[1:]

        hook = self.head.register_forward_pre_hook(narrowed)
        try:
            with torch.inference_mode(), self.kernels(odd=odd):
                logits = self.model(**inputs, use_cache=False).logits[0]
        finally:
            hook.remove()
        self.computed += count
        return logits

    def kernels(self, *, odd: bool) -> Any:
        """For a row whose lengths will not come again: attention kernels that need no building."""
        if not (odd and self.cuda):
            return nullcontext()
        from torch.nn.attention import SDPBackend, sdpa_kernel

        return sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])

    def seen(self, mask: Any) -> Any:
        """The mask as numbers to add: every attention takes those, and a boolean one is turned into them per layer."""
        zeros = self.torch.zeros(mask.shape, dtype=self.model.dtype, device=self.device)
        return zeros.masked_fill(~mask, self.torch.finfo(self.model.dtype).min)

    def most_texts(self, size: int, longest: int) -> int:
        """How many texts of this length can be written together: half of a GPU's free memory may hold their states."""
        if not self.cuda:
            return size
        held = [layer.keys[..., :1, :] for layer in self.layers if layer.is_initialized]
        token = 2 * sum(each.numel() * each.element_size() for each in held) or 1
        cuda = self.torch.cuda
        unused = cuda.memory_reserved(self.device) - cuda.memory_allocated(self.device)
        free: int = cuda.mem_get_info(self.device)[0] + unused
        return max(min(size, free // (2 * token * longest)), 1)

    @contextmanager
    def clock(self, held: int, size: int) -> Iterator[None]:
        """Time a row for the pace; on a GPU what it took is known later, and nobody waits for it."""
        self.pace.begin(held, size)
        if not self.cuda:
            # The CPU may be shared with others, whose share must not count.
            began = time.process_time()
            yield
            self.pace.timed(held, size, time.process_time() - began)
            return
        began, ended = (self.torch.cuda.Event(enable_timing=True) for _ in "ab")
        began.record()
        yield
        ended.record()
        self._clocks.append((held, size, began, ended))

    def read_clocks(self) -> None:
        """Tell the pace what has become known."""
        for clock in [clock for clock in self._clocks if clock[3].query()]:
            held, size, began, ended = clock
            self.pace.timed(held, size, began.elapsed_time(ended) / 1000)
            self._clocks.remove(clock)

    def keep(self, kept: Ints) -> None:
        """Drop from the cache all but these places, in this order."""
        straight = int((kept == np.arange(len(kept))).sum())
        moved: Any = None
        if straight < len(kept):
            tail = kept[straight:]
            run = tail[-1] - tail[0] + 1 == len(tail)
            moved = slice(int(tail[0]), int(tail[-1]) + 1) if run else self.sent(tail)
        with self.torch.inference_mode():
            for layer in self.layers:
                if layer.is_initialized:
                    layer.keep(straight, moved)

    def copy(self, places: Ints) -> States:
        """Keys and values of some places of the cache, by layer."""
        index = self.sent(places)
        with self.torch.inference_mode():
            return [
                tuple(held.index_select(-2, index) for held in (layer.keys, layer.values)) if layer.used else ()
                for layer in self.layers
            ]

    def load(self, states: States, start: int, stop: int) -> None:
        """Append a stretch of a trunk to the cache."""
        with self.torch.inference_mode():
            for layer, pair in zip(self.layers, states, strict=True):
                if pair:
                    layer.update(*(held[..., start:stop, :] for held in pair))

    def save(self, tokens: NDArray[np.int32], places: Ints) -> None:
        """Hold on to a prefix, in place of the one unused for longest, and of those it contains."""
        self.trunks = [trunk for trunk in self.trunks if common(trunk.tokens, tokens) < len(trunk.tokens)]
        self.trunks = [*self.trunks[1 - _TRUNKS :], Trunk(tokens.copy(), self.copy(places))]

    def clear(self) -> None:
        """Empty the cache; the buffers stay."""
        self.keep(np.zeros(0, np.int64))
