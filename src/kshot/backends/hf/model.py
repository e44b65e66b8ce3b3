"""A Hugging Face model in this process: ``hf:PATH_OR_ID``."""

from __future__ import annotations

import hashlib
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from kshot.backends.embedded import FOLDER as EMBEDDED_FOLDER
from kshot.backends.hf.loading import (
    PROCESSOR_FILES,
    ModelFiles,
    check_options,
    check_split,
    choose_dtype,
    input_device,
    load_model,
    machine_facts,
    out_of_memory,
    read_device_map,
    readable_media,
    release_deterministic_algorithms,
    require_deterministic_algorithms,
)
from kshot.backends.hf.model_runner import ModelRunner, PaddingSide
from kshot.backends.hf.sampling import generated_response, write_rows
from kshot.backends.hf.tokens import ContextWindow, PromptTokenizer, TokenizedLoglik, chosen_renderer
from kshot.backends.hf.trie import RowLengths, TokenCounts
from kshot.backends.texts import TextInProgress, cuts_left, replace_surrogates, valid_message
from kshot.core import hub
from kshot.core.content import TextPart
from kshot.core.errors import BackendError, UsageError
from kshot.core.extras import importing
from kshot.core.kill_points import reach
from kshot.core.protocols import Abilities, RequestQueue
from kshot.core.records import Failed, Generate, Loglik, Message, Request, Response
from kshot.prompts.chat import TEMPLATE_FAULTS, opened_text

if TYPE_CHECKING:
    from PIL.Image import Image


# ---- prompts with images, for models that have a processor for them: one request at a time ----

READABLE = frozenset({"image"})
"""What processors read here beside text."""


# transformers has no other way to ask which classes a configuration has.


def reads_images(config: Any, transformers: Any) -> bool:
    """Whether a model writes text after images and text, and the class that reads text reads images too."""
    images = transformers.AutoModelForImageTextToText._model_mapping  # noqa: SLF001 - as above
    texts = transformers.AutoModelForCausalLM._model_mapping  # noqa: SLF001 - as above
    kind = type(config)
    return kind in images and (kind not in texts or images[kind] is texts[kind])


def is_causal(config: Any, transformers: Any) -> bool:
    """Whether transformers counts a model among those that read and write text alone."""
    return type(config) in transformers.AutoModelForCausalLM._model_mapping  # noqa: SLF001 - as above


def processor_digest(folder: Path) -> str:
    """Hash how images become numbers: the same weights read them differently by another processor."""
    total = hashlib.blake2b(digest_size=16)
    for name in PROCESSOR_FILES:
        file = folder / name
        total.update(f"{name}\0{hashlib.blake2b(file.read_bytes()).hexdigest() if file.is_file() else ''}\n".encode())
    return total.hexdigest()


class ImageModel:
    """A model that reads images, with its processor.

    ``chat_template``: the user's own; without it the processor's is used. ``add_bos=False`` leaves BOS out; otherwise
    the processor decides, as it does for everybody: BOS is added unless the template has written it.
    """

    def __init__(
        self,
        model: Any,
        processor: Any,
        tokenizer: PromptTokenizer,
        window: ContextWindow,
        *,
        chat_template: str | None,
        add_bos: bool | None,
        stop_ids: frozenset[int],
    ) -> None:
        self._model, self._processor, self._tokenizer, self._window = model, processor, tokenizer, window
        self._add_bos, self._stop_ids = add_bos, stop_ids
        render = chosen_renderer(chat_template, tokenizer.tokenizer, processor, _as_parts)
        if render is None:
            raise BackendError(
                "its processor has no chat template, and the prompts have images",
                where=window.name,
                hint="Give a template with --chat-template FILE.",
            )
        self._render = render

    def generate(self, request: Generate, torch: Any) -> Response:
        """Write a text after a prompt with images; one that cannot be read, or does not fit, is a failure."""
        try:
            images = [_opened(part.data) for part in request.prompt.media]
        except _unreadable() as exc:
            names = ", ".join(part.shown for part in request.prompt.media)
            return Failed("unreadable_image", f"{names} cannot be opened: {type(exc).__name__}: {exc}")
        messages = [valid_message(message) for message in request.prompt.messages]
        inputs = self._inputs(opened_text(request.prompt, messages, self._render), images)
        prompt = tuple(inputs["input_ids"][0].tolist())
        row = self._window.fit_prompt(request, prompt)
        if not isinstance(row, TextInProgress):
            return row
        if row.cut_tokens:
            return Failed("too_long", f"the prompt has {len(prompt)} tokens, and one with images cannot be cut")
        row.stop_ids = self._tokenizer.stop_ids(request.stop) | self._stop_ids
        try:
            self._write(row, inputs.to(input_device(self._model, torch)), torch)
        except torch.OutOfMemoryError as error:
            raise out_of_memory(self._window.name, self._model.device) from error
        except ValueError as exc:  # transformers says so where a template has no place for an image
            what = f"it cannot read a prompt with {len(images)} images: {exc}"
            raise BackendError(what, where=self._window.name, hint="Check its chat template.") from exc
        return generated_response(row, self._tokenizer)

    def _write(self, row: TextInProgress, inputs: Any, torch: Any) -> None:
        for name, value in inputs.items():
            if torch.is_tensor(value) and value.is_floating_point():
                inputs[name] = value.to(self._model.dtype)
        write_rows(self._model, inputs, [row], self._window.name, self._tokenizer)

    # ---- what the model reads ----

    def _inputs(self, text: str, images: Sequence[Image]) -> Any:
        bos = getattr(self._processor.tokenizer, "bos_token", None)  # not every tokenizer has one
        special = self._add_bos is not False and not (bos and text.startswith(bos))
        try:
            return self._processor(text=[text], images=[*images], return_tensors="pt", add_special_tokens=special)
        except TEMPLATE_FAULTS as exc:
            raise BackendError(f"its processor cannot read a prompt: {exc}", where=self._window.name) from exc


def _as_parts(message: Message) -> Message:
    """Return a message whose content is parts: templates of processors go through these, in every message."""
    content = message.content
    return Message(message.role, (TextPart(content),)) if isinstance(content, str) else message


def _pillow() -> Any:
    with importing("a prompt with images", "pillow"):
        from PIL import Image
    return Image


def _opened(data: bytes) -> Image:
    """Return the picture that bytes hold. One with too many points is refused: it would fill the memory."""
    pillow = _pillow()
    with warnings.catch_warnings():
        warnings.simplefilter("error", pillow.DecompressionBombWarning)
        image: Image = pillow.open(BytesIO(data))
        return image.convert("RGB")


def _unreadable() -> tuple[type[BaseException], ...]:
    pillow = _pillow()
    bombs = (pillow.DecompressionBombError, pillow.DecompressionBombWarning)
    return (OSError, ValueError, SyntaxError, *bombs)


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
        sizes: Any = {"batch_size": batch_size, "row_tokens": row_tokens, "max_length": max_length}
        check_options(**sizes, padding_side=padding_side, compile=compile, deterministic=deterministic)
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
            if self._device.type not in ("cpu", "cuda"):
                what = f"deterministic cannot be promised on the device {self._device}"
                raise UsageError(what, where=self.name, hint="Use cpu or cuda.")
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
            media=READABLE if self._reads_images else frozenset(),
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
            chosen["processor"] = processor_digest(self._files.folder)
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
        return has_processor and reads_images(self._config, self._library)

    @cached_property
    def _model(self) -> Any:
        options = {**self._files.options, "dtype": self._dtype}
        if self._device_map is not None:
            self._offloaded = tempfile.TemporaryDirectory(prefix="kshot-weights-")
            options |= {"device_map": self._device_map, "offload_folder": self._offloaded.name}
        if self._reads_images and not is_causal(self._config, self._library):
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
    def _image_model(self) -> ImageModel:
        model = self._model  # loads the weights, and with them the EOS ids
        return ImageModel(
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
