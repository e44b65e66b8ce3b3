"""Plain batches, for models that cannot be tree-packed: sequences padded to one length, and ``generate``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from kshot.backends.hf.loading import input_device, invalid_logits, is_split, out_of_memory
from kshot.backends.hf.sampling import restart, split_into_batches, write_rows
from kshot.backends.hf.scoring import TokenizedLoglik
from kshot.backends.hf.tokens import PromptTokenizer, TokenSpan
from kshot.backends.hf.trie import IdArray
from kshot.backends.texts import TextInProgress
from kshot.core.records import Likelihood, Loglik, Scored

PaddingSide: TypeAlias = Literal["left", "right"]

_MAX_LOGITS = 1 << 29
"""The most logits of a batch of texts that are scored, unless one text alone has more."""


@dataclass(slots=True)
class _PlainSequence:
    """One sequence to run, without its last token, and the continuations that it answers."""

    tokens: IdArray
    rank: tuple[int, int, int]
    wanted: list[tuple[TokenizedLoglik, int, TokenSpan]] = field(default_factory=list)

    @property
    def start(self) -> int:
        """The first position whose prediction is needed."""
        return min(span.start for _, _, span in self.wanted) - 1


class PlainModel:
    """A model that runs on batches of padded sequences."""

    def __init__(self, model: Any, torch: Any, name: str, *, arguments: frozenset[str], side: PaddingSide) -> None:
        """Take a loaded model; ``arguments`` are those that its ``forward`` accepts."""
        self._model, self._torch, self._name, self._arguments = model, torch, name, arguments
        # A stateful model may read the padding in spite of the mask: it must come last there, or not at all.
        self._masks_padding = "attention_mask" in arguments and not is_stateful(model)
        self._side: PaddingSide = side if self._masks_padding else "right"
        self._device, self._is_split = input_device(model, torch), is_split(model)
        self._max_batch = 1 << 30
        self.computed = 0

    def _padded(self, sequences: Sequence[Sequence[int] | IdArray], side: PaddingSide) -> dict[str, Any]:
        """Return tensors of equal length: tokens, attention mask, and positions from the first real token on."""
        width = max(map(len, sequences))
        ids = self._torch.zeros((len(sequences), width), dtype=self._torch.long)
        mask = self._torch.zeros_like(ids)
        for index, sequence in enumerate(sequences):
            place = slice(width - len(sequence), None) if side == "left" else slice(len(sequence))
            ids[index, place] = self._torch.as_tensor(sequence)
            mask[index, place] = 1
        tensors = {"input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(-1) - 1).clamp(min=0)}
        return {name: tensor.to(self._device) for name, tensor in tensors.items()}

    def _halve(self, size: int, error: Exception) -> int:
        """After out of memory, allow half as many sequences in a batch from now on."""
        if size <= 1:
            raise out_of_memory(self._name, self._device) from error
        self._max_batch = size // 2
        if self._device.type == "cuda":
            self._torch.cuda.empty_cache()
        return self._max_batch

    # ---- Loglik ----

    def score(self, requests: Sequence[TokenizedLoglik], size: int) -> Iterator[tuple[Loglik, Scored]]:
        """Answer in batches of ``size`` sequences, the longest first, each request as soon as it is complete."""
        sequences: dict[bytes, _PlainSequence] = {}
        for number, request in enumerate(requests):
            longest = request.longest
            for index, span in enumerate(request.spans):
                # The last token is predicted and never read, so all one-token continuations share one sequence.
                read = span.ids[:-1]
                rank = (-longest, number, -len(read))
                sequences.setdefault(read.tobytes(), _PlainSequence(read, rank)).wanted.append((request, index, span))
        # The longest request comes first, its options together: it is journalled before the next one begins.
        ordered = sorted(sequences.values(), key=lambda sequence: sequence.rank)
        at = 0
        while at < len(ordered):
            batch = self._limited(ordered[at : at + min(size, self._max_batch)])
            try:
                found = self._run(batch)
            except self._torch.OutOfMemoryError as error:
                self._halve(len(batch), error)
                continue
            while found:  # logits are wide: each is dropped as soon as it is summed up
                yield from self._sum_up(*found.pop(0))
            at += len(batch)

    def _limited(self, batch: Sequence[_PlainSequence]) -> Sequence[_PlainSequence]:
        """Return the first sequences of a batch, so many that their logits are not too large: long texts need many."""
        most = _MAX_LOGITS // int(self._model.config.get_text_config().vocab_size)
        selects = "logits_to_keep" in self._arguments and self._side == "left"
        widest = 0
        for count, sequence in enumerate(batch):
            widest = max(widest, len(sequence.tokens) - (sequence.start if selects else 0))
            if count and (count + 1) * widest > most:
                return batch[:count]
        return batch

    def _run(self, batch: Sequence[_PlainSequence]) -> list[tuple[_PlainSequence, Any]]:
        """Return the logits that each sequence of a batch needs."""
        inputs = self._padded([sequence.tokens for sequence in batch], self._side)
        width = inputs["input_ids"].shape[1]
        shifts = [width - len(sequence.tokens) if self._side == "left" else 0 for sequence in batch]
        kept = range(width)
        if "logits_to_keep" in self._arguments:
            # Logits are wide: ask for the columns that some row needs and no others.
            pairs = zip(batch, shifts, strict=True)
            needed = {at + shift for sequence, shift in pairs for at in range(sequence.start, len(sequence.tokens))}
            kept = range(min(needed), max(needed) + 1)
            # The last layer of a split model is elsewhere: only a number is right there. The last column is needed.
            last = self._torch.arange(kept.start, kept.stop, device=self._device)
            inputs["logits_to_keep"] = len(kept) if self._is_split else last
        inputs = {name: value for name, value in inputs.items() if name in self._arguments}
        with self._torch.inference_mode():
            logits = self._model(**inputs, use_cache=False).logits
        self.computed += inputs["input_ids"].numel()
        starts = [sequence.start + shift - kept.start for sequence, shift in zip(batch, shifts, strict=True)]
        return [
            (sequence, row[first : first + len(sequence.tokens) - sequence.start])
            for sequence, row, first in zip(batch, logits, starts, strict=True)
        ]

    def _sum_up(self, sequence: _PlainSequence, logits: Any) -> Iterator[tuple[Loglik, Scored]]:
        """Sum log softmax(logits)[token] over each wanted span, in float32; ``logits`` begin at ``sequence.start``."""
        logits = logits.float()
        totals = logits.logsumexp(dim=-1)
        if not totals.isfinite().all():
            raise invalid_logits(self._name)
        likeliest = logits.argmax(dim=-1)
        for request, index, span in sequence.wanted:
            targets = self._torch.tensor(span.tokens[span.start :], device=logits.device)
            first = span.start - 1 - sequence.start
            found = logits[first:].gather(1, targets[:, None])[:, 0] - totals[first:]
            greedy = bool((likeliest[first : first + len(targets)] == targets).all())
            likelihood = Likelihood(found.double().sum().item(), len(targets), greedy)
            if (scored := request.add(index, likelihood, found.tolist() if request.pieces else ())) is not None:
                yield request.request, scored

    # ---- Generate ----

    def generate(
        self, rows: Sequence[TextInProgress], size: int, limit: int | None, tokenizer: PromptTokenizer
    ) -> Iterator[TextInProgress]:
        """Write the rows to their ends, batch by batch."""
        # RWKV's own generate() gives other texts in a batch than alone (seen with transformers 5.22).
        size = 1 if "state" in self._arguments else min(size, self._max_batch)
        equal_lengths = not self._masks_padding
        batches = deque(split_into_batches(rows, size, limit, equal_lengths=equal_lengths))
        while batches:
            batch = batches.popleft()
            try:
                # generate() works the position ids out from the mask.
                inputs = self._padded([row.prompt for row in batch], "left")
                del inputs["position_ids"]
                write_rows(self._model, inputs, batch, self._name, tokenizer)
                self.computed += inputs["input_ids"].numel()
            except self._torch.OutOfMemoryError as error:
                half = self._halve(len(batch), error)
                restart(batch)
                left = [row for some in (batch, *batches) for row in some]
                batches = deque(split_into_batches(left, half, limit, equal_lengths=equal_lengths))
            else:
                yield from batch


def is_stateful(model: Any) -> bool:
    """Whether a model keeps a state from token to token."""
    return bool(getattr(model, "_is_stateful", False))  # models of remote code may lack it
