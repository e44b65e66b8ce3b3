"""Plain batches, for models that cannot be tree-packed: sequences padded to one length, and ``generate``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kshot.backends.hf.encoding import Ids
from kshot.backends.hf.sampling import Halt, NextToken, Row, batches, begin_again, broken
from kshot.backends.hf.scoring import Question
from kshot.backends.hf.tokens import Span, Tokens
from kshot.core.errors import BackendError
from kshot.core.records import Likelihood, Loglik, Scored

Side = Literal["left", "right"]


@dataclass(slots=True)
class _Sum:
    """A Loglik request whose continuations come in one by one."""

    request: Loglik
    found: dict[int, Likelihood] = field(default_factory=dict)

    @property
    def whole(self) -> Scored | None:
        count = len(self.request.continuations)
        return Scored(tuple(self.found[index] for index in range(count))) if len(self.found) == count else None


@dataclass(slots=True)
class _Reading:
    """One sequence to run, without its last token, and the continuations that it answers."""

    tokens: Ids
    rank: tuple[int, int, int]
    wanted: list[tuple[_Sum, int, Span]] = field(default_factory=list)

    @property
    def start(self) -> int:
        """The first position whose prediction is needed."""
        return min(span.start for _, _, span in self.wanted) - 1


class Plain:
    """A model run on batches of padded sequences."""

    def __init__(self, model: Any, torch: Any, name: str, *, takes: frozenset[str], side: Side) -> None:
        self._model, self._torch, self._name, self._takes = model, torch, name, takes
        # A model with a state may read the padding too, whatever the mask: there it must come last, or not at all.
        self._masks = "attention_mask" in takes and not getattr(model, "_is_stateful", False)
        self._side: Side = side if self._masks else "right"
        self._most = 1 << 30
        self.computed = 0

    def _padded(self, sequences: Sequence[Sequence[int] | Ids], side: Side) -> dict[str, Any]:
        """Tensors of equal length: tokens, attention mask, and positions that count from the first real token."""
        width = max(map(len, sequences))
        ids = self._torch.zeros((len(sequences), width), dtype=self._torch.long)
        mask = self._torch.zeros_like(ids)
        for index, sequence in enumerate(sequences):
            place = slice(width - len(sequence), None) if side == "left" else slice(len(sequence))
            ids[index, place] = self._torch.as_tensor(sequence)
            mask[index, place] = 1
        tensors = {"input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(-1) - 1).clamp(min=0)}
        return {name: tensor.to(self._model.device) for name, tensor in tensors.items()}

    def _halved(self, size: int, error: Exception) -> int:
        """After out of memory: half as many together, from now on."""
        if size <= 1:
            hint = "Use a smaller dtype, or a device with more memory."
            raise BackendError(f"out of memory on {self._model.device}", where=self._name, hint=hint) from error
        self._most = size // 2
        if self._model.device.type == "cuda":
            self._torch.cuda.empty_cache()
        return self._most

    # ---- Loglik ----

    def scored(self, questions: Sequence[Question], size: int) -> Iterator[tuple[Loglik, Scored]]:
        """Answer in batches of ``size`` sequences, the longest first, each question as soon as all of it is known."""
        readings: dict[bytes, _Reading] = {}
        for number, question in enumerate(questions):
            entry, longest = _Sum(question.request), question.longest
            for index, span in enumerate(question.spans):
                # The last token is predicted and never read, so all one-token continuations share one sequence.
                read = span.ids[:-1]
                rank = (-longest, number, -len(read))
                readings.setdefault(read.tobytes(), _Reading(read, rank)).wanted.append((entry, index, span))
        # Longest request first, its options together: it is answered, and journalled, before the next one begins.
        ordered = sorted(readings.values(), key=lambda reading: reading.rank)
        at = 0
        while at < len(ordered):
            batch = ordered[at : at + min(size, self._most)]
            try:
                found = self._read(batch)
            except self._torch.OutOfMemoryError as error:
                self._halved(len(batch), error)
                continue
            while found:  # and no longer held than needed: logits are wide
                yield from self._sum_up(*found.pop(0))
            at += len(batch)

    def _read(self, batch: Sequence[_Reading]) -> list[tuple[_Reading, Any]]:
        """The logits that each reading of a batch needs."""
        inputs = self._padded([reading.tokens for reading in batch], self._side)
        width = inputs["input_ids"].shape[1]
        shifts = [width - len(reading.tokens) if self._side == "left" else 0 for reading in batch]
        kept = range(width)
        if "logits_to_keep" in self._takes:
            # Logits are wide; ask for the columns that some row needs and no others.
            stretches = zip(batch, shifts, strict=True)
            needed = {at + shift for reading, shift in stretches for at in range(reading.start, len(reading.tokens))}
            kept = range(min(needed), max(needed) + 1)
            inputs["logits_to_keep"] = self._torch.arange(kept.start, kept.stop, device=self._model.device)
        inputs = {name: tensor for name, tensor in inputs.items() if name in self._takes}
        with self._torch.inference_mode():
            logits = self._model(**inputs, use_cache=False).logits
        self.computed += inputs["input_ids"].numel()
        starts = [reading.start + shift - kept.start for reading, shift in zip(batch, shifts, strict=True)]
        return [
            (reading, row[first : first + len(reading.tokens) - reading.start])
            for reading, row, first in zip(batch, logits, starts, strict=True)
        ]

    def _sum_up(self, reading: _Reading, logits: Any) -> Iterator[tuple[Loglik, Scored]]:
        """Σ log softmax(logits)[token] over each wanted span, in float32; ``logits`` begin at the reading's start."""
        logits = logits.float()
        totals = logits.logsumexp(dim=-1)
        if not totals.isfinite().all():
            raise broken(self._name)
        for entry, index, span in reading.wanted:
            targets = self._torch.tensor(span.tokens[span.start :], device=logits.device)
            first = span.start - 1 - reading.start
            found = logits[first:].gather(1, targets[:, None])[:, 0] - totals[first:]
            entry.found[index] = Likelihood(found.double().sum().item(), len(targets))
            if whole := entry.whole:
                yield entry.request, whole

    # ---- Generate ----

    def written(self, rows: Sequence[Row], size: int, limit: int | None, tokens: Tokens) -> Iterator[Row]:
        """Write the rows to their ends, batch by batch."""
        # RWKV's own generate() gives other texts in a batch than alone (seen with transformers 5.22).
        size = 1 if "state" in self._takes else min(size, self._most)
        todo = deque(batches(rows, size, limit, equal=not self._masks))
        while todo:
            batch = todo.popleft()
            try:
                self._generate(batch, tokens)
            except self._torch.OutOfMemoryError as error:
                half = self._halved(len(batch), error)
                begin_again(batch)
                left = [row for some in (batch, *todo) for row in some]
                todo = deque(batches(left, half, limit, equal=not self._masks))
            else:
                yield from batch

    def _generate(self, batch: Sequence[Row], tokens: Tokens) -> None:
        from transformers import GenerationConfig

        # generate() works out position ids from the mask by itself.
        inputs = self._padded([row.prompt for row in batch], "left")
        width = inputs["input_ids"].shape[1]
        del inputs["position_ids"]
        settings = GenerationConfig(
            do_sample=False, num_beams=1, max_new_tokens=max(row.room for row in batch), pad_token_id=0
        )
        with self._torch.inference_mode():
            self._model.generate(
                **inputs,
                generation_config=settings,
                logits_processor=[NextToken(batch, width, self._name)],
                stopping_criteria=[Halt(batch, tokens)],
            )
        self.computed += inputs["input_ids"].numel()
