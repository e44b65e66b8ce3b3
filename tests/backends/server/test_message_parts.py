"""Images, sounds and videos as the two APIs get them."""

import base64

import pytest

import kshot
from kshot.backends import open_model
from kshot.core.content import MediaPart, TextPart
from kshot.core.errors import BackendError
from kshot.core.records import Generate, Message, Prompt, Sample
from kshot.core.task import Task
from kshot.methods import generate
from tests.fake_server import FakeServer, chat
from tests.media_files import MP4, RED, WAV
from tests.tiny_models import ask_all

IMAGE = MediaPart.of_bytes("image", "image/png", RED, name="red.png")
ENCODED = base64.b64encode(RED).decode()


def prompt(*parts):
    return Prompt(messages=(Message("system", "Be brief."), Message("user", parts)))


def sent(spec, *parts, reply=None, **options):
    """Return the messages that a server gets."""
    with FakeServer(lambda _: reply or chat("red")) as server:
        backend = open_model(spec, {"base_url": server.url, **options})
        (response,) = ask_all(backend, [Generate(prompt(*parts))])
        assert response.text == "red"
        return server.calls[-1].body


def test_openai_gets_the_parts_in_order():
    body = sent("openai:m", TextPart("First"), IMAGE, TextPart(""), TextPart("then\ud800."))
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "First"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{ENCODED}"}},
                {"type": "text", "text": "then\ufffd."},
            ],
        },
    ]


def test_openai_gets_addresses_details_sound_and_video():
    wav, mp4 = (base64.b64encode(data).decode() for data in (WAV, MP4))
    parts = [
        MediaPart.of_url("image", "https://x.example/a.png", detail="low"),
        MediaPart.of_bytes("audio", "audio/wav", WAV),
        MediaPart.of_bytes("audio", "audio/flac", WAV),
        MediaPart.of_bytes("video", "video/mp4", MP4),
    ]
    assert sent("openai:m", *parts)["messages"][1]["content"] == [
        {"type": "image_url", "image_url": {"url": "https://x.example/a.png", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": wav, "format": "wav"}},
        {"type": "audio_url", "audio_url": {"url": f"data:audio/flac;base64,{wav}"}},
        {"type": "video_url", "video_url": {"url": f"data:video/mp4;base64,{mp4}"}},
    ]


def test_anthropic_gets_images():
    reply = {"type": "message", "content": [{"type": "text", "text": "red"}], "stop_reason": "end_turn"}
    address = MediaPart.of_url("image", "https://x.example/a.png")
    wrong = MediaPart.of_bytes("image", "image/jpeg", RED)  # a template says jpeg of every picture
    body = sent("anthropic:c", IMAGE, address, wrong, TextPart("What?"), reply=reply)
    own = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ENCODED}}
    assert body["system"] == "Be brief."
    assert body["messages"] == [
        {
            "role": "user",
            "content": [
                own,
                {"type": "image", "source": {"type": "url", "url": "https://x.example/a.png"}},
                own,
                {"type": "text", "text": "What?"},
            ],
        }
    ]


def test_a_chat_template_of_the_user_has_no_place_for_images(tmp_path):
    template = tmp_path / "chat.jinja"
    template.write_text("{% for m in messages %}{{ m['content'] }}{% endfor %}")
    with pytest.raises(BackendError, match="cannot be written out by --chat-template"):
        sent("openai:m", IMAGE, chat_template=str(template))


def asking(*parts):
    return Task("look", [Sample("0", {})], lambda *_: prompt(*parts), generate(), ())


@pytest.mark.parametrize("kind", ["audio", "video"])
def test_anthropic_is_not_asked_about_sound_and_video(kind):
    part = MediaPart.of_bytes(kind, f"{kind}/mp4", MP4)
    with FakeServer(lambda _: chat("x")) as server:
        with pytest.raises(
            BackendError, match=f"cannot read {'sound' if kind == 'audio' else 'video'}, which the prompts hold"
        ):
            kshot.evaluate("anthropic:c", asking(part), base_url=server.url)
        assert server.calls == []


@pytest.mark.parametrize("model", ["embedded", lambda text: "red"], ids=["embedded", "function of text"])
def test_a_model_of_text_is_refused_before_anything_is_asked(model):
    with pytest.raises(BackendError, match=r"cannot read images, which the prompts hold\. It reads text\."):
        kshot.evaluate(model, asking(IMAGE, TextPart("What?")))


def test_a_later_sample_with_an_image_is_refused_too():
    """The first samples, which are tried out before the run, may have none."""
    asked = []

    def model(text):
        asked.append(text)
        return "x"

    def template(sample, _):
        return prompt(IMAGE) if sample.position == 30 else prompt(TextPart(sample.id))

    task = Task("look", [Sample(str(n), {}, position=n) for n in range(31)], template, generate(), ())
    with pytest.raises(BackendError, match="cannot read images"):
        kshot.evaluate(model, task)
    assert not any("[image" in text for text in asked)


def test_a_function_of_a_prompt_sees_the_image():
    seen = []

    def model(given: kshot.Prompt) -> str:
        seen.append(given)
        return "red"

    kshot.evaluate(model, asking(IMAGE, TextPart("What?")))
    assert [part.data for part in seen[0].media] == [RED]


def test_equal_images_are_asked_once_and_others_again(tmp_path):
    """An answer is stored under the digest of the bytes: another name is the same image."""

    with FakeServer(lambda _: chat("red")) as server:
        for out, part, calls in [
            ("a", IMAGE, 1),
            ("b", MediaPart.of_bytes("image", "image/png", RED, name="other.png"), 1),
            ("c", MediaPart.of_bytes("image", "image/png", RED + b"\0"), 2),
        ]:
            earlier = None if out == "a" else tmp_path / "a"
            kshot.evaluate("openai:m", asking(part), base_url=server.url, out=tmp_path / out, reuse=earlier)
            assert len(server.calls) == calls
    journal = (tmp_path / "a" / "journal.jsonl").read_text()
    assert ENCODED[:40] not in journal + (tmp_path / "a" / "samples.jsonl").read_text()
