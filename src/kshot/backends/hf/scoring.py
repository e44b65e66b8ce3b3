"""Tree-packed log-probabilities of continuations: what requests have in common is computed once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from kshot.backends.hf.loading import invalid_logits
from kshot.backends.hf.packing import PackedModel
from kshot.backends.hf.tokens import TokenSpan
from kshot.backends.hf.trie import Ints, TokenSequence, Trie
from kshot.backends.hf.trie_pass import ComputedRow, TriePass
from kshot.backends.texts import ScoredSpans
from kshot.core.records import Likelihood, Loglik, Scored

_MAX_FLOAT32_LOGITS = 1 << 26
"""Logits that are converted to float32 at a time."""


class TokenizedLoglik(ScoredSpans[TokenSpan]):
    """A Loglik request and the token spans of its continuations."""

    __slots__ = ()

    @property
    def longest(self) -> int:
        """The number of tokens of the longest continuation with its prompt."""
        return max(len(span.ids) for span in self.spans)

    @property
    def sequences(self) -> list[TokenSequence]:
        """What the model must read: a span's last token is predicted and never read."""
        return [TokenSequence(span.ids[:-1], span.start - 1) for span in self.spans]


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
