"""What a message holds besides text: images, sound and video, each known by the digest of its bytes.

A part that is an address (``url``) has no bytes here: the server behind a model fetches it, and kshot never does.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

MediaKind: TypeAlias = Literal["image", "audio", "video"]
MEDIA_KINDS: tuple[MediaKind, ...] = ("image", "audio", "video")

BY_ADDRESS = "url"
"""Among the abilities of a model: it takes parts that are an address, and fetches them itself."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """A text among other parts of a message."""

    text: str


@dataclass(frozen=True, slots=True)
class MediaPart:
    """An image, a sound or a video: its bytes, or the address where a server finds them.

    ``frames`` are the bytes: one piece, or the pictures of a video that is sent as pictures. Two parts are equal if
    what is sent is equal; ``name`` is for people alone. ``detail`` is OpenAI's option of an image.
    """

    kind: MediaKind
    mime: str
    digest: str
    size: int = 0
    url: str = ""
    detail: str = ""
    name: str = field(default="", compare=False)
    frames: tuple[bytes, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def of_bytes(cls, kind: MediaKind, mime: str, *frames: bytes, detail: str = "", name: str = "") -> MediaPart:
        """Make a part of bytes, or of the pictures of a video."""
        state = hashlib.blake2b(digest_size=16)
        for frame in frames:
            state.update(frame if len(frames) == 1 else hashlib.blake2b(frame, digest_size=16).digest())
        size = sum(map(len, frames))
        return cls(kind, mime, state.hexdigest(), size, detail=detail, name=name, frames=frames)

    @classmethod
    def of_url(cls, kind: MediaKind, url: str, *, detail: str = "") -> MediaPart:
        """Make a part of an address."""
        mark = hashlib.blake2b(url.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        return cls(kind, "", mark, url=url, detail=detail)

    @property
    def data(self) -> bytes:
        """The bytes of a part that is one piece."""
        return self.frames[0] if len(self.frames) == 1 else b"".join(self.frames)

    @property
    def encoded(self) -> str:
        """The bytes as base64; pictures of a video are separated by commas."""
        return ",".join(base64.b64encode(frame).decode("ascii") for frame in self.frames)

    @property
    def data_url(self) -> str:
        """The part as servers take it: its address, or its bytes as a data URL."""
        return self.url or f"data:{self.mime};base64,{self.encoded}"

    @property
    def shown(self) -> str:
        """The part in words: what it is, its name, type, size and the beginning of its digest."""
        if self.url:
            return f"[{self.kind} {self.url[:200]}]"
        pictures = f"{len(self.frames)} pictures" if len(self.frames) > 1 else ""
        told = [self.name, self.mime, pictures, f"{self.size:,} bytes", self.digest[:12]]
        return f"[{self.kind} {' · '.join(each for each in told if each)}]"


Part: TypeAlias = TextPart | MediaPart
Content: TypeAlias = str | tuple[Part, ...]
"""What a message says: a text, or parts in the order in which the model reads them."""


def content_text(content: Content) -> str:
    """Return a content as text; media are shown in words, each on a line of its own."""
    if isinstance(content, str):
        return content
    return "\n".join(part.text if isinstance(part, TextPart) else part.shown for part in content)


def media_in(contents: Iterable[Content]) -> list[MediaPart]:
    """Return the media of some contents, in order."""
    return [
        part for content in contents if not isinstance(content, str) for part in content if isinstance(part, MediaPart)
    ]


def needs(parts: Iterable[MediaPart]) -> frozenset[str]:
    """Return what a model must be able to read for these: kinds, and ``url`` if one is an address."""
    return frozenset(name for part in parts for name in (part.kind, *([BY_ADDRESS] if part.url else [])))


def content_identity(content: Content) -> Any:
    """Return a content as JSON values that differ whenever what is sent differs; bytes count by their digest."""
    if isinstance(content, str):
        return content
    return [_identity(part) for part in content]


def _identity(part: Part) -> list[str]:
    if isinstance(part, TextPart):
        return ["text", part.text]
    place = ["url", part.url] if part.url else [part.mime, part.digest]
    return [part.kind, *place, *([part.detail] if part.detail else [])]


def content_json(content: Content) -> Any:
    """Return a content as files and previews show it: a text, or parts; of media the facts and not the bytes."""
    if isinstance(content, str):
        return content
    return [_shown_part(part) for part in content]


def _shown_part(part: Part) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    facts: dict[str, Any] = {"type": part.kind}
    facts |= {"url": part.url} if part.url else {"mime": part.mime, "bytes": part.size, "digest": part.digest}
    facts |= {"pictures": len(part.frames)} if len(part.frames) > 1 else {}
    return facts | {name: value for name, value in {"name": part.name, "detail": part.detail}.items() if value}


def before_content(text: str, content: Content) -> Content:
    """Return a content with a text and a line break before it."""
    return f"{text}\n{content}" if isinstance(content, str) else (TextPart(text), *content)


def with_texts(content: Content, changed: Sequence[str]) -> Content:
    """Return a content with other texts, in order; ``texts_in`` gives those that it has."""
    if isinstance(content, str):
        return changed[0]
    left = iter(changed)
    return tuple(TextPart(next(left)) if isinstance(part, TextPart) else part for part in content)


def texts_in(content: Content) -> list[str]:
    """Return the texts of a content, without its media."""
    if isinstance(content, str):
        return [content]
    return [part.text for part in content if isinstance(part, TextPart)]


def glue(left: str, right: str) -> str:
    """Join a question and its answer with one space, unless white space already stands between them."""
    if left and right and not left[-1].isspace() and not right[0].isspace():
        return f"{left} {right}"
    return left + right


# ---- what bytes are: by how they begin, not by the names of their files ----

_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
_BRANDS = {
    b"avif": "image/avif",
    b"heic": "image/heic",
    b"mif1": "image/heif",
    b"M4A ": "audio/mp4",
    b"qt  ": "video/quicktime",
}
_BEGINNINGS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"II*\0": "image/tiff",
    b"MM\0*": "image/tiff",
    b"ID3": "audio/mpeg",
    b"fLaC": "audio/flac",
    b"OggS": "audio/ogg",
    b"\x1aE\xdf\xa3": "video/webm",
    b"\0\0\x01\xba": "video/mpeg",
    b"\0\0\x01\xb3": "video/mpeg",
}
_BMP_HEADERS = {12, 40, 52, 56, 64, 108, 124}
"""The sizes that the second header of a BMP file may have; two letters alone would be too few to go by."""


def media_type(data: bytes) -> str:
    """Return the MIME type of an image, a sound or a video; an empty text for anything else."""
    found = next((mime for start, mime in _BEGINNINGS.items() if data.startswith(start)), "")
    if not found and data[:4] == b"RIFF":
        found = _RIFF.get(data[8:12], "")
    if not found and data[4:8] == b"ftyp":  # the container of MP4, QuickTime, AVIF and HEIC
        found = _BRANDS.get(data[8:12], "video/mp4")
    if not found and data[:2] == b"BM" and int.from_bytes(data[14:18], "little") in _BMP_HEADERS:
        found = "image/bmp"
    return found or _mp3(data)


def _mp3(data: bytes) -> str:
    """Recognise MP3 without tags: a frame begins with eleven set bits; version, layer and rate must be possible."""
    if len(data) < 4 or data[0] != 0xFF or data[1] & 0xE0 != 0xE0:  # noqa: PLR2004 - bits of the format
        return ""
    version, layer = data[1] >> 3 & 3, data[1] >> 1 & 3
    bitrate, rate = data[2] >> 4, data[2] >> 2 & 3
    possible = version != 1 and layer == 1 and bitrate not in (0, 15) and rate != 3  # noqa: PLR2004 - as above
    return "audio/mpeg" if possible else ""


def fits(mime: str, kind: str) -> bool:
    """Whether bytes of this type are an image, a sound or a video; some containers hold sound or video alike."""
    return mime.startswith(f"{kind}/") or (mime in _BOTH and kind in ("audio", "video"))


_BOTH = frozenset({"audio/ogg", "video/webm", "video/mp4", "audio/mp4"})
