"""Log-probabilities of continuations, tree-packed: what requests have in common is computed once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from kshot.backends.hf.packing import Packer
from kshot.backends.hf.sampling import broken
from kshot.backends.hf.tokens import Span
from kshot.backends.hf.trie import Ints, Trie
from kshot.backends.hf.trie_pass import Row, Walk
from kshot.core.records import Likelihood, Loglik, Scored

_BLOCK = 1 << 26
"""Logits turned to float32 at a time."""


@dataclass(frozen=True, slots=True)
class Question:
    """A Loglik request and the spans of its continuations."""

    request: Loglik
    spans: Sequence[Span]

    @property
    def longest(self) -> int:
        """Tokens of the longest continuation with its prompt."""
        return max(len(span.ids) for span in self.spans)


class _Sums:
    """The wanted log-probabilities of a trie: where each is read off, and what they add up to."""

    def __init__(self, questions: Sequence[Question], trie: Trie, name: str) -> None:
        self._name, self._questions = name, questions
        targets = [span.ids[span.start :] for question in questions for span in question.spans]
        places = np.concatenate(trie.nodes)
        self._edges = np.cumsum([0, *map(len, targets)])
        self._order = np.argsort(places, kind="stable")
        self._places = places[self._order]
        self._targets = np.concatenate(targets).astype(np.int64)[self._order]
        self._values = np.zeros(len(places))
        self.wanted = np.unique(places)
        last = [int(nodes[-1]) for nodes in trie.nodes]
        counts = np.cumsum([0, *(len(question.spans) for question in questions)])
        self._final = [max(last[a:b]) for a, b in pairwise(counts)]
        self._first = counts
        self._queue = sorted(range(len(questions)), key=lambda index: self._final[index], reverse=True)

    def looked_up(self, row: Row) -> tuple[slice, Ints, Ints]:
        """Which of the log-probabilities a row gives: row of the logits, and token."""
        some = slice(*map(int, np.searchsorted(self._places, [row.first, row.last])))
        return some, np.searchsorted(row.wanted, self._places[some]), self._targets[some]

    def put(self, some: slice, values: Any, before: int) -> Iterator[tuple[Loglik, Scored]]:
        """Take in a row's log-probabilities; give every question that is whole with them, the longest first."""
        if not np.isfinite(values).all():
            raise broken(self._name)
        self._values[self._order[some]] = values
        ready = []
        while self._queue and self._final[self._queue[-1]] < before:
            ready.append(self._queue.pop())
        for index in sorted(ready, key=lambda index: -self._questions[index].longest):
            yield self._questions[index].request, self._whole(index)

    def _whole(self, index: int) -> Scored:
        spans = range(self._first[index], self._first[index + 1])
        parts = [self._values[self._edges[one] : self._edges[one + 1]] for one in spans]
        return Scored(tuple(Likelihood(float(part.sum()), len(part)) for part in parts))


def scored(
    packer: Packer, trie: Trie, questions: Sequence[Question], under_way: UnderWay
) -> Iterator[tuple[Loglik, Scored]]:
    """Answer the questions of a trie, each as soon as it is known; the last rows stay ``under_way``.

    A GPU works on the next rows while the numbers of earlier ones are journalled.
    """
    sums = _Sums(questions, trie, packer.name)
    walk = Walk(packer, trie, sums.wanted)
    while not walk.done:
        row = walk.step()
        some, rows, tokens = sums.looked_up(row)
        under_way.append((sums, some, _Later(packer, picked(packer, row.logits, rows, tokens)), row.last))
        while len(under_way) > packer.ahead:
            yield from settled(under_way)


def settled(under_way: UnderWay) -> Iterator[tuple[Loglik, Scored]]:
    """Wait for the first row that is under way."""
    sums, some, values, last = under_way.popleft()
    yield from sums.put(some, values.read(), last)


def picked(packer: Packer, logits: Any, rows: Ints, tokens: Ints) -> Any:
    """Take log softmax(logits)[row, token], in float32, without a float32 copy of all the logits."""
    torch = packer.torch
    index = packer.sent(np.stack([rows, tokens]))
    with torch.inference_mode():
        parts = logits.split(max(_BLOCK // max(logits.shape[-1], 1), 1))
        totals = torch.cat([part.float().logsumexp(dim=-1) for part in parts])
        return logits[index[0], index[1]].float() - totals[index[0]]


class _Later:
    """Numbers on their way to the host: asked for now, read when the next row is under way."""

    def __init__(self, packer: Packer, values: Any) -> None:
        self._values, self._event = values, None
        if packer.cuda:
            torch = packer.torch
            self._values = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._values.copy_(values, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()

    def read(self) -> Any:
        if self._event is not None:
            self._event.synchronize()
        return self._values.numpy()


UnderWay: TypeAlias = deque[tuple[_Sums, slice, _Later, int]]
"""Rows that were asked for and not yet read."""
