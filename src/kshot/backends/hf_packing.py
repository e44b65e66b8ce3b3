"""Tree-packed computing: a trie of tokens goes through the model in rows of one batch, every token once.

A row is a run of the trie in its depth-first layout, without padding. The keys and values of the row's ancestors lie in
a cache of batch 1; each token has its own position, and a mask through which it sees its ancestors only.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kshot.backends.hf_trie import Ints, Trie, common
from kshot.errors import BackendError

States: TypeAlias = list[tuple[Any, ...]]
"""Keys and values by layer; nothing for a layer that borrows another's."""

_TRUNKS = 4
_ALIGNED = 8
_CLEARLY = 0.95


def layer_type() -> Any:
    """The class of a cache layer that is written in place; made when transformers is there to inherit from."""
    from transformers.cache_utils import DynamicLayer

    class PackedLayer(DynamicLayer):  # type: ignore[misc]
        """Keys and values in buffers with room to spare: nothing is copied when a row is added or taken away."""

        used = 0

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
            return self.keys[..., : self.used, :], self.values[..., : self.used, :]

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
    """A buffer for ``needed`` tokens and a quarter more, the first ``used`` of them copied."""
    wider = like.new_empty((*like.shape[:-2], (needed + needed // 4 + 63) // 64 * 64, like.shape[-1]))
    wider[..., :used, :] = held[..., :used, :]
    return wider


@dataclass(slots=True)
class Trunk:
    """A prefix that came up often, and its keys and values by layer."""

    tokens: NDArray[np.int32]
    states: States


class Pace:
    """How many tokens a row should have: tried out on the first full rows of the real work, by the clock.

    The mask and the attention grow with the row, the calls become fewer; where the balance lies depends on the device
    and on how much is cached. ``fixed`` leaves no choice, so that the same run gives the same bits.
    """

    def __init__(self, device: str, fixed: int | None = None) -> None:
        sizes = (128, 256, 512) if device == "cpu" else (768, 1536, 3072)
        self._sizes = (fixed,) if fixed else sizes
        self._usual = fixed or (256 if device == "cpu" else 1536)
        self._spent: dict[tuple[int, int], list[float]] = {}
        self.most = max(self._sizes)

    @staticmethod
    def _kind(held: int) -> int:
        return 0 if held < 512 else 1 if held < 2048 else 2  # noqa: PLR2004 - little, some, much

    def choose(self, held: int, left: int) -> tuple[int, bool]:
        """The length of the next row, and whether it is a trial to be timed."""
        kind = self._kind(held)
        # A trial is paid with real work, so all that is left to lose is little: and little is left to gain at the end.
        if len(self._sizes) > 1 and left > 2 * sum(self._sizes):
            for size in self._sizes:
                if size <= self.most and len(self._spent.get((kind, size), ())) < 2:  # noqa: PLR2004 - twice each
                    return size, True
        rates = {size: min(self._spent[kind, size]) for size in self._sizes if (kind, size) in self._spent}
        # The usual length stays unless another is clearly better: noise should not make two runs differ.
        if self._usual in rates:
            rates[self._usual] *= _CLEARLY
        best = min(rates, key=lambda size: rates[size]) if rates else self._usual
        return min(best, self.most), False

    def timed(self, held: int, size: int, seconds: float) -> None:
        """Note what a full row cost."""
        self._spent.setdefault((self._kind(held), size), []).append(seconds / size)

    def shrink(self, to: int) -> None:
        """Never again longer than this: the memory did not allow it."""
        self.most = max(to, 1)


@dataclass(frozen=True, slots=True)
class Row:
    """A run of the trie that has been computed: its places, and the logits at the wanted ones among them."""

    first: int
    last: int
    wanted: Ints
    logits: Any


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
        self.cache = Cache(layers=self.layers)
        self.keeps = "logits_to_keep" in takes
        # Logits are wide: at most this many rows of them at a time.
        self.most_wanted = max((1 << (28 if self.cuda else 25)) // config.vocab_size, 16)
        self.trunks: list[Trunk] = []
        self.computed = 0

    def held(self) -> list[NDArray[np.int32]]:
        """The prefixes whose keys and values are at hand."""
        return [trunk.tokens for trunk in self.trunks]

    def forward(self, tokens: Ints, depths: Ints, first: int, ends: Ints, wanted: Ints) -> Any:
        """Logits at the ``wanted`` places of a row that begins at ``first``; ``ends`` cover the cache and the row."""
        torch, count = self.torch, len(tokens)
        # One transfer for all of it.
        packed = torch.from_numpy(np.concatenate([tokens, depths, ends - first, wanted - first]))
        packed = packed.pin_memory().to(self.device, non_blocking=True) if self.cuda else packed.to(self.device)
        ids, positions, until, places = packed.split([count, count, len(ends), len(wanted)])
        own = torch.arange(count, device=self.device)[:, None]
        mask = (own < until) & (torch.arange(count - len(ends), count, device=self.device) <= own)
        options = {"logits_to_keep": places if len(wanted) else places.new_zeros(1)} if self.keeps else {}
        with torch.inference_mode():
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

    def seen(self, mask: Any) -> Any:
        """The mask as numbers to add: every attention takes those, and a boolean one is turned into them per layer."""
        zeros = self.torch.zeros(mask.shape, dtype=self.model.dtype, device=self.device)
        return zeros.masked_fill(~mask, self.torch.finfo(self.model.dtype).min)

    def keep(self, kept: Ints) -> None:
        """Drop from the cache all but these places, in this order."""
        straight = int((kept == np.arange(len(kept))).sum())
        moved: Any = None
        if straight < len(kept):
            tail = kept[straight:]
            run = tail[-1] - tail[0] + 1 == len(tail)
            moved = slice(int(tail[0]), int(tail[-1]) + 1) if run else self.torch.from_numpy(tail).to(self.device)
        with self.torch.inference_mode():
            for layer in self.layers:
                if layer.is_initialized:
                    layer.keep(straight, moved)

    def copy(self, places: Ints) -> States:
        """Keys and values of some places of the cache, by layer."""
        index = self.torch.from_numpy(places).to(self.device)
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
        """Compute the next row; it ends before the place ``before``."""
        self._settle()
        first, limit = self._place, len(self._trie) if before is None else before
        limit = min([limit, *(place for place in self._known if place > first)])
        packer, lo = self._packer, int(np.searchsorted(self._wanted, first))
        if lo + packer.most_wanted < len(self._wanted):
            limit = min(limit, int(self._wanted[lo + packer.most_wanted]))
        while True:
            size, trial = packer.pace.choose(len(self._places), len(self._trie) - first)
            last = min(first + size, limit)
            if packer.cuda and last < limit and last - first > 8 * _ALIGNED:
                # Attention kernels want rows of the mask that begin on 16 bytes.
                last -= (len(self._places) + last - first) % _ALIGNED
            try:
                return self._compute(first, last, timed=size if trial and last - first == size else 0)
            except packer.torch.OutOfMemoryError as error:
                self._shrink(last - first, error)

    def _compute(self, first: int, last: int, *, timed: int) -> Row:
        packer, trie = self._packer, self._trie
        places = np.concatenate([self._places, np.arange(first, last)])
        wanted = self._wanted[slice(*np.searchsorted(self._wanted, [first, last]))]
        began = self._clock() if timed else 0.0
        logits = packer.forward(trie.tokens[first:last], trie.depths[first:last], first, trie.ends[places], wanted)
        if timed:
            packer.pace.timed(len(self._places), timed, self._clock() - began)
        self._places, self._place = places, last
        for tokens, place in trie.trunks:
            if first <= place < last and all(common(tokens, held) < len(tokens) * 0.9 for held in packer.held()):
                packer.save(tokens, self.ancestors(place))
        return Row(first, last, wanted, logits)

    def _clock(self) -> float:
        if self._packer.cuda:
            self._packer.torch.cuda.synchronize(self._packer.device)
            return time.perf_counter()
        # The CPU may be shared with others, whose share must not count.
        return time.process_time()

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

    def _shrink(self, count: int, error: Exception) -> None:
        """After out of memory: the row again, at half its length, and nothing held that could be computed again."""
        packer = self._packer
        packer.keep(np.arange(len(self._places)))
        if count <= 1:
            hint = "Use a smaller dtype, or a device with more memory."
            raise BackendError(f"out of memory on {packer.device}", where=packer.name, hint=hint) from error
        packer.pace.shrink(count // 2)
        if packer.cuda:
            packer.torch.cuda.empty_cache()
