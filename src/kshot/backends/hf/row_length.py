"""How many tokens go through a model at a time: a fixed rule, so that equal runs make equal rows."""

from __future__ import annotations

_CPU_ROW_TOKENS, _GPU_ROW_TOKENS = 256, 2048
"""The mask and the attention grow with the row, the number of calls falls. Measured by `benchmarks/scoring.py`."""
_CPU_BATCH_TOKENS, _GPU_BATCH_TOKENS = 1024, 8192
"""The attention of a batch of small trees does not grow with the batch."""
_CPU_TREE_TOKENS, _GPU_TREE_TOKENS = 512, 1024
"""On a CPU, a larger tree is computed as fast in a row of its own."""


class RowLengths:
    """The most tokens of a row, of a batch of small trees, and of one tree of such a batch.

    They follow from the device alone, or are ``fixed``. The clock has no say: other rows give other last digits. Only
    memory that runs out makes them smaller.
    """

    def __init__(self, device: str, fixed: int | None = None) -> None:
        on_cpu = device == "cpu"
        self.row_tokens = fixed or (_CPU_ROW_TOKENS if on_cpu else _GPU_ROW_TOKENS)
        self.batch_tokens = fixed or (_CPU_BATCH_TOKENS if on_cpu else _GPU_BATCH_TOKENS)
        self.max_tree_tokens = min(self.batch_tokens, _CPU_TREE_TOKENS if on_cpu else _GPU_TREE_TOKENS)

    def limit_to(self, tokens: int) -> None:
        """Use no more than this many tokens from now on: the memory did not hold more."""
        tokens = max(tokens, 1)
        self.row_tokens, self.batch_tokens = min(self.row_tokens, tokens), min(self.batch_tokens, tokens)
