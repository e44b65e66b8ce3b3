"""Prompts with images for Hugging Face models that have a processor for them: one request at a time."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kshot.backends.hf.checking import PROCESSOR_FILES
from kshot.backends.hf.context_window import ContextWindow
from kshot.backends.hf.loading import input_device, out_of_memory
from kshot.backends.hf.sampling import generated_response, write_rows
from kshot.backends.hf.tokens import PromptTokenizer, own_renderer
from kshot.backends.texts import TextInProgress, valid_message
from kshot.core.content import TextPart
from kshot.core.errors import BackendError
from kshot.core.extras import importing
from kshot.core.records import Failed, Generate, Message, Response
from kshot.prompts.chat import TEMPLATE_FAULTS, Renderer, opened_text, renderer

if TYPE_CHECKING:
    from PIL.Image import Image

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
        self._render = self._renderer(chat_template)

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

    def _renderer(self, given: str | None) -> Renderer:
        if given is not None:
            own = self._tokenizer.tokenizer
            return renderer(given, own.bos_token or "", own.eos_token or "")
        if not self._processor.chat_template:
            raise BackendError(
                "its processor has no chat template, and the prompts have images",
                where=self._window.name,
                hint="Give a template with --chat-template FILE.",
            )
        return own_renderer(self._processor, _as_parts)


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
