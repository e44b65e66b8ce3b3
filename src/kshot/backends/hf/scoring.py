"""Tree-packed log-probabilities of continuations: what requests have in common is computed once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from kshot.backends.hf.loading import invalid_logits, out_of_memory
from kshot.backends.hf.packing import KeyValues, PackedModel
from kshot.backends.hf.tokens import TokenizedLoglik
from kshot.backends.hf.trie import (
    Ints,
    Trie,
    contains,
    is_near_duplicate,
    make_tree_batch,
    max_rows,
    next_block_end,
)
from kshot.core.records import Likelihood, Loglik, Scored

# ---- one pass over a trie, row by row: what is computed next, and which ancestors the cache must hold ----

_LEFTOVER_FACTOR = 1.25
"""On a GPU, the last batch may be larger by this factor, so that no few rows are left over."""


@dataclass(frozen=True, slots=True)
class ComputedRow:
    """A run of the trie that has been computed: its places, and the logits at the wanted ones among them."""

    first: int
    last: int
    wanted: Ints
    logits: Any


class TriePass:
    """One pass over a trie: each ``step`` computes the next row, after its ancestors are in the cache."""

    def __init__(self, model: PackedModel, trie: Trie, wanted: Ints) -> None:
        self._model, self._trie, self._wanted = model, trie, wanted
        self._cached_places = np.zeros(0, np.int64)
        self._place = 0
        # The model may replace its prefixes during this pass; the trie refers to those of now.
        self._prefixes = list(model.prefixes)
        model.keep_places(np.zeros(0, np.int64))  # the cache is empty; its buffers stay
        self._cached_runs = self._find_cached_runs()
        # Tree batches compute the common beginning themselves.
        self._row_edges = trie.row_edges.tolist()
        if self._row_edges and self._row_edges[0] == trie.common_length:
            self._place = trie.common_length

    @property
    def done(self) -> bool:
        """Whether all of the trie is computed."""
        return self._place >= len(self._trie)

    @property
    def place(self) -> int:
        """The place where the next row begins."""
        return self._place

    def _find_cached_runs(self) -> dict[int, tuple[int, int, int]]:
        """Find the runs of places that are cached: their first place → which prefix, from which depth to which."""
        taken = np.zeros(len(self._trie), bool)
        found: dict[int, tuple[int, int, int]] = {}
        for which, whole in enumerate(self._trie.cached_nodes):
            # Keys and values are cached, logits are not: a path is used up to the first place with wanted logits.
            path = whole[: int(np.append(contains(self._wanted, whole), True).argmax())]
            fresh = ~taken[path]
            taken[path] = True
            breaks = np.flatnonzero((np.diff(path) != 1) | (np.diff(fresh) != 0)) + 1
            for run in np.split(np.arange(len(path)), breaks):
                if len(run) and fresh[run[0]]:
                    found[int(path[run[0]])] = (which, int(run[0]), int(run[-1]) + 1)
        return found

    def _path_to(self, place: int) -> Ints:
        """Return where in the cache the path to a place of the last row is, the place included."""
        cached = self._cached_places
        return np.flatnonzero((cached <= place) & (self._trie.ends[cached] > place))

    def copy_states(self, place: int) -> KeyValues:
        """Copy the keys and values of the path to a place of the last row."""
        return self._model.copy_states(self._path_to(place))

    def step(self, before: int | None = None) -> ComputedRow:
        """Compute the next row or tree batch; a row ends before the place ``before``."""
        if self._row_edges and self._place >= self._row_edges[0]:
            return self._compute_batch()
        self._update_cache()
        first, limit = self._place, len(self._trie) if before is None else before
        limit = min([limit, *self._row_edges[:1], *(place for place in self._cached_runs if place > first)])
        if first < self._trie.blocks_end:
            limit = min(limit, next_block_end(first, self._model.row_lengths.block_tokens))
        model, first_wanted = self._model, int(np.searchsorted(self._wanted, first))
        if first_wanted + model.max_wanted < len(self._wanted):
            limit = min(limit, int(self._wanted[first_wanted + model.max_wanted]))
        while True:
            length = model.row_lengths.row_tokens
            last = min(first + length, limit)
            try:
                return self._compute_row(first, last, full=last - first == length)
            except model.torch.OutOfMemoryError as error:
                model.keep_places(np.arange(len(self._cached_places)))
                self._halve(last - first, last - first, error)

    def _compute_row(self, first: int, last: int, *, full: bool) -> ComputedRow:
        model, trie = self._model, self._trie
        places = np.concatenate([self._cached_places, np.arange(first, last)])
        wanted = self._wanted[slice(*np.searchsorted(self._wanted, [first, last]))]
        logits = model.compute_row(
            trie.tokens[first:last],
            trie.depths[first:last],
            first,
            trie.ends[places],
            wanted,
            one_off=model.alone or not full,
        )
        self._cached_places, self._place = places, last
        for tokens, place in trie.shared_prefixes:
            if first <= place < last and not is_near_duplicate(tokens, model.cached_tokens()):
                model.cache_prefix(tokens, self._path_to(place))
        return ComputedRow(first, last, wanted, logits)

    def _compute_batch(self) -> ComputedRow:
        """Compute small trees, as the rows of a batch."""
        model, trie = self._model, self._trie
        at = int(np.searchsorted(trie.row_edges, self._place))
        while True:
            tokens = model.row_lengths.batch_tokens
            count = max_rows(trie, at, tokens, self._wanted, model.max_wanted)
            left = len(trie.row_edges) - 1 - at
            if model.is_cuda and count < left:
                # Batches come in few sizes, because each size needs its kernels.
                count = left if left <= count * _LEFTOVER_FACTOR else 1 << (count.bit_length() - 1)
            first, last = int(trie.row_edges[at]), int(trie.row_edges[at + count])
            wanted = self._wanted[slice(*np.searchsorted(self._wanted, [first, last]))]
            batch = make_tree_batch(trie, at, at + count)
            try:
                logits = model.compute_batch(batch, batch.flat_places[wanted - first], one_off=count == left)
            except model.torch.OutOfMemoryError as error:
                self._halve(count, batch.tokens.size, error)
                continue
            self._place = last
            return ComputedRow(first, last, wanted, logits)

    def _update_cache(self) -> None:
        """Drop the places that are no ancestors of the next one, and append those that come from a cached prefix."""
        kept = np.flatnonzero(self._trie.ends[self._cached_places] > self._place)
        if len(kept) < len(self._cached_places):
            self._model.keep_places(kept)
            self._cached_places = self._cached_places[kept]
        while (run := self._cached_runs.pop(self._place, None)) is not None:
            which, start, stop = run
            self._model.append_states(self._prefixes[which].states, start, stop)
            added = np.arange(self._place, self._place + stop - start)
            self._cached_places = np.concatenate([self._cached_places, added])
            self._place += stop - start

    def _halve(self, parts: int, tokens: int, error: Exception) -> None:
        """After out of memory, allow half the tokens from now on. A single part cannot be halved.

        Nor may the rows of a request alone depend on how much memory is free.
        """
        model = self._model
        if parts <= 1 or model.alone:
            raise out_of_memory(model.name, model.device) from error
        model.row_lengths.limit_to(tokens // 2)
        if model.is_cuda:
            model.torch.cuda.empty_cache()


# ---- what is scored ----

_MAX_FLOAT32_LOGITS = 1 << 26
"""Logits that are converted to float32 at a time."""


class _TrieLogprobs:
    """The wanted log-probabilities of a trie: where each is read, and the sums of each request."""

    def __init__(self, requests: Sequence[TokenizedLoglik], trie: Trie, name: str) -> None:
        self._name, self._requests = name, requests
        targets = [span.ids[span.start :] for request in requests for span in request.spans]
        places = np.concatenate(trie.nodes)
        self._span_edges = np.cumsum([0, *map(len, targets)])
        self._order = np.argsort(places, kind="stable")
        self._places = places[self._order]
        self._targets = np.concatenate(targets).astype(np.int64)[self._order]
        self._values = np.zeros(len(places))
        self._greedy = np.zeros(len(places), bool)
        self.wanted = np.unique(places)
        last = [int(nodes[-1]) for nodes in trie.nodes]
        self._request_edges = np.cumsum([0, *(len(request.spans) for request in requests)])
        self._last_place = [max(last[a:b]) for a, b in pairwise(self._request_edges)]
        self._unfinished = sorted(range(len(requests)), key=lambda index: self._last_place[index], reverse=True)

    def of_row(self, row: ComputedRow) -> tuple[slice, Ints, Ints]:
        """Return which log-probabilities a row gives, and for each the row of the logits and the token."""
        some = slice(*map(int, np.searchsorted(self._places, [row.first, row.last])))
        return some, np.searchsorted(row.wanted, self._places[some]), self._targets[some]

    def add(self, some: slice, found: Any, before: int) -> Iterator[tuple[Loglik, Scored]]:
        """Take the log-probabilities of a row; give every request that they complete, the longest first."""
        values, greedy = found
        if np.isnan(values).any() or np.isposinf(values).any():  # -inf: the model rules a token out
            raise invalid_logits(self._name)
        self._values[self._order[some]] = values
        self._greedy[self._order[some]] = greedy
        complete = []
        while self._unfinished and self._last_place[self._unfinished[-1]] < before:
            complete.append(self._unfinished.pop())
        for index in sorted(complete, key=lambda index: -self._requests[index].longest):
            yield from self._scored(index)

    def _scored(self, index: int) -> Iterator[tuple[Loglik, Scored]]:
        request, first = self._requests[index], self._request_edges[index]
        for number in range(len(request.spans)):
            part = slice(*self._span_edges[first + number : first + number + 2])
            values, greedy = self._values[part], bool(self._greedy[part].all())
            likelihood = Likelihood(float(values.sum()), len(values), greedy)
            if (scored := request.add(number, likelihood, values.tolist() if request.pieces else ())) is not None:
                yield request.request, scored


def score_trie(
    model: PackedModel, trie: Trie, requests: Sequence[TokenizedLoglik], pending: PendingRows
) -> Iterator[tuple[Loglik, Scored]]:
    """Answer the requests of a trie, each as soon as it is complete; the last rows stay ``pending``.

    A GPU works on the next rows while the results of earlier ones are journalled.
    """
    logprobs = _TrieLogprobs(requests, trie, model.name)
    trie_pass = TriePass(model, trie, logprobs.wanted)
    while not trie_pass.done:
        row = trie_pass.step()
        some, rows, tokens = logprobs.of_row(row)
        transfer = _HostTransfer(model, gather_logprobs(model, row.logits, rows, tokens))
        pending.append((logprobs, some, transfer, row.last))
        while len(pending) > model.rows_ahead:
            yield from finish_first(pending)


def finish_first(pending: PendingRows) -> Iterator[tuple[Loglik, Scored]]:
    """Wait for the first pending row, and answer the requests that it completes."""
    logprobs, some, transfer, last = pending.popleft()
    yield from logprobs.add(some, transfer.read(), last)


def gather_logprobs(model: PackedModel, logits: Any, rows: Ints, tokens: Ints) -> Any:
    """Return log softmax(logits)[row, token] in float32, and below it 1 where the token has the highest logit.

    There is no float32 copy of all logits.
    """
    torch = model.torch
    index = model.to_device(np.stack([rows, tokens]))
    with torch.inference_mode():
        parts = logits.split(max(_MAX_FLOAT32_LOGITS // max(logits.shape[-1], 1), 1))
        totals = torch.cat([part.float().logsumexp(dim=-1) for part in parts])
        values = logits[index[0], index[1]].float() - totals[index[0]]
        return torch.stack([values, (logits.argmax(dim=-1)[index[0]] == index[1]).float()])


class _HostTransfer:
    """Numbers on their way to the host: the copy starts now, and ``read`` waits for it."""

    def __init__(self, model: PackedModel, values: Any) -> None:
        self._values, self._event = values, None
        if model.is_cuda:
            torch = model.torch
            self._values = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._values.copy_(values, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record(torch.cuda.current_stream(values.device))

    def read(self) -> Any:
        if self._event is not None:
            self._event.synchronize()
        return self._values.numpy()


PendingRows: TypeAlias = deque[tuple[_TrieLogprobs, slice, _HostTransfer, int]]
"""Rows that are being computed, or whose results are not read yet."""
