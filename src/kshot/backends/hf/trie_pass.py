"""A walk over a trie, row by row: what is computed next, and which of its ancestors the cache must hold for it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from kshot.backends.hf.packing import Packer, States
from kshot.backends.hf.tree_batches import batch_of, most_rows
from kshot.backends.hf.trie import Ints, Trie, common
from kshot.core.errors import BackendError


@dataclass(frozen=True, slots=True)
class Row:
    """A run of the trie that has been computed: its places, and the logits at the wanted ones among them."""

    first: int
    last: int
    wanted: Ints
    logits: Any


class Walk:
    """One pass over a trie: each ``step`` computes the next row, its ancestors being in the cache."""

    def __init__(self, packer: Packer, trie: Trie, wanted: Ints) -> None:
        self._packer, self._trie, self._wanted = packer, trie, wanted
        self._places = np.zeros(0, np.int64)
        self._place = 0
        # The packer may hold on to others while this walk is under way; it speaks of these.
        self._trunks = list(packer.trunks)
        packer.clear()
        self._known = self._stretches()
        # Batches compute the common beginning for themselves.
        self._rows = trie.rows.tolist()
        if self._rows and self._rows[0] == trie.stem:
            self._place = trie.stem

    @property
    def done(self) -> bool:
        """Whether all of the trie is computed."""
        return self._place >= len(self._trie)

    @property
    def place(self) -> int:
        """Where the next row begins."""
        return self._place

    def _stretches(self) -> dict[int, tuple[int, int, int]]:
        """Where a run of known places begins → which trunk, and from which depth to which."""
        taken = np.zeros(len(self._trie), bool)
        found: dict[int, tuple[int, int, int]] = {}
        for which, whole in enumerate(self._trie.known):
            # Keys and values are held, logits are not: from the first place where those are wanted it is computed.
            path = whole[: int(np.append(np.isin(whole, self._wanted), True).argmax())]
            fresh = ~taken[path]
            taken[path] = True
            breaks = np.flatnonzero((np.diff(path) != 1) | (np.diff(fresh) != 0)) + 1
            for run in np.split(np.arange(len(path)), breaks):
                if len(run) and fresh[run[0]]:
                    found[int(path[run[0]])] = (which, int(run[0]), int(run[-1]) + 1)
        return found

    def ancestors(self, place: int) -> Ints:
        """Where in the cache the path to a place lies, itself included; it must be of the last row."""
        held = self._places
        return np.flatnonzero((held <= place) & (self._trie.ends[held] > place))

    def copy(self, place: int) -> States:
        """Keys and values of the path to a place of the last row."""
        return self._packer.copy(self.ancestors(place))

    def step(self, before: int | None = None) -> Row:
        """Compute the next row, or batch; a row ends before the place ``before``."""
        if self._rows and self._place >= self._rows[0]:
            return self._batch()
        self._settle()
        first, limit = self._place, len(self._trie) if before is None else before
        limit = min([limit, *self._rows[:1], *(place for place in self._known if place > first)])
        packer, lo = self._packer, int(np.searchsorted(self._wanted, first))
        if lo + packer.most_wanted < len(self._wanted):
            limit = min(limit, int(self._wanted[lo + packer.most_wanted]))
        packer.read_clocks()
        while True:
            size, trial = packer.pace.choose(len(self._places), limit - first)
            last = min(first + size, limit)
            try:
                return self._compute(first, last, full=last - first == size, trial=trial)
            except packer.torch.OutOfMemoryError as error:
                packer.keep(np.arange(len(self._places)))
                self._shrink(last - first, last - first, error)

    def _compute(self, first: int, last: int, *, full: bool, trial: bool) -> Row:
        packer, trie, held = self._packer, self._trie, len(self._places)
        places = np.concatenate([self._places, np.arange(first, last)])
        wanted = self._wanted[slice(*np.searchsorted(self._wanted, [first, last]))]
        with packer.clock(held, last - first) if full and trial else nullcontext():
            logits = packer.forward(
                trie.tokens[first:last], trie.depths[first:last], first, trie.ends[places], wanted, odd=not full
            )
        self._places, self._place = places, last
        for tokens, place in trie.trunks:
            if first <= place < last and all(common(tokens, one) < len(tokens) * 0.9 for one in packer.held()):
                packer.save(tokens, self.ancestors(place))
        return Row(first, last, wanted, logits)

    def _batch(self) -> Row:
        """Compute small trees, as the rows of a batch."""
        packer, trie = self._packer, self._trie
        at = int(np.searchsorted(trie.rows, self._place))
        while True:
            tokens = packer.pace.wide
            count = most_rows(trie, at, tokens, self._wanted, packer.most_wanted)
            left = len(trie.rows) - 1 - at
            if packer.cuda and count < left:
                # Of few sizes, for the kernels' sake; but a few rows that would be left over come along.
                count = left if left <= count * 1.25 else 1 << (count.bit_length() - 1)
            first, last = int(trie.rows[at]), int(trie.rows[at + count])
            wanted = self._wanted[slice(*np.searchsorted(self._wanted, [first, last]))]
            batch = batch_of(trie, at, at + count)
            try:
                logits = packer.batch(batch, batch.where[wanted - first], odd=count == left)
            except packer.torch.OutOfMemoryError as error:
                self._shrink(count, batch.tokens.size, error)
                continue
            self._place = last
            return Row(first, last, wanted, logits)

    def _settle(self) -> None:
        """Drop what is no ancestor of what comes next, and append what is known of it."""
        kept = np.flatnonzero(self._trie.ends[self._places] > self._place)
        if len(kept) < len(self._places):
            self._packer.keep(kept)
            self._places = self._places[kept]
        while (stretch := self._known.pop(self._place, None)) is not None:
            which, start, stop = stretch
            self._packer.load(self._trunks[which].states, start, stop)
            self._places = np.concatenate([self._places, np.arange(self._place, self._place + stop - start)])
            self._place += stop - start

    def _shrink(self, parts: int, tokens: int, error: Exception) -> None:
        """After out of memory: again, with half the tokens, where that many parts can be halved."""
        packer = self._packer
        if parts <= 1:
            hint = "Use a smaller dtype, or a device with more memory."
            raise BackendError(f"out of memory on {packer.device}", where=packer.name, hint=hint) from error
        packer.pace.shrink(tokens // 2)
        if packer.cuda:
            packer.torch.cuda.empty_cache()
