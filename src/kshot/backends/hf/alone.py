"""A request computed by itself: its rows depend on this request alone, so that its numbers are always the same.

What all sequences of the request begin with goes through the model in blocks of one length, counted from the first
token. So the keys and values of a block follow from the tokens up to its end. Those that an earlier request with the
same beginning has left are the very same bits, and need not be computed again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kshot.backends.hf.trie import Trie, common_length


def cut_into_blocks(trie: Trie, size: int) -> Trie:
    """Return the trie of one request with its blocks, of which those at the beginning of a cached prefix are known."""
    first_wanted = min(int(nodes[0]) for nodes in trie.nodes)
    end = _whole_blocks(min(common_length(trie), first_wanted), size)
    known = [_whole_blocks(min(len(path), end), size) for path in trie.cached_nodes]
    longest = max(range(len(known)), key=known.__getitem__, default=0)
    return replace(
        trie,
        blocks_end=end,
        cached_nodes=[np.arange(count if at == longest else 0) for at, count in enumerate(known)],
        shared_prefixes=[(trie.tokens[:end].astype(np.int32), end - 1)] if end else [],
    )


def next_block_end(place: int, size: int) -> int:
    """Return where the block ends that a place is in."""
    return _whole_blocks(place, size) + size


def _whole_blocks(tokens: int, size: int) -> int:
    return tokens - tokens % size
