"""A Hugging Face model in this process: ``hf:PATH_OR_ID``."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from kshot.backends import hf_loading as loading
from kshot.backends.hf_tokens import Span, Tokens, sound
from kshot.backends.hf_writing import Halt, NextToken, Row, batches, broken, finished
from kshot.errors import BackendError, UsageError
from kshot.records import (
    Failed,
    Generate,
    Generated,
    Likelihood,
    Loglik,
    Request,
    Response,
    Scored,
    Usage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kshot.task import Waiting

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

    tokens: tuple[int, ...]
    rank: tuple[int, int, int]
    wanted: list[tuple[_Sum, int, Span]] = field(default_factory=list)

    @property
    def start(self) -> int:
        """The first position whose prediction is needed."""
        return min(span.start for _, _, span in self.wanted) - 1


class Transformers:
    """A causal language model and its tokenizer, from a folder or from the Hugging Face hub.

    The tokenizer opens at once; the weights when the first request comes, so a run that only re-reads stored answers
    never loads them. Neither ``batch_size`` nor ``padding_side`` nor ``device`` is meant to change an answer.
    ``add_bos=None`` adds BOS exactly where the tokenizer itself does.
    """

    def __init__(
        self,
        path: str,
        *,
        device: str | None = None,
        dtype: Any = None,
        batch_size: int = 16,
        chat_template: str | None = None,
        add_bos: bool | None = None,
        padding_side: Side = "left",
        revision: str | None = None,
        trust_remote_code: bool = False,
    ) -> None:
        if batch_size < 1:
            raise UsageError(f"batch_size is {batch_size}", hint="Use 1 or more.")
        if padding_side not in ("left", "right"):
            raise UsageError(f"padding_side is {padding_side!r}", hint="Use left or right.")
        self._torch, self._library = loading.libraries()
        self._path, self._batch_size, self._side, self._add_bos = str(path), batch_size, padding_side, add_bos
        self._folder = loading.find(self._path)
        if self._folder is not None:
            self._path = str(self._folder)
        self._options: dict[str, Any] = {
            "revision": revision or "main",
            "trust_remote_code": trust_remote_code,
            "local_files_only": self._folder is not None or loading.unreachable(),
        }
        self._config = self._open("configuration", self._library.AutoConfig)
        tokenizer = self._open("tokenizer", self._library.AutoTokenizer)
        self._device = loading.place(device, self._torch)
        self._dtype = loading.precision(dtype, self._device, self._config, self._torch)
        self._ends: frozenset[int] = frozenset()
        self._tokens = Tokens(tokenizer, self.name, chat_template=chat_template, add_bos=add_bos)

    def _open(self, what: str, auto: Any) -> Any:
        return loading.opened(what, self._path, auto.from_pretrained, **self._options)

    # ---- what it is ----

    @property
    def name(self) -> str:
        """The spec that opens this model."""
        return f"hf:{self._path}"

    @property
    def answers(self) -> tuple[type, ...]:
        """It writes and it weighs."""
        return (Generate, Loglik)

    @property
    def has_chat_template(self) -> bool:
        """Whether it can be asked in messages."""
        return bool(self._tokens.chat_source)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of weights, configuration, vocabulary, dtype, chat template and BOS; not of batch size or device."""
        origin = (self._path, self._folder, self._options["revision"], self._config)
        settled = (str(self._dtype), self._tokens.chat_source, self._add_bos, self._tokens.lead)
        return loading.fingerprint("hf", origin, *settled)

    @property
    def context_limit(self) -> int | None:
        """The most tokens it reads and writes together, where its configuration says."""
        config = self._config.get_text_config()
        for name in ("max_position_embeddings", "max_seq_len"):
            if isinstance(limit := getattr(config, name, None), int) and limit > 0:
                return limit
        return None

    def count_tokens(self, text: str) -> int:
        """Tokens of the text itself, BOS not counted."""
        return len(self._tokens.encode(sound(text)))

    # ---- serving ----

    def serve(self, waiting: Waiting, /) -> Iterator[tuple[Request, Response]]:
        """Answer everything that waits, longest first, each request as soon as all of it is known."""
        while taken := waiting.take():
            for request in taken:
                if not isinstance(request, self.answers):
                    raise BackendError(f"cannot answer a {type(request).__name__}", where=self.name)
            yield from self._weigh([request for request in taken if isinstance(request, Loglik)])
            yield from self._write([request for request in taken if isinstance(request, Generate)])

    @cached_property
    def _model(self) -> Any:
        options = {**self._options, "dtype": self._dtype}
        with self._memory():
            model = loading.load_model(self._path, self._device, self._library, **options)
        given = model.generation_config.eos_token_id, self._tokens.tokenizer.eos_token_id
        lists = (item if isinstance(item, list) else [item] for item in given)
        self._ends = frozenset(one for numbers in lists for one in numbers if one is not None)
        # generate() fills what a call leaves open from here: a model's own sampling settings must not get in.
        model.generation_config = self._library.GenerationConfig()
        return model

    @cached_property
    def _takes(self) -> frozenset[str]:
        return frozenset(inspect.signature(self._model.forward).parameters)

    def _too_long(self, count: int, what: str) -> Failed:
        return Failed("too_long", f"{what} has {count} tokens; {self.name} takes {self.context_limit}")

    def _padded(self, sequences: Sequence[Sequence[int]], side: Side) -> dict[str, Any]:
        """Tensors of equal length: tokens, attention mask, and positions that count from the first real token."""
        width = max(map(len, sequences))
        ids = self._torch.zeros((len(sequences), width), dtype=self._torch.long)
        mask = self._torch.zeros_like(ids)
        for index, sequence in enumerate(sequences):
            place = slice(width - len(sequence), None) if side == "left" else slice(len(sequence))
            ids[index, place] = self._torch.tensor(sequence)
            mask[index, place] = 1
        if (most := int(ids.max())) >= (rows := self._model.get_input_embeddings().weight.shape[0]):
            what = f"the tokenizer gave token {most} and the model knows {rows}"
            raise BackendError(what, where=self.name, hint="The tokenizer is another model's: put the right one there.")
        tensors = {"input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(-1) - 1).clamp(min=0)}
        return {name: tensor.to(self._device) for name, tensor in tensors.items()}

    def _run(self, function: Any, **inputs: Any) -> Any:
        with self._memory(), self._torch.inference_mode():
            return function(**inputs)

    @contextmanager
    def _memory(self) -> Iterator[None]:
        try:
            yield
        except self._torch.OutOfMemoryError as error:
            hint = f"Use a batch size under {self._batch_size}, or a smaller dtype."
            raise BackendError(f"out of memory on {self._device}", where=self.name, hint=hint) from error

    # ---- Loglik ----

    def _weigh(self, requests: Sequence[Loglik]) -> Iterator[tuple[Request, Response]]:
        readings: dict[tuple[int, ...], _Reading] = {}
        for number, request in enumerate(requests):
            if not request.continuations:
                yield request, Scored(())
                continue
            spans = self._tokens.spans(request.prompt, request.continuations)
            longest = max(len(span.tokens) for span in spans)
            if self.context_limit is not None and longest > self.context_limit:
                yield request, self._too_long(longest, "the prompt with its continuation")
                continue
            entry = _Sum(request)
            for index, span in enumerate(spans):
                # The last token is predicted and never read, so all one-token continuations share one sequence.
                key = span.tokens[:-1]
                rank = (-longest, number, -len(key))
                readings.setdefault(key, _Reading(key, rank)).wanted.append((entry, index, span))
        # Longest request first, its options together: it is answered, and journalled, before the next one begins.
        ordered = sorted(readings.values(), key=lambda reading: reading.rank)
        for at in range(0, len(ordered), self._batch_size):
            yield from self._read(ordered[at : at + self._batch_size])

    def _read(self, batch: Sequence[_Reading]) -> Iterator[tuple[Request, Response]]:
        inputs = self._padded([reading.tokens for reading in batch], self._side)
        model = self._model
        width = inputs["input_ids"].shape[1]
        shifts = [width - len(reading.tokens) if self._side == "left" else 0 for reading in batch]
        kept = range(width)
        if "logits_to_keep" in self._takes:
            # Logits are wide; ask for the columns that some row needs and no others.
            stretches = zip(batch, shifts, strict=True)
            needed = {at + shift for reading, shift in stretches for at in range(reading.start, len(reading.tokens))}
            kept = range(min(needed), max(needed) + 1)
            inputs["logits_to_keep"] = self._torch.arange(kept.start, kept.stop, device=self._device)
        inputs = {name: tensor for name, tensor in inputs.items() if name in self._takes}
        logits = self._run(model, **inputs, use_cache=False).logits
        for row, reading, shift in zip(logits, batch, shifts, strict=True):
            first = reading.start + shift - kept.start
            yield from self._sum_up(reading, row[first : first + len(reading.tokens) - reading.start])

    def _sum_up(self, reading: _Reading, logits: Any) -> Iterator[tuple[Request, Response]]:
        """Σ log softmax(logits)[token] over each wanted span, in float32; ``logits`` begin at the reading's start."""
        logits = logits.float()
        totals = logits.logsumexp(dim=-1)
        if not totals.isfinite().all():
            raise broken(self.name)
        for entry, index, span in reading.wanted:
            targets = self._torch.tensor(span.tokens[span.start :], device=logits.device)
            first = span.start - 1 - reading.start
            found = logits[first:].gather(1, targets[:, None])[:, 0] - totals[first:]
            entry.found[index] = Likelihood(found.double().sum().item(), len(targets))
            if whole := entry.whole:
                yield entry.request, whole

    # ---- Generate ----

    def _write(self, requests: Sequence[Generate]) -> Iterator[tuple[Request, Response]]:
        rows, limit = [], self.context_limit
        for request in requests:
            prompt = self._tokens.read(request.prompt)
            if limit is not None and len(prompt) + 1 > limit:
                yield request, self._too_long(len(prompt), "the prompt")
            elif request.max_tokens < 1:
                yield request, Generated("", "length", Usage(len(prompt), 0))
            else:
                room = request.max_tokens if limit is None else min(request.max_tokens, limit - len(prompt))
                rows.append(Row(request, prompt, room, self._tokens.ends(request.stop)))
        for batch in batches(rows, self._batch_size, limit):
            yield from self._continue(batch)

    def _continue(self, batch: list[Row]) -> Iterator[tuple[Request, Response]]:
        model = self._model
        for row in batch:
            row.ends |= self._ends
        # generate() works out position ids from the mask by itself.
        inputs = self._padded([row.prompt for row in batch], "left")
        width = inputs["input_ids"].shape[1]
        del inputs["position_ids"]
        settings = self._library.GenerationConfig(
            do_sample=False, num_beams=1, max_new_tokens=max(row.room for row in batch), pad_token_id=0
        )
        written = self._run(
            model.generate,
            **inputs,
            generation_config=settings,
            logits_processor=[NextToken(batch, width, self.name)],
            stopping_criteria=[Halt(batch, width, self._tokens)],
        )
        for row, told in zip(batch, written[:, width:].tolist(), strict=True):
            yield row.request, finished(row, told[: row.length], self._tokens)
