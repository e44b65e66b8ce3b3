"""Images, sounds and videos of a config's prompts: the forms in which rows and templates name them, read with care.

A row may come from a stranger, and whatever it names is sent to a model. So a file is read only where a config may
name rows, below the place that the user gave with ``--data``, and only if its bytes are what they should be.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from kshot.configs.dataset_entry import DatasetEntry
from kshot.configs.loaders.places import candidates, data_folders
from kshot.configs.project import OPEN_FLAGS, NotAllowed
from kshot.core.content import MEDIA_KINDS, Content, MediaKind, MediaPart, Part, TextPart, fits, media_type
from kshot.core.errors import DataError
from kshot.core.text_files import is_still_at, regular_file
from kshot.prompts.templates import MMPromptTemplate, PromptTemplate, RawPromptTemplate

MAX_MEDIA_BYTES = 64 << 20
"""The largest image, sound or video."""
MAX_PROMPT_BYTES = 2 * MAX_MEDIA_BYTES
"""The most bytes of media in one prompt."""
_DATA_URL = re.compile(r"data:(?P<mime>[\w.+-]+/[\w.+-]+)?(?P<more>(?:;[^,;]*)*),", re.IGNORECASE)
_PREFIX_OF_ANOTHER = re.compile(r"(?:file://|data:[^,]{0,100},)(?=(?:data:|https?://|file://))", re.IGNORECASE)
"""A template writes ``file://{image}`` and the row has a whole address: the inner one holds."""
_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
_OTHER_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_BASE64 = re.compile(r"[A-Za-z0-9+/]{24,}[A-Za-z0-9+/\s]*={0,2}\s*")
_SOURCES = ("url", "path", "base64", "image", "video", "audio", "data")


def holds_media(template: PromptTemplate | None) -> bool:
    """Whether the prompts of a template are messages with parts: a base model has no place for them."""
    if isinstance(template, RawPromptTemplate):
        contents = [each.get("content") for each in template.messages if isinstance(each, Mapping)]
        return any(isinstance(content, (list, tuple)) for content in contents)
    return isinstance(template, MMPromptTemplate)


class PromptMedia:
    """Reads the media of an entry's prompts; ``given`` are the places that the user named for its rows."""

    def __init__(self, entry: DatasetEntry, given: Sequence[Path] = ()) -> None:
        """Nothing is read yet."""
        self._entry, self._given = entry, tuple(given)

    def content(self, content: Any) -> Content:
        """Return the content of a message as a record: its text, or its parts."""
        if isinstance(content, str):
            return content
        if not isinstance(content, (list, tuple)):
            raise DataError(f"the content of a message is text or a list of parts, not {content!r:.60}")
        parts = tuple(self._part(part) for part in content)
        size = sum(part.size for part in parts if isinstance(part, MediaPart))
        if size > MAX_PROMPT_BYTES:
            raise DataError(f"the media of a prompt have {size:,} bytes; they may have {MAX_PROMPT_BYTES:,}")
        return parts

    def _part(self, part: Any) -> Part:
        if isinstance(part, str):
            return TextPart(part)
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind == "text" and isinstance(part.get("text"), str):
            return TextPart(part["text"])
        for media in MEDIA_KINDS:
            if kind in (media, f"{media}_url", f"input_{media}"):
                found, detail = _named(part, str(kind), media)
                return self._media(media, found, detail)
        raise DataError(
            f"a part of a message is {part!r:.80}",
            hint="A part has a type: text, image_url, video_url, audio_url, input_audio, image, video or audio.",
        )

    def _media(self, kind: MediaKind, found: Any, detail: str) -> MediaPart:
        if isinstance(found, (bytes, bytearray)):
            return _of_bytes(kind, "", (bytes(found),), detail)
        if not isinstance(found, str) or not found.strip():
            raise DataError(f"the prompt has an {kind} without a file, address or bytes: {found!r:.60}")
        text, start = found.strip(), 0
        while inner := _PREFIX_OF_ANOTHER.match(text, start):
            start = inner.end()
        text = text[start:]
        if _ADDRESS.match(text):
            return MediaPart.of_url(kind, text, detail=detail)
        if text[:5].lower() == "data:":
            return _of_data_url(kind, text, detail)
        if (data := _bare_base64(kind, text)) is not None:
            return _of_bytes(kind, "", (data,), detail)
        if text[:7].lower() == "file://":
            return self._of_file(kind, _local_path(text[7:]), detail)
        if _OTHER_SCHEME.match(text):
            raise DataError(f"{kind}: kshot reads no {text.partition(':')[0]}: addresses ({text[:80]!r})")
        return self._of_file(kind, text, detail)

    def _of_file(self, kind: MediaKind, path: str, detail: str) -> MediaPart:
        data, name = read_media(self._entry, path, self._given)
        mime = media_type(data)
        if not fits(mime, kind):
            is_what = f"it is {mime}" if mime else "its bytes are none that kshot knows"
            raise DataError(f"the file {path} is no {kind}: {is_what}", hint="kshot sends no other files to a model.")
        return MediaPart.of_bytes(kind, mime, data, detail=detail, name=name)


def _local_path(path: str) -> str:
    """Return the path of a ``file://`` address; frameworks write it as it is, browsers with %20 for a space."""
    try:
        return path if "%" not in path or Path(path).exists() else unquote(path)
    except (OSError, ValueError):  # a name that no file can have
        return path


def _named(part: Mapping[str, Any], kind: str, media: MediaKind) -> tuple[Any, str]:
    """Return what a part names (an address, a path, base64 or bytes) and its detail, in the form of any provider."""
    inner = part.get(kind, part.get(media, part.get("source", part)))
    if not isinstance(inner, Mapping):
        return inner, str(part.get("detail") or "")
    detail = str(inner.get("detail") or part.get("detail") or "")
    if inner.get("bytes") is not None:
        return inner["bytes"], detail
    if isinstance(inner.get("data"), str) and ("format" in inner or "media_type" in inner):  # OpenAI's, Anthropic's
        mime = inner.get("media_type") or f"{media}/{inner.get('format')}"
        return f"data:{mime};base64,{inner['data']}", detail
    return next((inner[name] for name in _SOURCES if inner.get(name) is not None), None), detail


def _of_data_url(kind: MediaKind, text: str, detail: str) -> MediaPart:
    head = _DATA_URL.match(text)
    if head is None or not head["more"].lower().endswith(";base64"):
        raise DataError(f"the {kind} {text[:60]!r} is no data URL of base64", hint="Write data:image/png;base64,….")
    declared = (head["mime"] or "").lower()
    if declared and not fits(declared, kind):
        raise DataError(f"the prompt names {declared} as {kind}: {text[:60]!r}")
    pieces = text[head.end() :].split(",")
    if len(pieces) > 1 and kind != "video":
        raise DataError(f"the base64 of an {kind} has a comma in it: {text[:60]!r}")
    return _of_bytes(kind, declared, tuple(_decoded(piece, kind) for piece in pieces), detail)


def _decoded(text: str, kind: str) -> bytes:
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise DataError(f"the base64 of an {kind} cannot be read: {exc} ({text[:40]!r})") from exc
    if not data:
        raise DataError(f"the prompt has an {kind} of no bytes")
    return data


def _bare_base64(kind: MediaKind, text: str) -> bytes | None:
    """Return the bytes of a text that is base64 of such media and nothing else; no path decodes to one."""
    try:
        data = _decoded(text, kind) if _BASE64.fullmatch(text) else b""
    except DataError:
        return None
    return data if fits(media_type(data), kind) else None


def _of_bytes(kind: MediaKind, declared: str, frames: tuple[bytes, ...], detail: str) -> MediaPart:
    size = sum(map(len, frames))
    if size > MAX_MEDIA_BYTES:
        raise DataError(f"an {kind} has {size:,} bytes; it may have {MAX_MEDIA_BYTES:,}")
    found = [media_type(frame) for frame in frames]
    if kind == "video" and declared and all(fits(each, "image") for each in found):  # a video may be its frames
        return MediaPart.of_bytes(kind, declared, *frames, detail=detail)
    for each in found:
        if not fits(each, kind):
            is_what = f"they are {each}" if each else "they are none that kshot knows"
            raise DataError(f"the bytes are no {kind}: {is_what}", hint="kshot sends no other bytes to a model.")
    return MediaPart.of_bytes(kind, found[0], *frames, detail=detail)


# ---- the files that rows name: where they may lie, and how they are read ----


def given_places(text: str | None) -> list[Path]:
    """Return where the rows that a user names lie: at a file or folder, or where a pattern with ``{split}`` begins."""
    if not text:
        return []
    fixed = text.partition("{")[0] if not _exists(Path(text)) else text
    place = Path(fixed).expanduser()
    return [place if fixed == text or fixed.endswith("/") else place.parent]


def read_media(entry: DatasetEntry, path: str, given: Sequence[Path]) -> tuple[bytes, str]:
    """Return the bytes of a file that a row names, and its name for people; ``given``: places that the user named."""
    if "\0" in path:
        raise DataError(f"{path!r:.80} is no path")
    roots = [place if place.is_dir() else place.parent for place in (Path(os.path.realpath(each)) for each in given)]
    refused: DataError | None = None
    for place in (*candidates(entry, path), *(root / path for root in roots)):
        if not _exists(place):
            continue
        try:
            real = _allowed(entry, place, roots)
        except DataError as exc:
            refused = refused or exc
        else:
            return _bytes(real), real.name
    raise refused or DataError(
        f"there is no file {path!r:.200}, which the prompt names",
        hint="Paths are seen from the current folder, the config's project, and the folder of --data.",
    )


def _exists(place: Path) -> bool:
    try:
        return place.exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _allowed(entry: DatasetEntry, place: Path, roots: Sequence[Path]) -> Path:
    """Return the real path of a file that may be read; an entry of the user's own may name any."""
    if entry.project is None:
        return Path(os.path.realpath(place))
    try:
        return entry.project.check(place, also=[*data_folders(entry), *roots])
    except NotAllowed as exc:
        raise DataError(
            f"a row names the file {exc}",
            hint="It is not sent to a model. Rows may name files in the config's project, in ./data, in "
            f"./ais_bench/datasets, and below the folder of --data {entry.abbr}=PLACE.",
        ) from exc


def _bytes(real: Path) -> bytes:
    try:
        descriptor = regular_file(real, OPEN_FLAGS)
    except OSError as exc:
        raise DataError(f"the file cannot be read: {exc.strerror or exc}", where=str(real)) from exc
    with os.fdopen(descriptor, "rb") as file:
        if not is_still_at(descriptor, real):
            raise DataError("the file was replaced by a link while it was read", where=str(real))
        data = file.read(MAX_MEDIA_BYTES + 1)
    if len(data) > MAX_MEDIA_BYTES:
        raise DataError(f"the file has more than {MAX_MEDIA_BYTES >> 20} MB", where=str(real))
    return data
