"""One loaded model: which way each request is computed, how many tokens that took, and what the user should know."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from kshot.backends.hf.alone import cut_into_blocks
from kshot.backends.hf.compatibility import max_packed_length, packing_obstacle, trial_failure
from kshot.backends.hf.compiling import CompiledModel, compiling_obstacle
from kshot.backends.hf.continuous_batching import write_texts
from kshot.backends.hf.model_errors import out_of_memory
from kshot.backends.hf.packing import PackedModel
from kshot.backends.hf.plain_batches import PaddingSide, PlainModel
from kshot.backends.hf.sampling import GenerationRow, restart
from kshot.backends.hf.scoring import PendingRows, TokenizedLoglik, finish_first, score_trie
from kshot.backends.hf.tokens import PromptTokenizer
from kshot.backends.hf.tree_batches import plan_tree_batches
from kshot.backends.hf.trie import IdArray, NodeCounter, TokenCounts, TokenSequence, Trie, build_trie
from kshot.core.errors import BackendError
from kshot.core.records import Loglik, Scored

T = TypeVar("T")


class ModelRunner:
    """A model that computes tries where it can, and plain batches where it cannot.

    ``alone``: it computes every request by itself, and nothing but the request decides how. ``compiles``: parts of it
    are compiled, where a trial shows that they may be.
    """

    def __init__(
        self,
        model: Any,
        torch: Any,
        name: str,
        *,
        row_tokens: int | None,
        side: PaddingSide,
        alone: bool,
        compiles: bool = False,
    ) -> None:
        self._model, self._torch, self._name = model, torch, name
        arguments = frozenset(inspect.signature(model.forward).parameters)
        self._plain = PlainModel(model, torch, name, arguments=arguments, side=side)
        self._row_tokens, self._alone = row_tokens, alone
        self._notes: dict[str, None] = {}
        self._requested = 0
        self._node_counter = NodeCounter()
        self.pending: PendingRows = deque()
        self._max_packed_length = max_packed_length(model.config.get_text_config())
        self._packed = self._try_packing(arguments)
        if compiles:
            self._try_compiling()

    def _try_packing(self, arguments: frozenset[str]) -> PackedModel | None:
        reason = packing_obstacle(self._model, arguments)
        if not reason:
            options: Any = {"arguments": arguments, "row_tokens": self._row_tokens, "alone": self._alone}
            packed = PackedModel(self._model, self._torch, self._name, **options)
            if not (reason := trial_failure(packed)):
                packed.computed = 0
                return packed
        self._notes[f"runs in plain batches, not as a trie: {reason}"] = None
        return None

    def _try_compiling(self) -> None:
        """Compile what can be compiled: all parts, all but the attention, or none, as trials allow."""
        packed = self._packed
        reason = compiling_obstacle(self._model, alone=self._alone) if packed else "it runs in plain batches"
        if packed is not None and not reason:
            batches_trees = packed.batches_trees
            packed.compiled = CompiledModel(self._model, self._torch)
            while reason := trial_failure(packed) or _lost_batches(packed, batches_trees=batches_trees):
                packed.batches_trees = batches_trees
                if not packed.compiled.drop_attention(reason):
                    packed.compiled = None
                    break
            packed.computed = 0
        if reason:
            self._notes[f"runs uncompiled: {reason}"] = None

    @property
    def token_counts(self) -> TokenCounts:
        """Tokens requested, distinct, and computed."""
        packed = self._packed.computed if self._packed else 0
        return TokenCounts(self._requested, self._node_counter.count, packed + self._plain.computed)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about how it worked."""
        compiled = self._packed.compiled if self._packed else None
        return (*self._notes, *(compiled.notes if compiled else ()))

    def score(self, requests: Sequence[TokenizedLoglik], size: int) -> Iterator[tuple[Loglik, Scored]]:
        """Answer the requests, each as soon as it is complete. The last rows may stay ``pending``."""
        self._check_ids(span.ids for request in requests for span in request.spans)
        packed: list[TokenizedLoglik] = []
        plain: list[TokenizedLoglik] = []
        for request in requests:
            (packed if self._can_pack(request.longest) else plain).append(request)
        for model, some in self._packed_groups(packed):
            trie = self._build_trie(_sequences(some), model)
            if model.batches_trees and not self._alone:
                trie = plan_tree_batches(trie, model.row_lengths.max_tree_tokens, equal_width=model.is_cuda)
            yield from score_trie(model, trie, some, self.pending)
        for some in self._groups(plain):
            self._build_trie(_sequences(some), None)
            yield from self._plain.score(some, size)

    def finish_pending(self) -> Iterator[tuple[Loglik, Scored]]:
        """Answer what is still pending."""
        while self.pending:
            yield from finish_first(self.pending)

    def generate(
        self, rows: Sequence[GenerationRow], size: int, limit: int | None, tokenizer: PromptTokenizer
    ) -> Iterator[GenerationRow]:
        """Write all rows to their ends, and give each back as soon as it is finished."""
        self._check_ids(np.array(row.prompt, np.int32) for row in rows)
        packed: list[GenerationRow] = []
        plain: list[GenerationRow] = []
        for row in rows:
            (packed if self._can_pack(len(row.prompt) + row.max_new_tokens) else plain).append(row)
        for model, texts in self._packed_groups(packed):
            yield from self._generate_packed(model, texts, size, tokenizer)
        for texts in self._groups(plain):
            self._build_trie(_prompts(texts), None)
            yield from self._plain.generate(texts, size, limit, tokenizer)

    def _generate_packed(
        self, model: PackedModel, rows: Sequence[GenerationRow], size: int, tokenizer: PromptTokenizer
    ) -> Iterator[GenerationRow]:
        left = {id(row): row for row in rows}
        size = model.max_texts(size, max(len(row.prompt) + row.max_new_tokens for row in rows))
        while left:
            trie = self._build_trie(_prompts(left.values()), model)
            try:
                for row in write_texts(model, trie, [*left.values()], size, tokenizer):
                    del left[id(row)]
                    yield row
            except self._torch.OutOfMemoryError as error:
                size //= 2
                if size < 1:
                    raise out_of_memory(self._name, model.device) from error
                model.prefixes.clear()
                restart(left.values())
            if left and model.is_cuda:  # after the except block: the error keeps the tensors of its frames alive
                self._torch.cuda.empty_cache()

    def _can_pack(self, longest: int) -> bool:
        """Whether sequences of this length are computed as a trie."""
        if self._packed is None or self._max_packed_length is None or longest <= self._max_packed_length:
            return self._packed is not None
        limit = self._max_packed_length
        note = f"runs sequences over {limit} tokens, its attention window, in plain batches"
        self._notes[note] = None
        return False

    def _groups(self, some: Sequence[T]) -> list[Sequence[T]]:
        """Return what is computed together."""
        return [[one] for one in some] if self._alone else [some] if some else []

    def _packed_groups(self, some: Sequence[T]) -> list[tuple[PackedModel, Sequence[T]]]:
        return [(self._packed, group) for group in self._groups(some)] if self._packed is not None else []

    def _build_trie(self, sequences: Sequence[TokenSequence], model: PackedModel | None) -> Trie:
        """Lay the sequences out, and count their tokens."""
        trie = build_trie(sequences, model.cached_tokens() if model else ())
        self._requested += sum(len(sequence.tokens) for sequence in sequences)
        self._node_counter.add(trie.hashes)
        return cut_into_blocks(trie, model.row_lengths.block_tokens) if model is not None and self._alone else trie

    def _check_ids(self, sequences: Iterable[IdArray]) -> None:
        """Refuse tokens for which the model has no weights."""
        largest = max((int(tokens.max()) for tokens in sequences), default=0)
        if largest >= (rows := self._model.get_input_embeddings().weight.shape[0]):
            what = f"the tokenizer gave token {largest} and the model knows {rows}"
            raise BackendError(
                what, where=self._name, hint="The tokenizer is another model's: put the right one there."
            )


def _lost_batches(packed: PackedModel, *, batches_trees: bool) -> str:
    """Say that a trial has turned tree batches off, which worked before; otherwise empty."""
    return "a trial of tree batches differs from unpacked computing" if batches_trees > packed.batches_trees else ""


def _sequences(requests: Iterable[TokenizedLoglik]) -> list[TokenSequence]:
    return [sequence for request in requests for sequence in request.sequences]


def _prompts(rows: Iterable[GenerationRow]) -> list[TokenSequence]:
    return [TokenSequence(np.array(row.prompt, np.int32), len(row.prompt) - 1) for row in rows]
