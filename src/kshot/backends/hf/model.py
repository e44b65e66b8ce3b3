"""A Hugging Face model in this process: ``hf:PATH_OR_ID``."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from kshot.backends.embedded import FOLDER as EMBEDDED_FOLDER
from kshot.backends.hf import media
from kshot.backends.hf.checking import check_compile, check_options, readable_media
from kshot.backends.hf.context_window import ContextWindow, cuts_left
from kshot.backends.hf.loading import (
    ModelFiles,
    check_deterministic_device,
    check_split,
    choose_dtype,
    load_model,
    machine_facts,
    out_of_memory,
    read_device_map,
    release_deterministic_algorithms,
    require_deterministic_algorithms,
)
from kshot.backends.hf.model_runner import ModelRunner, PaddingSide
from kshot.backends.hf.sampling import generated_response
from kshot.backends.hf.scoring import TokenizedLoglik
from kshot.backends.hf.tokens import PromptTokenizer
from kshot.backends.hf.trie import RowLengths, TokenCounts
from kshot.backends.texts import TextInProgress, replace_surrogates
from kshot.core import hub
from kshot.core.errors import UsageError
from kshot.core.kill_points import reach
from kshot.core.protocols import Abilities, RequestQueue
from kshot.core.records import Generate, Loglik, Request, Response

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


T = TypeVar("T")

# ---- the requests that are computed together: while a GPU works on some, the next are prepared ----

_FIRST_SCORED, _FIRST_WRITTEN = 32, 256
"""The requests of the first chunk: a GPU should start soon, but texts are written in large batches."""
_GROWTH = 2
"""Each chunk is larger by this factor than the one before."""
_MAX_REQUESTS = 1024
"""After a chunk of this size, all waiting requests are taken at once."""
_STEP_ANSWERS = 8
"""Once so many answers are used, a part of the next chunk is prepared."""


class RequestChunks(Generic[T]):
    """Takes chunks of requests from a queue, and has them prepared.

    ``in_steps``: chunks begin small and grow. While the answers to one are used, the next is taken and prepared in
    parts, so that a GPU never waits until a whole chunk is. How large a chunk is depends on the requests and answers,
    never on the clock: equal runs make equal chunks.
    """

    def __init__(self, queue: RequestQueue, prepare: Callable[[Sequence[Request]], list[T]], *, in_steps: bool) -> None:
        self._queue, self._prepare, self._in_steps = queue, prepare, in_steps
        self._size: int | None = _FIRST_SCORED if in_steps else None
        """The size of the next chunk; None: all that wait."""
        self._prepared: list[T] = []
        self._answers = 0

    def next_chunk(self) -> list[T]:
        """Return the next requests, prepared; none if none waits."""
        self._take(self._size)
        chunk, self._prepared = self._prepared, []
        if self._size is not None:
            self._size = _GROWTH * self._size if self._size < _MAX_REQUESTS else None
        return chunk

    def used_answer(self) -> None:
        """Note that an answer is used; now and then, prepare a part of the next chunk."""
        self._answers += 1
        if self._in_steps and self._answers % _STEP_ANSWERS == 0:
            step = len(self._prepared) + _GROWTH * _STEP_ANSWERS
            self._take(step if self._size is None else min(step, self._size))

    def _take(self, size: int | None) -> None:
        """Take requests until the next chunk has this size."""
        wanted = None if size is None else size - len(self._prepared)
        if wanted is not None and wanted <= 0:
            return
        taken = self._queue.take(wanted)
        if self._size is not None and self._size < _FIRST_WRITTEN and not all(isinstance(r, Loglik) for r in taken):
            self._size = _FIRST_WRITTEN
            taken += self._queue.take(_FIRST_WRITTEN - len(self._prepared) - len(taken))
        if taken:
            self._prepared += self._prepare(taken)


# ---- the model ----

_CPU_BATCH_SIZE, _GPU_BATCH_SIZE = 16, 128
"""Texts written together unless ``batch_size`` says otherwise; a GPU writes fewer where its memory is short."""


_Prepared: TypeAlias = "TokenizedLoglik | Generate | tuple[Request, Response]"
"""A request as the model needs it, or with its answer if no model needs to be asked."""


class Transformers:
    """A causal language model and its tokenizer, from a folder or from the Hugging Face hub.

    The tokenizer opens at once. The weights load with the first request, so a run that only reads stored answers never
    loads them. ``add_bos=None`` adds BOS exactly where the tokenizer itself does.
    ``max_length`` is the context window, in tokens (None: that of the configuration). A prompt that does not fit fails,
    or is cut from the left if ``truncate`` is ``"left"``.

    Where the model allows it, waiting requests are computed together as one trie, in rows of ``row_tokens`` (None: 256
    on a CPU, 2,048 on a GPU). Otherwise they are computed in batches of ``batch_size``, padded at ``padding_side``.
    ``device_map`` splits a model over devices, as transformers does: by a name such as ``"auto"``, or by part.
    ``compile`` has torch compile parts of the model for long rows: MLPs, norms, and attention with block masks. None of
    these settings, nor ``device``, changes an answer beyond rounding. With ``batch_size=1`` each request is
    computed by itself. ``deterministic`` does the same at any batch size, tells torch to use deterministic algorithms
    only, and makes the machine part of the fingerprint: answers of one fingerprint are the same to the last bit.
    """

    answers = (Generate, Loglik)

    def __init__(
        self,
        path: str,
        *,
        device: str | None = None,
        device_map: str | Mapping[str, str | int] | None = None,
        dtype: Any = None,
        batch_size: int | None = None,
        deterministic: bool = False,
        chat_template: str | None = None,
        add_bos: bool | None = None,
        max_length: int | None = None,
        truncate: str | None = None,
        padding_side: PaddingSide = "left",
        row_tokens: int | None = None,
        compile: bool = False,  # noqa: A002 - torch's word for it
        revision: str | None = None,
        trust_remote_code: bool = False,
    ) -> None:
        check_options(batch_size=batch_size, row_tokens=row_tokens, max_length=max_length, padding_side=padding_side)
        check_compile(compile, deterministic=deterministic)
        self._device_map = read_device_map(device_map, device=device, deterministic=deterministic)
        self._torch, self._library = hub.import_transformers()
        if path == "embedded":
            path = str(EMBEDDED_FOLDER)
        self._side, self._add_bos, self._given_template = padding_side, add_bos, chat_template
        self._files = ModelFiles(path, revision=revision, trust_remote_code=trust_remote_code)
        self.name = f"hf:{self._files.path}"
        self._config = self._files.open("configuration", self._library.AutoConfig)
        tokenizer = self._files.open("tokenizer", self._library.AutoTokenizer)
        self._device = hub.choose_device(device, self._torch)
        self._dtype = choose_dtype(dtype, self._device, self._config, self._torch)
        self._row_tokens, self._deterministic, self._compiles = row_tokens, deterministic, compile
        self._max_length = max_length
        self._window = ContextWindow(self.name, self.context_limit, self.context_limit, cuts_left(truncate))
        if deterministic:
            check_deterministic_device(self._device, self.name)
            batch_size = 1
        self._batch_size = batch_size or (_GPU_BATCH_SIZE if self._device.type == "cuda" else _CPU_BATCH_SIZE)
        self._eos_ids: frozenset[int] = frozenset()
        self._offloaded: tempfile.TemporaryDirectory[str] | None = None
        self._tokenizer = PromptTokenizer(
            tokenizer, self.name, chat_template=chat_template, add_bos=add_bos, reuse=not deterministic
        )

    # ---- what it is ----

    @property
    def abilities(self) -> Abilities:
        """It can count tokens, and may have a chat template."""
        return Abilities(
            chat_template=bool(self._tokenizer.chat_template),
            count_tokens=self.count_tokens,
            cuts_prompts=self._window.cuts,
            media=media.READABLE if self._reads_images else frozenset(),
            tokens_read=lambda: self.token_counts,
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash of weights, configuration, vocabulary, dtype, chat template and BOS; not of batch size or device.

        With ``deterministic``, also of the machine and of the versions, without which the last digits may differ.
        """
        tokenizer = self._tokenizer
        settings = (str(self._dtype), tokenizer.chat_template, self._add_bos, tokenizer.leading_ids)
        window = {"max_length": self._max_length, "truncate": "left" if self._window.cuts else None}
        chosen: dict[str, Any] = {name: value for name, value in window.items() if value is not None}
        if self._reads_images and self._files.folder is not None:
            chosen["processor"] = media.processor_digest(self._files.folder)
        if self._deterministic:
            lengths = RowLengths(self._device.type, self._row_tokens, alone=True)
            machine = machine_facts(self._device, self._torch, self._library)
            chosen["deterministic"] = [*machine, lengths.row_tokens, lengths.block_tokens]
        return self._files.fingerprint("hf", self._config, *settings, *([chosen] if chosen else []))

    @cached_property
    def context_limit(self) -> int | None:
        """The most tokens that it reads and writes together, if a setting or its configuration says so."""
        config = self._config.get_text_config()
        for name in ("max_position_embeddings", "max_seq_len"):  # configurations differ by architecture
            if isinstance(limit := getattr(config, name, None), int) and limit > 0:
                if self._max_length is not None and self._max_length > limit:
                    what = f"max_length is {self._max_length}, and the model's own window has {limit} tokens"
                    raise UsageError(what, where=self.name)
                return self._max_length or limit
        return self._max_length

    @property
    def token_counts(self) -> TokenCounts:
        """How many tokens were requested of it, and how many it computed."""
        return self._runner.token_counts if "_runner" in vars(self) else TokenCounts()

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about how it worked; nothing if it did not work."""
        return tuple(self._runner.notes) if self.token_counts.requested else ()

    def count_tokens(self, text: str) -> int:
        """Count the tokens of the text itself, without BOS."""
        return len(self._tokenizer.encode(replace_surrogates(text)))

    def close(self) -> None:
        """Give the memory back; a later request loads the weights again."""
        for part in ("_runner", "_image_model", "_model"):
            vars(self).pop(part, None)
        if self._offloaded is not None:
            self._offloaded.cleanup()
        release_deterministic_algorithms(self, self._torch)
        if self._device.type == "cuda":
            self._torch.cuda.empty_cache()

    # ---- serving ----

    def serve(self, queue: RequestQueue, /) -> Iterator[tuple[Request, Response]]:
        """Answer all waiting requests, each as soon as its answer is complete."""
        if "_runner" in vars(self):
            # Rows of an earlier call that was broken off: their requests do not wait any more.
            self._runner.pending.clear()
        chunks = RequestChunks(queue, self._prepared, in_steps=self._device.type == "cuda")
        while True:
            chunk = chunks.next_chunk()
            if not chunk:
                if "_runner" not in vars(self) or not self._runner.pending:
                    return
                yield from self._runner.finish_pending()
                continue
            generations = [request for request in chunk if isinstance(request, Generate)]
            for answers in (
                self._score([each for each in chunk if not isinstance(each, Generate)]),
                self._generate([request for request in generations if not request.prompt.media]),
                (
                    (request, self._image_model.generate(request, self._torch))
                    for request in generations
                    if request.prompt.media
                ),
            ):
                for answer in answers:
                    reach("hf.computed")
                    yield answer
                    chunks.used_answer()

    def _prepared(self, requests: Sequence[Request]) -> list[_Prepared]:
        """Turn requests for likelihoods into tokens, or into answers where that is all they need."""
        scored = [request for request in requests if isinstance(request, Loglik)]
        found: list[_Prepared] = [
            tokenized if isinstance(tokenized, TokenizedLoglik) else (request, tokenized)
            for request, tokenized in self._window.tokenized(scored, self._tokenizer)
        ]
        return [*found, *(request for request in requests if isinstance(request, Generate))]

    @cached_property
    def _reads_images(self) -> bool:
        folder = self._files.folder
        has_processor = folder is None or bool(readable_media(str(folder)))
        return has_processor and media.reads_images(self._config, self._library)

    @cached_property
    def _model(self) -> Any:
        options = {**self._files.options, "dtype": self._dtype}
        if self._device_map is not None:
            self._offloaded = tempfile.TemporaryDirectory(prefix="kshot-weights-")
            options |= {"device_map": self._device_map, "offload_folder": self._offloaded.name}
        if self._reads_images and not media.is_causal(self._config, self._library):
            options["auto_class"] = self._library.AutoModelForImageTextToText
        if self._deterministic:
            require_deterministic_algorithms(self, self._device, self._torch)
        try:
            model = load_model(self._files.path, self._device, self._library, **options)
            if self._device_map is not None:
                check_split(model, self._torch, self.name, self._device_map)
        except self._torch.OutOfMemoryError as error:
            raise out_of_memory(self.name, self._device) from error
        given = model.generation_config.eos_token_id, self._tokenizer.tokenizer.eos_token_id
        lists = (ids if isinstance(ids, list) else [ids] for ids in given)
        self._eos_ids = frozenset(number for ids in lists for number in ids if number is not None)
        # generate() fills what a call leaves open from here: a model's own sampling settings must not get in.
        model.generation_config = self._library.GenerationConfig()
        return model

    @cached_property
    def _runner(self) -> ModelRunner:
        options: Any = {"row_tokens": self._row_tokens, "side": self._side, "alone": self._batch_size == 1}
        return ModelRunner(self._model, self._torch, self.name, compiles=self._compiles, **options)

    def _score(self, prepared: Sequence[_Prepared]) -> Iterator[tuple[Request, Response]]:
        fitting: list[TokenizedLoglik] = []
        for each in prepared:
            if isinstance(each, TokenizedLoglik):
                fitting.append(each)
            elif isinstance(each, tuple):
                yield each
        if fitting:
            yield from self._runner.score(fitting, self._batch_size)

    @cached_property
    def _image_model(self) -> media.ImageModel:
        model = self._model  # loads the weights, and with them the EOS ids
        return media.ImageModel(
            model,
            self._files.open("processor", self._library.AutoProcessor),
            self._tokenizer,
            self._window,
            chat_template=self._given_template,
            add_bos=self._add_bos,
            stop_ids=self._eos_ids,
        )

    def _generate(self, requests: Sequence[Generate]) -> Iterator[tuple[Request, Response]]:
        rows = []
        for request in requests:
            fitting = self._window.fit_prompt(request, self._tokenizer.encode_prompt(request.prompt))
            if isinstance(fitting, TextInProgress):
                rows.append(fitting)
            else:
                yield request, fitting
        if rows:
            runner = self._runner  # loads the weights, and with them the EOS ids
            for row in rows:
                row.stop_ids = self._tokenizer.stop_ids(row.request.stop) | self._eos_ids
            for row in runner.generate(rows, self._batch_size, self.context_limit, self._tokenizer):
                yield row.request, generated_response(row, self._tokenizer)
