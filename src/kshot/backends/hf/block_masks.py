"""Masks of trees by blocks, for FlexAttention: blocks of tokens that nobody sees are never computed.

A key is seen by a run of queries: from itself on, up to the end of its tree. These spans say all that a mask says, and
whole blocks are told from them with NumPy, where torch would make the dense mask first.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kshot.backends.hf.trie import Ints

SmallInts: TypeAlias = npt.NDArray[np.int32]

BLOCK_TOKENS = 128
"""The block size that FlexAttention's kernels are made for."""


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
