"""``compile``: the parts of a model that are compiled for the rows of a trie, and what runs where the compiler fails.

Two things are compiled: what the layers do with one token at a time (MLPs and norms), and attention with block masks.
They are in place only while a row is computed. A part that the compiler cannot handle runs as before, at once.
"""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kshot.backends.hf.loading import is_split
from kshot.backends.hf.trie import Ints

# ---- masks of trees by blocks: blocks of tokens that nobody sees are never computed ----

SmallInts: TypeAlias = npt.NDArray[np.int32]

BLOCK_TOKENS = 128
"""The block size that FlexAttention's kernels are made for."""


# A key is seen by a run of queries: from itself on, up to the end of its tree. These spans say all that a mask says.
# Whole blocks are told from them with NumPy, where torch would make the dense mask first.


def row_spans(count: int, ends: Ints, first: int, unused: int) -> SmallInts:
    """Return the spans of a row of ``count`` tokens after the place ``first``: (1, begin and end, keys).

    ``ends`` are those of the cached tokens and of the row. ``unused`` keys come last, and nobody sees them.
    """
    keys = len(ends)
    spans = np.zeros((1, 2, keys + unused), np.int32)
    spans[0, 0, :keys] = np.arange(count - keys, count)
    spans[0, 1, :keys] = ends - first
    return spans


def batch_spans(ends: Ints) -> SmallInts:
    """Return the spans of a tree batch, of which ``ends`` has a row for each row: (rows, begin and end, keys)."""
    begins = np.broadcast_to(np.arange(ends.shape[1]), ends.shape)
    return np.stack([begins, ends], axis=1).astype(np.int32)


def block_tables(spans: SmallInts, queries: int) -> list[SmallInts]:
    """Return which blocks of keys each block of queries sees in part, then which it sees as a whole.

    Each of the two is a count and a list of blocks, of which the first ``count`` are meant: (rows, 1, query blocks),
    and (rows, 1, query blocks, key blocks). Blocks at an edge, with places that do not exist, are never whole.
    """
    rows, _, keys = spans.shape
    key_blocks = -(-keys // BLOCK_TOKENS)
    padded = np.zeros((rows, 2, key_blocks * BLOCK_TOKENS), np.int32)
    padded[..., :keys] = spans
    begins, ends = padded.reshape(rows, 2, 1, key_blocks, BLOCK_TOKENS).swapaxes(0, 1)
    first = np.arange(0, queries, BLOCK_TOKENS)[:, None]
    last = first + BLOCK_TOKENS
    seen = ((begins < np.minimum(last, queries)[..., None]) & (ends > first[..., None])).any(-1)
    whole = (begins.max(-1) <= first) & (ends.min(-1) >= last)
    return [table[:, None] for chosen in (seen & ~whole, whole) for table in _ordered(chosen)]


def _ordered(chosen: Any) -> tuple[SmallInts, SmallInts]:
    return chosen.sum(-1, dtype=np.int32), np.argsort(~chosen, axis=-1, kind="stable").astype(np.int32)


# ---- compiled parts ----

ATTENTION = "kshot_trees"
"""The name under which transformers finds the attention with block masks."""
_UNSUPPORTED_OPTIONS = ("softcap", "s_aux", "position_bias")
"""What some models ask of their attention, and FlexAttention does not do by itself."""
_MAX_REASON = 120


def compiling_obstacle(model: Any, *, alone: bool) -> str:
    """Say why nothing of a model is compiled; empty if nothing forbids it."""
    if alone:
        return "each request is computed by itself"
    return "it is split over devices" if is_split(model) else ""


class CompiledPart:
    """Something that is compiled when it first runs, and is given up when the compiler fails."""

    def __init__(self, name: str, torch: Any, function: Callable[..., Any]) -> None:
        self.name, self._torch = name, torch
        # Lengths vary from row to row: they are symbols, so that one kernel serves all of them.
        self.run = torch.compile(function, dynamic=True, fullgraph=True)
        self.failure = ""

    def attempt(self, compiled: Callable[[], Any], plain: Callable[[], Any]) -> Any:
        """Compute one way, or the other if that fails now or has failed before; neither changes its inputs."""
        if not self.failure:
            try:
                return compiled()
            except self._torch.OutOfMemoryError:
                raise
            except Exception as error:  # noqa: BLE001 - compilers fail in many ways, and the plain way is at hand
                self.failure = f"{type(error).__name__}: {error}".strip().splitlines()[0][:_MAX_REASON]
        return plain()


class CompiledModel:
    """A loaded model, and its compiled parts."""

    def __init__(self, model: Any, torch: Any) -> None:
        self._model, self._torch = model, torch
        self._config = model.config.get_text_config()
        if "TORCH_LOGS" not in os.environ:  # what fails becomes a note
            for name in ("torch._dynamo", "torch._inductor"):
                logging.getLogger(name).setLevel(logging.CRITICAL)
        self._parts: dict[type, CompiledPart] = {}
        self._forwards = [(module, self._compiled_forward(module)) for module in token_modules(model, torch)]
        self._attention: CompiledPart | None = None
        self._no_attention = ""
        kernel = self._config._attn_implementation  # noqa: SLF001 - transformers has no public name for it
        if kernel == "sdpa":
            self._compile_attention()
        else:
            self._no_attention = f"its attention is {kernel}"

    def _compile_attention(self) -> None:
        try:
            from torch.nn.attention.flex_attention import flex_attention
        except ImportError as error:  # before torch 2.5
            self._no_attention = str(error)
            return
        from transformers import AttentionInterface

        AttentionInterface.register(ATTENTION, attend_with_block_mask)
        self._attention = CompiledPart("attention", self._torch, flex_attention)

    def drop_attention(self, reason: str) -> bool:
        """Leave the attention as it is, for a reason; whether it was compiled."""
        dropped, self._attention, self._no_attention = self._attention, None, reason
        return dropped is not None

    @property
    def notes(self) -> list[str]:
        """What is not compiled, and why."""
        notes = [f"runs {part.name} uncompiled: {part.failure}" for part in self._parts.values() if part.failure]
        if not self._parts:
            notes.append("runs MLPs and norms uncompiled: it has none that take one tensor")
        reason = self._attention.failure if self._attention else self._no_attention
        return [*notes, f"runs its attention with dense masks: {reason}"] if reason else notes

    def takes(self, queries: int) -> bool:
        """Whether rows of this length are computed by compiled parts. Short ones would need kernels of their own."""
        return queries > BLOCK_TOKENS

    def block_mask(self, spans: SmallInts, queries: int, to_device: Callable[[SmallInts], Any]) -> Any:
        """Return the mask of rows of ``queries`` tokens as FlexAttention takes it; None if dense masks are needed."""
        if self._attention is None or self._attention.failure:
            return None
        with self._torch.inference_mode():  # tensors of the model's own kind, or they would need kernels of their own
            tables = [to_device(table) for table in block_tables(spans, queries)]
            return tree_mask_class()(self._attention, to_device(spans), queries, tables)

    @contextmanager
    def in_place(self, mask: Any) -> Iterator[None]:
        """Put the compiled parts into the model; the attention too if the mask is a block mask."""
        from torch.fx.experimental import _config as torch_config

        config, kernel = self._config, self._config._attn_implementation  # noqa: SLF001 - see above
        for module, forward in self._forwards:
            vars(module)["forward"] = forward
        if mask is not None:
            config._attn_implementation = ATTENTION  # noqa: SLF001
        try:
            with torch_config.patch(use_duck_shape=False):  # lengths that happen to be equal are still two lengths
                yield
        finally:
            config._attn_implementation = kernel  # noqa: SLF001
            for module, _ in self._forwards:
                del vars(module)["forward"]

    def _compiled_forward(self, module: Any) -> Callable[[Any], Any]:
        kind, plain = type(module), module.forward
        if kind not in self._parts:  # modules of one class share their kernels
            self._parts[kind] = CompiledPart(kind.__name__, self._torch, kind.forward)
        part = self._parts[kind]

        def compiled(states: Any) -> Any:
            # A row and the rows of a batch are the same to these parts: one kernel for both.
            return part.run(module, states.flatten(0, -2)).view(*states.shape[:-1], -1)

        return lambda states: part.attempt(lambda: compiled(states), lambda: plain(states))


def token_modules(model: Any, torch: Any) -> list[Any]:
    """Return the parts of the layers that take one tensor and are not torch's own: MLPs and norms, by their shape."""
    layers = model.config.get_text_config().num_hidden_layers
    lists = [part for part in model.modules() if isinstance(part, torch.nn.ModuleList) and len(part) == layers]
    found: list[Any] = []
    open_parts = [layer for some in lists for layer in some]
    while open_parts:
        for part in open_parts.pop().children():
            own = not type(part).__module__.startswith("torch.nn.") and "forward" not in vars(part)
            takes = list(inspect.signature(type(part).forward).parameters.values())
            if own and len(takes) == 2 and all(each.kind is each.POSITIONAL_OR_KEYWORD for each in takes):  # noqa: PLR2004 - self and a tensor
                found.append(part)
            else:
                open_parts.append(part)
    return found


@cache
def tree_mask_class() -> Any:
    """Return the class of the block mask of trees, always the same; its base class needs torch."""
    import torch
    from torch.nn.attention.flex_attention import BlockMask

    class TreeMask(BlockMask):  # type: ignore[misc]  # torch has no types here
        """A block mask that knows its spans, from which a dense mask can be made, and what computes with it."""

        ndim = 4
        """Some models look at it, and take masks of four dimensions as they are."""

        def __init__(self, attention: CompiledPart, spans: Any, queries: int, tables: list[Any]) -> None:
            def sees(batch: Any, _head: Any, query: Any, key: Any) -> Any:
                return (spans[batch, 0, key] <= query) & (query < spans[batch, 1, key])

            self.attention, self.spans = attention, spans
            lengths, blocks = (queries, spans.shape[-1]), (BLOCK_TOKENS, BLOCK_TOKENS)
            super().__init__(lengths, *tables, None, None, None, None, blocks, sees)

        def dense(self, dtype: Any) -> Any:
            """Return the same mask as numbers to add to the scores."""
            query = torch.arange(self.seq_lengths[0], device=self.spans.device)[:, None]
            begins, ends = self.spans[:, None, None, 0], self.spans[:, None, None, 1]
            seen = (begins <= query) & (query < ends)
            return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill(~seen, torch.finfo(dtype).min)

    return TreeMask


def attend_with_block_mask(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, *, scaling: float | None = None, **options: Any
) -> tuple[Any, None]:
    """Compute the attention of a row as transformers' layers ask for it, with the mask that came through the model."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    if not isinstance(attention_mask, tree_mask_class()):
        raise TypeError("the model does not hand its mask to the attention")
    attention = attention_mask.attention

    def compiled() -> tuple[Any, None]:
        if asked := [name for name in _UNSUPPORTED_OPTIONS if options.get(name) is not None]:
            raise NotImplementedError(f"its attention has {asked[0]}")
        grouped = query.shape[1] != key.shape[1]
        found = attention.run(query, key, value, block_mask=attention_mask, scale=scaling, enable_gqa=grouped)
        return found.transpose(1, 2).contiguous(), None

    def plain() -> tuple[Any, None]:
        dense = attention_mask.dense(query.dtype)
        found: tuple[Any, None] = ALL_ATTENTION_FUNCTIONS["sdpa"](
            module, query, key, value, dense, scaling=scaling, **options
        )
        return found

    result: tuple[Any, None] = attention.attempt(compiled, plain)
    return result
