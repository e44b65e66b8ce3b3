"""Messages as the two APIs take them: texts as they are, images, sound and video as parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kshot.backends.texts import valid_content
from kshot.core.content import MediaPart, TextPart, media_type
from kshot.core.records import Message, Prompt

_SOUND_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
"""The sounds that OpenAI's own API takes, and what it calls them; others go as servers such as vLLM take them."""


def openai_messages(prompt: Prompt) -> list[dict[str, Any]]:
    """Return the messages of a chat as OpenAI's API takes them."""
    return [_message(message, _openai_media) for message in prompt.messages]


def _openai_media(part: MediaPart) -> dict[str, Any]:
    if part.kind == "audio" and not part.url and part.mime in _SOUND_FORMATS:
        return {"type": "input_audio", "input_audio": {"data": part.encoded, "format": _SOUND_FORMATS[part.mime]}}
    name = f"{part.kind}_url"
    detail = {"detail": part.detail} if part.detail else {}
    return {"type": name, name: {"url": part.data_url, **detail}}


def anthropic_messages(prompt: Prompt) -> list[dict[str, Any]]:
    """Return the messages of a chat as Anthropic's API takes them; system messages go elsewhere."""
    return [_message(message, _anthropic_image) for message in prompt.messages if message.role != "system"]


def _anthropic_image(part: MediaPart) -> dict[str, Any]:
    """Return an image as the API takes it; it is refused if its type is not that of its bytes.

    Other kinds do not come here: see ``Abilities.media``.
    """
    source = (
        {"type": "url", "url": part.url}
        if part.url
        else {"type": "base64", "media_type": media_type(part.data) or part.mime, "data": part.encoded}
    )
    return {"type": part.kind, "source": source}


def _message(message: Message, media: Callable[[MediaPart], dict[str, Any]]) -> dict[str, Any]:
    """Return a message without lone surrogates; ``media`` writes its images, sounds and files as the API wants them."""
    content = valid_content(message.content)
    if isinstance(content, str):
        return {"role": message.role, "content": content}
    parts = [
        {"type": "text", "text": part.text} if isinstance(part, TextPart) else media(part)
        for part in content
        if not isinstance(part, TextPart) or part.text  # the APIs refuse empty texts among parts
    ]
    return {"role": message.role, "content": parts}
