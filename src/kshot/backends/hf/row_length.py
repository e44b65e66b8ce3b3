"""How many tokens go through a model at a time: tried out on the first full rows of the real work."""

from __future__ import annotations

_CLEARLY_BETTER = 0.97
"""Another length must cost less than this share of the default length's cost to be chosen."""
_TRIALS_PER_LENGTH = 3
"""The first rows of a length may still load or build kernels."""
_MIN_REMAINING_TRIALS = 4
"""Trials are worth their cost only while this many times the tokens of one round of trials remain."""
_SOME_CACHED_TOKENS, _MANY_CACHED_TOKENS = 512, 2048


class RowLengthTuner:
    """Chooses how many tokens a row should have.

    The mask and the attention grow with the row, while the number of calls falls. The best length depends on the device
    and on how many tokens are cached. ``fixed`` leaves no choice, so that equal runs give equal bits.

    ``max_tokens`` is the longest row. ``batch_tokens`` is the size of a batch of small trees, whose attention does not
    grow with the batch. ``max_tree_tokens`` is the largest tree of such a batch.
    """

    def __init__(self, device: str, fixed: int | None = None) -> None:
        lengths = (128, 256, 512) if device == "cpu" else (1536, 2048, 3072)
        self._lengths = (fixed,) if fixed else lengths
        self._default = fixed or (256 if device == "cpu" else 2048)
        self._started: dict[tuple[int, int], int] = {}
        self._seconds_per_token: dict[tuple[int, int], list[float]] = {}
        self.max_tokens = max(self._lengths)
        self.batch_tokens = fixed or (1024 if device == "cpu" else 8192)
        # On a CPU, a larger tree is computed as fast in a row of its own.
        self.max_tree_tokens = min(self.batch_tokens, 512 if device == "cpu" else 1024)

    @staticmethod
    def _class_of(cached: int) -> int:
        return 0 if cached < _SOME_CACHED_TOKENS else 1 if cached < _MANY_CACHED_TOKENS else 2

    def choose(self, cached: int, remaining: int) -> tuple[int, bool]:
        """Return the length of the next row, and whether the row is a trial to be timed."""
        kind = self._class_of(cached)
        if len(self._lengths) > 1 and remaining > _MIN_REMAINING_TRIALS * sum(self._lengths):
            for length in self._lengths:
                if length <= self.max_tokens and self._started.get((kind, length), 0) < _TRIALS_PER_LENGTH:
                    return length, True
        costs = {
            length: min(self._seconds_per_token[kind, length])
            for length in self._lengths
            if (kind, length) in self._seconds_per_token
        }
        # The default stays unless another length is clearly better: noise should not make two runs differ.
        if self._default in costs:
            costs[self._default] *= _CLEARLY_BETTER
        best = min(costs, key=lambda length: costs[length]) if costs else self._default
        return min(best, self.max_tokens), False

    def start_trial(self, cached: int, length: int) -> None:
        """Record that a full row of this length is being timed."""
        key = self._class_of(cached), length
        self._started[key] = self._started.get(key, 0) + 1

    def end_trial(self, cached: int, length: int, seconds: float) -> None:
        """Record what the row cost."""
        self._seconds_per_token.setdefault((self._class_of(cached), length), []).append(seconds / length)

    def limit_to(self, tokens: int) -> None:
        """Choose no more than this many tokens from now on: the memory did not hold more."""
        self.max_tokens = max(tokens, 1)
        self.batch_tokens = min(self.batch_tokens, self.max_tokens)
