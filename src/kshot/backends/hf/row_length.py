"""How many tokens go through a model at a time: tried out on the first full rows of the real work."""

from __future__ import annotations

_CLEARLY = 0.97
_TRIALS = 3
"""Rows tried of each length: the first may still load or build kernels."""
_ENOUGH = 4
"""A trial is paid with real work, so there is little to lose by it: but little to gain either, near the end."""


class Pace:
    """How many tokens a row should have.

    The mask and the attention grow with the row, the calls become fewer; where the balance lies depends on the device
    and on how much is cached. ``fixed`` leaves no choice, so that the same run gives the same bits. ``wide`` is for
    batches of small trees, whose attention does not grow with the batch.
    """

    def __init__(self, device: str, fixed: int | None = None) -> None:
        sizes = (128, 256, 512) if device == "cpu" else (1536, 2048, 3072)
        self._sizes = (fixed,) if fixed else sizes
        self._usual = fixed or (256 if device == "cpu" else 2048)
        self._begun: dict[tuple[int, int], int] = {}
        self._spent: dict[tuple[int, int], list[float]] = {}
        self.most = max(self._sizes)
        self.wide = fixed or (1024 if device == "cpu" else 8192)
        # The widest tree of a batch; on a CPU a row of one tree is as good from here on.
        self.widest = min(self.wide, 512 if device == "cpu" else 1024)

    @staticmethod
    def _kind(held: int) -> int:
        return 0 if held < 512 else 1 if held < 2048 else 2  # noqa: PLR2004 - little, some, much

    def choose(self, held: int, left: int) -> tuple[int, bool]:
        """The length of the next row, and whether it is a trial to be timed."""
        kind = self._kind(held)
        if len(self._sizes) > 1 and left > _ENOUGH * sum(self._sizes):
            for size in self._sizes:
                if size <= self.most and self._begun.get((kind, size), 0) < _TRIALS:
                    return size, True
        rates = {size: min(self._spent[kind, size]) for size in self._sizes if (kind, size) in self._spent}
        # The usual length stays unless another is clearly better: noise should not make two runs differ.
        if self._usual in rates:
            rates[self._usual] *= _CLEARLY
        best = min(rates, key=lambda size: rates[size]) if rates else self._usual
        return min(best, self.most), False

    def begin(self, held: int, size: int) -> None:
        """Note that a full row is being tried."""
        key = self._kind(held), size
        self._begun[key] = self._begun.get(key, 0) + 1

    def timed(self, held: int, size: int, seconds: float) -> None:
        """Note what it cost."""
        self._spent.setdefault((self._kind(held), size), []).append(seconds / size)

    def shrink(self, to: int) -> None:
        """Never again longer than this: the memory did not allow it."""
        self.most = max(to, 1)
        self.wide = min(self.wide, self.most)
