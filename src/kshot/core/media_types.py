"""What bytes are: images, sounds and videos are recognised by how they begin, and not by the names of their files."""

from __future__ import annotations

from collections.abc import Callable

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
    return next((found for look in _LOOKS if (found := look(data))), "")


def _beginning(data: bytes) -> str:
    return next((mime for start, mime in _BEGINNINGS.items() if data.startswith(start)), "")


def _riff(data: bytes) -> str:
    return _RIFF.get(data[8:12], "") if data[:4] == b"RIFF" else ""


def _iso(data: bytes) -> str:
    """Recognise the container of MP4, QuickTime, AVIF and HEIC."""
    return _BRANDS.get(data[8:12], "video/mp4") if data[4:8] == b"ftyp" else ""


def _bmp(data: bytes) -> str:
    return "image/bmp" if data[:2] == b"BM" and int.from_bytes(data[14:18], "little") in _BMP_HEADERS else ""


def _mp3(data: bytes) -> str:
    """Recognise MP3 without tags: a frame begins with eleven set bits; version, layer and rate must be possible."""
    if len(data) < 4 or data[0] != 0xFF or data[1] & 0xE0 != 0xE0:  # noqa: PLR2004 - bits of the format
        return ""
    version, layer = data[1] >> 3 & 3, data[1] >> 1 & 3
    bitrate, rate = data[2] >> 4, data[2] >> 2 & 3
    possible = version != 1 and layer == 1 and bitrate not in (0, 15) and rate != 3  # noqa: PLR2004 - as above
    return "audio/mpeg" if possible else ""


_LOOKS: tuple[Callable[[bytes], str], ...] = (_beginning, _riff, _iso, _bmp, _mp3)


def fits(mime: str, kind: str) -> bool:
    """Whether bytes of this type are an image, a sound or a video; some containers hold sound or video alike."""
    return mime.startswith(f"{kind}/") or (mime in _BOTH and kind in ("audio", "video"))


_BOTH = frozenset({"audio/ogg", "video/webm", "video/mp4", "audio/mp4"})
