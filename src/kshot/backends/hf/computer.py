"""One loaded model at work: which way each request is computed, what is counted, and what the user is told of it."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from kshot.backends.hf.compatibility import obstacle, reach, trial
from kshot.backends.hf.continuous_batching import written
from kshot.backends.hf.encoding import Ids
from kshot.backends.hf.packing import Packer
from kshot.backends.hf.plain_batches import Plain, Side
from kshot.backends.hf.row_length import Pace
from kshot.backends.hf.sampling import Row, begin_again
from kshot.backends.hf.scoring import Question, UnderWay, scored, settled
from kshot.backends.hf.tokens import Tokens
from kshot.backends.hf.tree_batches import planted
from kshot.backends.hf.trie import Item, Seen, Trie, Work, grown
from kshot.core.errors import BackendError
from kshot.core.records import Loglik, Scored

_ALONE = 512
"""Tokens a row where each request is computed by itself: fixed, for then its numbers are the same every time."""


class Computer:
    """A model that computes tries where it can, and plain batches where it cannot."""

    def __init__(self, model: Any, torch: Any, name: str, *, row_tokens: int | None, side: Side) -> None:
        self._model, self._torch, self._name = model, torch, name
        takes = frozenset(inspect.signature(model.forward).parameters)
        self._plain = Plain(model, torch, name, takes=takes, side=side)
        self._row_tokens = row_tokens
        self._notes: dict[str, None] = {}
        self._requested = self._distinct = 0
        self._seen = Seen()
        self.under_way: UnderWay = deque()
        self._reach = reach(model.config.get_text_config())
        self._packer = self._packing(takes)

    def _packing(self, takes: frozenset[str]) -> Packer | None:
        reason = obstacle(self._model, takes)
        if not reason:
            pace = Pace(self._model.device.type, self._row_tokens)
            packer = Packer(self._model, self._torch, self._name, pace=pace, takes=takes)
            if not (reason := trial(packer)):
                packer.computed = 0
                return packer
        self._notes[f"{self._name} runs in plain batches, not tree-packed: {reason}"] = None
        return None

    @property
    def work(self) -> Work:
        """Tokens asked for, distinct, and put through the model."""
        packed = self._packer.computed if self._packer else 0
        return Work(self._requested, self._distinct, packed + self._plain.computed)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to tell the user of how it worked."""
        return tuple(self._notes)

    def score(self, questions: Sequence[Question], size: int) -> Iterator[tuple[Loglik, Scored]]:
        """Answer the questions, each as soon as it is known; the last may stay ``under_way``, to be ``settled``."""
        self._check(span.ids for question in questions for span in question.spans)
        packed: list[Question] = []
        rest: list[Question] = []
        for question in questions:
            (packed if self._packs(question.longest) else rest).append(question)
        for packer, some in self._together(packed, size):
            items = [Item(span.ids[:-1], span.start - 1) for one in some for span in one.spans]
            trie = self._trie(items, packer)
            if size > 1 and packer.wide:
                trie = planted(trie, packer.pace.widest, even=packer.cuda)
            yield from scored(packer, trie, some, self.under_way)
        if rest:
            self._trie([Item(span.ids[:-1], span.start - 1) for one in rest for span in one.spans], None)
            yield from self._plain.scored(rest, size)

    def settled(self) -> Iterator[tuple[Loglik, Scored]]:
        """Answer what is still under way."""
        while self.under_way:
            yield from settled(self.under_way)

    def write(self, rows: Sequence[Row], size: int, limit: int | None, tokens: Tokens) -> Iterator[Row]:
        """Write all rows to their ends, each given back when it is there."""
        self._check(np.array(row.prompt, np.int32) for row in rows)
        packed: list[Row] = []
        rest: list[Row] = []
        for row in rows:
            (packed if self._packs(len(row.prompt) + row.room) else rest).append(row)
        for packer, some in self._together(packed, size):
            yield from self._packed_rows(packer, some, size, tokens)
        if rest:
            self._trie([Item(np.array(row.prompt, np.int32), len(row.prompt) - 1) for row in rest], None)
            yield from self._plain.written(rest, size, limit, tokens)

    def _packed_rows(self, packer: Packer, rows: Sequence[Row], size: int, tokens: Tokens) -> Iterator[Row]:
        left = {id(row): row for row in rows}
        size = packer.most_texts(size, max(len(row.prompt) + row.room for row in rows))
        while left:
            items = [Item(np.array(row.prompt, np.int32), len(row.prompt) - 1) for row in left.values()]
            try:
                for row in written(packer, self._trie(items, packer), [*left.values()], size, tokens):
                    del left[id(row)]
                    yield row
            except self._torch.OutOfMemoryError as error:
                size //= 2
                if size < 1:
                    hint = "Use a smaller dtype, or a device with more memory."
                    raise BackendError(f"out of memory on {packer.device}", where=self._name, hint=hint) from error
                packer.trunks.clear()
                begin_again(left.values())
            if left and packer.cuda:  # behind the error, which holds on to what it was raised from
                self._torch.cuda.empty_cache()

    def _packs(self, longest: int) -> bool:
        """Whether sequences of this length are computed as a trie."""
        if self._packer is None or self._reach is None or longest <= self._reach:
            return self._packer is not None
        note = f"{self._name} runs sequences over {self._reach} tokens, its attention window, in plain batches"
        self._notes[note] = None
        return False

    def _together(self, some: Sequence[Any], size: int) -> Iterator[tuple[Packer, Sequence[Any]]]:
        """What is computed together: all of it; or, for a batch size of 1, one by one and nothing held over."""
        if self._packer is None or not some:
            return
        if size > 1:
            yield self._packer, some
            return
        usual = self._packer.pace
        for one in some:
            self._packer.trunks.clear()
            self._packer.pace = Pace(self._packer.device.type, self._row_tokens or _ALONE)
            yield self._packer, [one]
        self._packer.pace = usual

    def _trie(self, items: Sequence[Item], packer: Packer | None) -> Trie:
        """Lay out what is asked, and count it."""
        trie = grown(items, packer.held() if packer else ())
        self._requested += sum(len(item.tokens) for item in items)
        self._distinct += self._seen.fresh(trie.hashes)
        return trie

    def _check(self, sequences: Iterable[Ids]) -> None:
        """Refuse tokens that the model has no weights for."""
        most = max((int(tokens.max()) for tokens in sequences), default=0)
        if most >= (rows := self._model.get_input_embeddings().weight.shape[0]):
            what = f"the tokenizer gave token {most} and the model knows {rows}"
            raise BackendError(
                what, where=self._name, hint="The tokenizer is another model's: put the right one there."
            )
