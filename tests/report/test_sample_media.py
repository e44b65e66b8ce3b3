"""Messages with images in reports: in words, whatever a row holds."""

import pytest

from kshot.core.content import MediaPart, TextPart, content_json, content_text
from kshot.report.sample_look import (
    folded_prompt,
    is_conversation,
    question_place,
    shown_content,
    whole_prompt,
    with_shown_media,
)
from tests.media_files import RED

IMAGE = MediaPart.of_bytes("image", "image/png", RED, name="red.png")


@pytest.mark.parametrize(
    "content",
    [
        (IMAGE, TextPart("What?")),
        (TextPart("a"), TextPart("b")),
        (MediaPart.of_url("audio", "https://x.example/a.wav"),),
        (MediaPart.of_bytes("video", "video/jpeg", b"one", b"two"),),
    ],
)
def test_a_row_reads_as_the_preview_does(content):
    assert shown_content(content_json(content)) == content_text(content)


@pytest.mark.parametrize("content", ["text", None, 7, ["a"], [{"no": "type"}]])
def test_what_kshot_does_not_write_stays_as_it_is(content):
    assert shown_content(content) == content


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        ({"type": "image"}, '{"type": "image"}'),
        ({"type": "text", "text": 7}, '{"type": "text", "text": 7}'),
        ({"type": ["x"], "name": "n"}, '["x"] n'),
        ({"type": "image", "bytes": "many", "digest": 7, "mime": "image/png"}, "image image/png"),
    ],
)
def test_strange_parts_become_texts(part, shown):
    assert shown_content([part]).strip("[]") == shown.strip("[]")


def test_the_prompt_of_a_card_and_of_the_terminal():
    prompt = [{"role": "system", "content": "Look."}, {"role": "user", "content": content_json((IMAGE, TextPart("?")))}]
    assert is_conversation(with_shown_media(prompt))
    assert whole_prompt(prompt).messages == [("system", "Look."), ("user", f"{IMAGE.shown}\n?")]
    assert folded_prompt(prompt, 0).messages == [("system", "Look."), ("user", f"{IMAGE.shown}\n?")]
    assert question_place(prompt, 0).above == ""
