"""What bytes are, by how they begin."""

import pytest

from kshot.core.content import fits, media_type
from tests.media_files import MP4, RED, WAV


@pytest.mark.parametrize(
    ("data", "mime"),
    [
        (RED, "image/png"),
        (b"\xff\xd8\xff\xe0" + bytes(20), "image/jpeg"),
        (b"GIF89a" + bytes(20), "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"BM" + bytes(12) + b"\x28\0\0\0", "image/bmp"),
        (WAV, "audio/wav"),
        (b"ID3\x04" + bytes(20), "audio/mpeg"),
        (b"\xff\xfb\x90\x00" + bytes(20), "audio/mpeg"),
        (MP4, "video/mp4"),
        (b"\x1aE\xdf\xa3" + bytes(20), "video/webm"),
        (b"\0\0\0\x18ftypavif" + bytes(8), "image/avif"),
    ],
)
def test_formats(data, mime):
    assert media_type(data) == mime


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk=",
        b"BM is no picture but a text",
        b"RIFFraff and more",
        b"\xff\xff\xff\xff\xff\xff",
        "ÿþtext in UTF-16".encode("utf-16"),
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    ],
)
def test_other_files_are_none_of_them(data):
    assert media_type(data) == ""


def test_a_container_may_hold_sound_or_video():
    assert fits("video/mp4", "audio")
    assert fits("image/png", "image")
    assert not fits("image/png", "video")
    assert not fits("", "image")
