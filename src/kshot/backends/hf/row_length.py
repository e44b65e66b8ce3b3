"""How many tokens go through a model at a time: a fixed rule, so that equal runs make equal rows."""

from __future__ import annotations

_CPU_ROW_TOKENS, _GPU_ROW_TOKENS = 256, 2048
"""The mask and the attention grow with the row, the number of calls falls. Measured by `benchmarks/scoring.py`."""
_CPU_BATCH_TOKENS, _GPU_BATCH_TOKENS = 1024, 8192
"""The attention of a batch of small trees does not grow with the batch."""
_CPU_TREE_TOKENS, _GPU_TREE_TOKENS = 512, 1024
"""On a CPU, a larger tree is computed as fast in a row of its own."""
_CPU_LONE_ROW_TOKENS, _GPU_LONE_ROW_TOKENS = 512, 2048
"""Rows of a request by itself, which is seldom longer than one."""
_CPU_BLOCK_TOKENS, _GPU_BLOCK_TOKENS = 128, 512
"""Short blocks share more of a beginning, and long ones need fewer calls, each of which costs a GPU the same time."""


class RowLengths:
    """The most tokens of a row, of a batch of small trees, and of one tree of such a batch.

    They follow from the device alone, or are ``fixed``. The clock has no say: other rows give other last digits. Only
    memory that runs out makes them smaller. ``alone``: every request is computed by itself, in blocks and rows.
    """

    def __init__(self, device: str, fixed: int | None = None, *, alone: bool = False) -> None:
        on_cpu = device == "cpu"
        together = _CPU_ROW_TOKENS if on_cpu else _GPU_ROW_TOKENS
        by_itself = _CPU_LONE_ROW_TOKENS if on_cpu else _GPU_LONE_ROW_TOKENS
        self.row_tokens = fixed or (by_itself if alone else together)
        self.block_tokens = _CPU_BLOCK_TOKENS if on_cpu else _GPU_BLOCK_TOKENS
        self.batch_tokens = fixed or (_CPU_BATCH_TOKENS if on_cpu else _GPU_BATCH_TOKENS)
        self.max_tree_tokens = min(self.batch_tokens, _CPU_TREE_TOKENS if on_cpu else _GPU_TREE_TOKENS)

    def limit_to(self, tokens: int) -> None:
        """Use no more than this many tokens from now on: the memory did not hold more."""
        tokens = max(tokens, 1)
        self.row_tokens, self.batch_tokens = min(self.row_tokens, tokens), min(self.batch_tokens, tokens)
