"""Tree-packed computing: a trie of tokens goes through the model in rows, every token once.

A row is a run of the trie in its depth-first layout, without padding. The keys and values of the row's ancestors are in
a cache of batch size 1. Each token has its own position, and a mask through which it sees its ancestors only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from kshot.backends.hf.compiling import CompiledModel, SmallInts, batch_spans, row_spans
from kshot.backends.hf.loading import input_device, is_split
from kshot.backends.hf.trie import IdArray, Ints, RowLengths, TreeBatch, common_prefix_length

KeyValues: TypeAlias = list[tuple[Any, ...]]
"""Keys and values by layer; an empty tuple for a layer that uses those of another."""

_MAX_CACHED_PREFIXES = 4
_KEY_MULTIPLE = 256
"""On a GPU the number of keys is rounded up to this: cuDNN builds a kernel for each new pair of lengths, in 50 ms."""


def packed_layer_class() -> Any:
    """Return the class of a cache layer that is written in place; its base class needs transformers."""
    from transformers.cache_utils import DynamicLayer

    class PackedLayer(DynamicLayer):  # type: ignore[misc]  # transformers has no types
        """Keys and values in buffers with room to spare: adding or removing a row copies nothing else."""

        used = 0
        key_multiple = 1
        gives_copies = False

        def update(self, key_states: Any, value_states: Any, *_args: Any, **_options: Any) -> tuple[Any, Any]:
            """Append keys and values, and return all of them."""
            first, self.used = self.used, self.used + key_states.shape[-2]
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
                self.keys, self.values = (_buffer(states, 0, self.used) for states in (key_states, value_states))
            elif self.keys.shape[-2] < self.used:
                self.keys, self.values = (_buffer(states, first, self.used) for states in (self.keys, self.values))
            self.keys[..., first : self.used, :] = key_states
            self.values[..., first : self.used, :] = value_states
            stop = -(-self.used // self.key_multiple) * self.key_multiple
            keys, values = self.keys[..., :stop, :], self.values[..., :stop, :]
            # The strides of a copy follow from its size; those of a view depend on how far the buffers have grown.
            return (keys.contiguous(), values.contiguous()) if self.gives_copies else (keys, values)

        def get_seq_length(self, *_args: Any) -> int:
            """Return the number of tokens in it."""
            return self.used

        def keep(self, start: int, moved: Any) -> None:
            """Keep the first ``start`` tokens, and behind them those at the places ``moved`` (a slice or a tensor)."""
            if moved is not None:
                at = moved if isinstance(moved, slice) else moved.to(self.keys.device)
                for states in (self.keys, self.values):
                    tail = states[..., at, :].clone()
                    states[..., start : start + tail.shape[-2], :] = tail
                start += tail.shape[-2]
            self.used = start

    return PackedLayer


def _buffer(states: Any, used: int, needed: int) -> Any:
    """Return a buffer for ``needed`` tokens and a quarter more: the first ``used`` are copied, the others are zero."""
    length = -(-(needed + needed // 4) // _KEY_MULTIPLE) * _KEY_MULTIPLE
    buffer = states.new_zeros((*states.shape[:-2], length, states.shape[-1]))
    buffer[..., :used, :] = states[..., :used, :]
    return buffer


@dataclass(slots=True)
class CachedPrefix:
    """A prefix that came up often, and its keys and values by layer."""

    tokens: IdArray
    states: KeyValues


class PackedModel:
    """A model that computes tries: its cache, the prefixes that it keeps, and its row lengths."""

    def __init__(
        self, model: Any, torch: Any, name: str, *, arguments: frozenset[str], row_tokens: int | None, alone: bool
    ) -> None:
        """Take a loaded model; ``arguments`` are those that its ``forward`` accepts.

        ``alone``: every request is computed by itself, and nothing but the request decides how.
        """
        from transformers.cache_utils import Cache

        self.model, self.torch, self.name, self.alone = model, torch, name, alone
        self.device = input_device(model, torch)
        self.is_cuda = self.device.type == "cuda"
        config = model.config.get_text_config()
        layer_class = packed_layer_class()
        self.layers = [layer_class() for _ in range(config.num_hidden_layers)]
        self.row_lengths = RowLengths(self.device.type, row_tokens, alone=alone)
        self._key_multiple = _KEY_MULTIPLE if self.is_cuda and not alone else 1
        for layer in self.layers:
            layer.key_multiple, layer.gives_copies = self._key_multiple, alone
        self._cache = Cache(layers=self.layers)
        # Logits are wide: at most this many rows of them at a time.
        self.max_wanted = max((1 << (29 if self.is_cuda else 25)) // config.vocab_size, 16)
        # Tree batches need a hook on the layer that makes the logits. The trial may still turn them off.
        self._output_layer = model.get_output_embeddings()
        self.batches_trees = self._output_layer is not None
        # The last layer of a split model may be on another device than the places, which only the hook can move.
        self._selects_logits = "logits_to_keep" in arguments and not is_split(model)
        self._hooks_rows = is_split(model) and self._output_layer is not None
        # Rows that may be computed while the results of earlier ones are read.
        self.rows_ahead = 2 if self.is_cuda else 0
        self.prefixes: list[CachedPrefix] = []
        self.computed = 0
        # What is compiled of it, once a trial has shown that it may be.
        self.compiled: CompiledModel | None = None

    def cached_tokens(self) -> list[IdArray]:
        """Return the tokens of the cached prefixes."""
        return [prefix.tokens for prefix in self.prefixes]

    def to_device(self, numbers: Ints | SmallInts) -> Any:
        """Send numbers to the device, without waiting for the transfer."""
        tensor = self.torch.from_numpy(numbers)
        return tensor.pin_memory().to(self.device, non_blocking=True) if self.is_cuda else tensor.to(self.device)

    def compute_row(
        self, tokens: Ints, depths: Ints, first: int, ends: Ints, wanted: Ints, *, one_off: bool = False
    ) -> Any:
        """Return the logits at the ``wanted`` places of a row that begins at the place ``first``.

        ``ends`` are those of the cached tokens and of the row. ``one_off``: no other row of this length is expected.
        """
        torch, count, keys = self.torch, len(tokens), len(ends)
        # No token attends to the keys beyond the last. One transfer for everything.
        unused = np.zeros(-keys % self._key_multiple, np.int64)
        packed = self.to_device(np.concatenate([tokens, depths, ends - first, unused, wanted - first]))
        ids, positions, until, places = packed.split([count, count, keys + len(unused), len(wanted)])
        compiled = self._compiled_for(count)
        blocks = compiled and compiled.block_mask(row_spans(count, ends, first, len(unused)), count, self.to_device)
        mask = blocks
        if mask is None:
            own = torch.arange(count, device=self.device)[:, None]
            seen = (own < until) & (torch.arange(count - keys, count + len(unused), device=self.device) <= own)
            mask = self.additive_mask(seen)[None, None]
        kept = places if len(wanted) else places.new_zeros(1)
        options = {"logits_to_keep": kept} if self._selects_logits else {}
        selecting = self._selecting(kept) if self._hooks_rows else nullcontext()
        in_place = compiled.in_place(blocks) if compiled else nullcontext()
        with torch.inference_mode(), self.attention_kernels(one_off=one_off), selecting, in_place:
            logits = self.model(
                input_ids=ids[None],
                position_ids=positions[None],
                attention_mask=mask,
                past_key_values=self._cache,
                use_cache=True,
                **options,
            ).logits[0]
        self.computed += count
        return logits[: len(wanted)] if self._selects_logits or self._hooks_rows else logits[places]

    def compute_batch(self, batch: TreeBatch, wanted: Ints, *, one_off: bool = False) -> Any:
        """Return the logits at the ``wanted`` places of a tree batch, which are indices into the flattened batch."""
        torch, shape = self.torch, batch.tokens.shape
        count = batch.tokens.size
        packed = self.to_device(np.concatenate([batch.tokens, batch.depths, batch.ends, wanted], axis=None))
        ids, positions, until, places = packed.split([count, count, count, len(wanted)])
        inputs = {"input_ids": ids.view(shape)}
        compiled, blocks = self._compiled_for(shape[1]), None
        if not batch.single_sequences:  # otherwise the padding comes last, and changes nothing before it
            blocks = compiled and compiled.block_mask(batch_spans(batch.ends), shape[1], self.to_device)
            mask = blocks
            if mask is None:
                own = torch.arange(shape[1], device=self.device)
                seen = (own[:, None] < until.view(shape)[:, None]) & (own <= own[:, None])
                mask = self.additive_mask(seen)[:, None]
            inputs |= {"position_ids": positions.view(shape), "attention_mask": mask}

        # A model can only keep the same columns of all rows, and logits are wide.
        in_place = compiled.in_place(blocks) if compiled else nullcontext()
        with torch.inference_mode(), self.attention_kernels(one_off=one_off), self._selecting(places), in_place:
            logits = self.model(**inputs, use_cache=False).logits[0]
        self.computed += count
        return logits

    def _compiled_for(self, length: int) -> CompiledModel | None:
        """Return the compiled parts, if there are any and rows of this length go through them."""
        return self.compiled if self.compiled is not None and self.compiled.takes(length) else None

    @contextmanager
    def _selecting(self, places: Any) -> Iterator[None]:
        """Let the model make logits at these places of the flattened batch alone."""

        def select(_module: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
            return given[0].flatten(0, 1)[places.to(given[0].device)][None], *given[1:]

        hook = self._output_layer.register_forward_pre_hook(select)
        try:
            yield
        finally:
            hook.remove()

    def attention_kernels(self, *, one_off: bool) -> AbstractContextManager[Any]:
        """For a row whose lengths will not come again, choose attention kernels that need not be built."""
        if not (one_off and self.is_cuda):
            return nullcontext()
        from torch.nn.attention import SDPBackend, sdpa_kernel

        ready = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
        chosen: AbstractContextManager[Any] = sdpa_kernel(ready)
        return chosen

    def additive_mask(self, mask: Any) -> Any:
        """Return a mask as numbers to add: every attention takes these, and each layer would convert a boolean one."""
        zeros = self.torch.zeros(mask.shape, dtype=self.model.dtype, device=self.device)
        return zeros.masked_fill(~mask, self.torch.finfo(self.model.dtype).min)

    def max_texts(self, size: int, longest: int) -> int:
        """Return how many texts of this length can be written together: they may use half of a GPU's free memory."""
        if not self.is_cuda:
            return size
        keys = [layer.keys[..., :1, :] for layer in self.layers if layer.is_initialized]
        token_bytes = 2 * sum(each.numel() * each.element_size() for each in keys) or 1
        cuda = self.torch.cuda
        unused = cuda.memory_reserved(self.device) - cuda.memory_allocated(self.device)
        free: int = cuda.mem_get_info(self.device)[0] + unused
        return max(min(size, free // (2 * token_bytes * longest)), 1)

    # ---- the cache ----

    def keep_places(self, kept: Ints) -> None:
        """Drop everything from the cache but these places, in this order."""
        unmoved = int((kept == np.arange(len(kept))).sum())
        moved: Any = None
        if unmoved < len(kept):
            tail = kept[unmoved:]
            is_run = tail[-1] - tail[0] + 1 == len(tail)
            moved = slice(int(tail[0]), int(tail[-1]) + 1) if is_run else self.to_device(tail)
        with self.torch.inference_mode():
            for layer in self.layers:
                if layer.is_initialized:
                    layer.keep(unmoved, moved)

    def copy_states(self, places: Ints) -> KeyValues:
        """Copy the keys and values of some places of the cache."""
        index = self.to_device(places)
        with self.torch.inference_mode():
            return [
                tuple(states.index_select(-2, index.to(states.device)) for states in (layer.keys, layer.values))
                if layer.used
                else ()
                for layer in self.layers
            ]

    def append_states(self, states: KeyValues, start: int, stop: int) -> None:
        """Append tokens ``start`` to ``stop`` of a cached prefix to the cache."""
        with self.torch.inference_mode():
            for layer, pair in zip(self.layers, states, strict=True):
                if pair:
                    layer.update(*(each[..., start:stop, :] for each in pair))

    def cache_prefix(self, tokens: IdArray, places: Ints) -> None:
        """Keep a prefix for later, in place of the oldest one and of those that it contains."""
        others = [old for old in self.prefixes if common_prefix_length(old.tokens, tokens) < len(old.tokens)]
        self.prefixes = [*others[1 - _MAX_CACHED_PREFIXES :], CachedPrefix(tokens.copy(), self.copy_states(places))]
