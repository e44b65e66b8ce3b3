"""A Hugging Face model in this process: ``hf:PATH_OR_ID``."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from kshot.backends.embedded import FOLDER as EMBEDDED_FOLDER
from kshot.backends.hf import loading
from kshot.backends.hf.computer import Computer
from kshot.backends.hf.plain_batches import Side
from kshot.backends.hf.sampling import Row, finished
from kshot.backends.hf.scoring import Question
from kshot.backends.hf.tokens import Tokens
from kshot.backends.hf.trie import Work
from kshot.backends.texts import replace_surrogates
from kshot.core import hub
from kshot.core.errors import BackendError, UsageError
from kshot.core.protocols import Abilities, RequestQueue
from kshot.core.records import Failed, Generate, Generated, Loglik, Request, Response, Scored, Usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_TOGETHER = 16
"""Texts written together, where nothing else is said; on a GPU eight times as many, as far as its memory goes."""
_FIRST, _WHOLE = 256, 1024
"""Requests taken at first, and from when on all that wait are taken."""


class Transformers:
    """A causal language model and its tokenizer, from a folder or from the Hugging Face hub.

    The tokenizer opens at once; the weights when the first request comes, so a run that only re-reads stored answers
    never loads them. ``add_bos=None`` adds BOS exactly where the tokenizer itself does.

    What waits together is computed as one trie, in rows of ``row_tokens`` (None: tried out), where the model allows it;
    else in batches of ``batch_size``, padded at ``padding_side``. None of these, nor ``device``, is meant to change an
    answer beyond rounding. With ``batch_size=1`` each request is computed by itself, so not even that.
    """

    def __init__(
        self,
        path: str,
        *,
        device: str | None = None,
        dtype: Any = None,
        batch_size: int | None = None,
        chat_template: str | None = None,
        add_bos: bool | None = None,
        padding_side: Side = "left",
        row_tokens: int | None = None,
        revision: str | None = None,
        trust_remote_code: bool = False,
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise UsageError(f"batch_size is {batch_size}", hint="Use 1 or more.")
        if row_tokens is not None and row_tokens < 1:
            raise UsageError(f"row_tokens is {row_tokens}", hint="Use 1 or more, or leave it out.")
        if padding_side not in ("left", "right"):
            raise UsageError(f"padding_side is {padding_side!r}", hint="Use left or right.")
        self._torch, self._library = hub.import_transformers()
        if path == "embedded":
            path = str(EMBEDDED_FOLDER)
        self._path, self._side, self._add_bos = str(path), padding_side, add_bos
        self._folder = hub.find_model_folder(self._path)
        if self._folder is not None:
            self._path = str(self._folder)
        self._options: dict[str, Any] = {
            "revision": revision or "main",
            "trust_remote_code": trust_remote_code,
            "local_files_only": self._folder is not None or hub.hub_is_unreachable(),
        }
        self._config = self._open("configuration", self._library.AutoConfig)
        tokenizer = self._open("tokenizer", self._library.AutoTokenizer)
        self._device = hub.choose_device(device, self._torch)
        self._dtype = loading.choose_dtype(dtype, self._device, self._config, self._torch)
        self._row_tokens = row_tokens
        self._batch_size = batch_size or (8 * _TOGETHER if self._device.type == "cuda" else _TOGETHER)
        self._ends: frozenset[int] = frozenset()
        self._tokens = Tokens(tokenizer, self.name, chat_template=chat_template, add_bos=add_bos)

    def _open(self, what: str, auto: Any) -> Any:
        return hub.open_pretrained(what, self._path, auto.from_pretrained, **self._options)

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
    def abilities(self) -> Abilities:
        """It can count tokens, and may bring a chat template."""
        return Abilities(chat_template=bool(self._tokens.chat_source), count_tokens=self.count_tokens)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of weights, configuration, vocabulary, dtype, chat template and BOS; not of batch size or device."""
        origin = (self._path, self._folder, self._options["revision"], self._config)
        settled = (str(self._dtype), self._tokens.chat_source, self._add_bos, self._tokens.lead)
        return loading.model_fingerprint("hf", origin, *settled)

    @cached_property
    def context_limit(self) -> int | None:
        """The most tokens it reads and writes together, where its configuration says."""
        config = self._config.get_text_config()
        for name in ("max_position_embeddings", "max_seq_len"):
            if isinstance(limit := getattr(config, name, None), int) and limit > 0:
                return limit
        return None

    @property
    def work(self) -> Work:
        """What was asked of it and what it computed, in tokens read."""
        return self._computer.work if "_computer" in vars(self) else Work()

    @property
    def notes(self) -> tuple[str, ...]:
        """What to tell the user of how it worked; nothing where it did not."""
        work = self.work
        return (*self._computer.notes, f"{self.name} {work}") if work.requested else ()

    def count_tokens(self, text: str) -> int:
        """Tokens of the text itself, BOS not counted."""
        return len(self._tokens.encode(replace_surrogates(text)))

    def close(self) -> None:
        """Give the memory back; what is asked after this loads the weights again."""
        for part in ("_computer", "_model"):
            vars(self).pop(part, None)
        if self._device.type == "cuda":
            self._torch.cuda.empty_cache()

    # ---- serving ----

    def serve(self, waiting: RequestQueue, /) -> Iterator[tuple[Request, Response]]:
        """Answer everything that waits, each request as soon as all of it is known."""
        if "_computer" in vars(self):
            # Left from a serving that was broken off: nobody waits for it any more.
            self._computer.under_way.clear()
        # A GPU is to begin soon, and works on one helping while the next, twice as large, is made and tokenised.
        helping: int | None = _FIRST if self._device.type == "cuda" else None
        while True:
            taken = waiting.take(helping)
            helping = 2 * helping if helping is not None and helping < _WHOLE else None
            if not taken:
                if "_computer" not in vars(self) or not self._computer.under_way:
                    return
                yield from self._computer.settled()
                continue
            for request in taken:
                if not isinstance(request, self.answers):
                    raise BackendError(f"cannot answer a {type(request).__name__}", where=self.name)
            yield from self._weigh([request for request in taken if isinstance(request, Loglik)])
            yield from self._write([request for request in taken if isinstance(request, Generate)])

    @cached_property
    def _model(self) -> Any:
        options = {**self._options, "dtype": self._dtype}
        try:
            model = loading.load_model(self._path, self._device, self._library, **options)
        except self._torch.OutOfMemoryError as error:
            hint = "Use a smaller dtype, or a device with more memory."
            raise BackendError(f"out of memory on {self._device}", where=self.name, hint=hint) from error
        given = model.generation_config.eos_token_id, self._tokens.tokenizer.eos_token_id
        lists = (item if isinstance(item, list) else [item] for item in given)
        self._ends = frozenset(one for numbers in lists for one in numbers if one is not None)
        # generate() fills what a call leaves open from here: a model's own sampling settings must not get in.
        model.generation_config = self._library.GenerationConfig()
        return model

    @cached_property
    def _computer(self) -> Computer:
        model, side = self._model, self._side
        return Computer(model, self._torch, self.name, row_tokens=self._row_tokens, side=side)

    def _too_long(self, count: int, what: str) -> Failed:
        return Failed("too_long", f"{what} has {count} tokens; {self.name} takes {self.context_limit}")

    def _weigh(self, requests: Sequence[Loglik]) -> Iterator[tuple[Request, Response]]:
        questions: list[Question] = []
        some = [request for request in requests if request.continuations]
        yield from ((request, Scored(())) for request in requests if not request.continuations)
        spans = self._tokens.all_spans([(request.prompt, request.continuations) for request in some])
        for question in map(Question, some, spans):
            if self.context_limit is not None and question.longest > self.context_limit:
                yield question.request, self._too_long(question.longest, "the prompt with its continuation")
            else:
                questions.append(question)
        if questions:
            yield from self._computer.score(questions, self._batch_size)

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
        if rows:
            computer = self._computer
            for row in rows:
                row.ends |= self._ends
            for row in computer.write(rows, self._batch_size, limit, self._tokens):
                yield row.request, finished(row, self._tokens)
