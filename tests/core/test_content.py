"""The contents of messages: texts as they were, and parts by the digests of their bytes."""

import base64

import pytest

from kshot.core.content import (
    MediaPart,
    TextPart,
    before_content,
    content_identity,
    content_json,
    content_text,
    needs,
    texts_in,
    with_texts,
)
from kshot.core.records import Generate, Message, Prompt
from kshot.core.serialization import digest, request_body
from tests.media_files import BLUE, RED


def image(data=RED, **more):
    return MediaPart.of_bytes("image", "image/png", data, **more)


def asked(*parts):
    return Generate(Prompt(messages=(Message("user", parts),)))


def test_a_request_of_text_has_the_digest_that_it_always_had():
    request = Generate(Prompt(messages=(Message("system", "Be brief."), Message("user", "hi"))), max_tokens=9)
    body = ["Generate", "model", [["system", "Be brief."], ["user", "hi"]]]
    assert request_body(request) == [*body, {"max_tokens": 9, "temperature": 0.0, "replica": 0}]
    assert digest(request) == "12c1fb6799ed81fc76997b0843837569"
    assert digest(Generate(Prompt("hi"))) == "54541e0cc1d466b617f0bb37cf533940"


def test_media_are_known_by_their_bytes_and_not_by_their_names():
    first, renamed, other = image(name="a.png"), image(name="b.png"), image(BLUE, name="a.png")
    assert first == renamed
    assert digest(asked(first)) == digest(asked(renamed))
    assert digest(asked(first)) != digest(asked(other))


@pytest.mark.parametrize(
    "changed",
    [
        (image(detail="low"), TextPart("What?")),
        (TextPart("What?"), image()),
        (MediaPart.of_bytes("image", "image/jpeg", RED), TextPart("What?")),
        (MediaPart.of_url("image", "https://x.example/a.png"), TextPart("What?")),
        (image(), TextPart("What"), TextPart("?")),
        (image(), image(), TextPart("What?")),
    ],
)
def test_whatever_is_sent_differently_is_another_request(changed):
    assert digest(asked(*changed)) != digest(asked(image(), TextPart("What?")))


def test_a_text_part_is_not_taken_for_the_identity_of_media():
    part = image()
    assert content_identity((TextPart("x"), part)) == [["text", "x"], ["image", "image/png", part.digest]]


def test_the_pictures_of_a_video_are_told_apart():
    one, two = (
        MediaPart.of_bytes("video", "video/jpeg", b"ab", b"c"),
        MediaPart.of_bytes("video", "video/jpeg", b"a", b"bc"),
    )
    assert one.digest != two.digest
    assert (
        one.data_url == f"data:video/jpeg;base64,{base64.b64encode(b'ab').decode()},{base64.b64encode(b'c').decode()}"
    )


def test_what_people_see_of_a_part():
    part = image(name="red.png")
    assert part.shown == f"[image red.png · image/png · {len(RED)} bytes · {part.digest[:12]}]"
    assert content_text((part, TextPart("What?"))) == f"{part.shown}\nWhat?"
    assert content_json((part, TextPart("What?"))) == [
        {"type": "image", "mime": "image/png", "bytes": len(RED), "digest": part.digest, "name": "red.png"},
        {"type": "text", "text": "What?"},
    ]
    address = MediaPart.of_url("audio", "https://x.example/a.wav")
    assert content_json((address,)) == [{"type": "audio", "url": "https://x.example/a.wav"}]
    assert address.shown == "[audio https://x.example/a.wav]"


def test_a_prompt_names_its_media_in_its_text():
    prompt = Prompt(messages=(Message("system", "Look."), Message("user", (image(name="r.png"), TextPart("What?")))))
    assert prompt.media == [image()]
    assert prompt.text == f"Look.\n\n{image(name='r.png').shown}\nWhat?"
    assert Prompt("text alone").media == []


def test_what_a_model_needs():
    assert needs([image(), MediaPart.of_url("video", "https://x.example/v.mp4")]) == {"image", "video", "url"}
    assert needs([]) == frozenset()


def test_texts_are_changed_and_media_stay():
    content = (TextPart("a"), image(), TextPart("b"))
    assert with_texts(content, [text.upper() for text in texts_in(content)]) == (TextPart("A"), image(), TextPart("B"))
    assert with_texts("a", ["A"]) == "A"
    assert before_content("Be brief.", content) == (TextPart("Be brief."), *content)
    assert before_content("Be brief.", "hi") == "Be brief.\nhi"
