"""``hf:`` models that read images: the same tokens as transformers itself writes, and what they refuse."""

from io import BytesIO

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pillow = pytest.importorskip("PIL.Image")

import kshot  # noqa: E402
from kshot.backends.checking import check_reads  # noqa: E402
from kshot.backends.hf.model import Transformers  # noqa: E402
from kshot.core.content import MediaPart, TextPart  # noqa: E402
from kshot.core.errors import BackendError, MissingExtra  # noqa: E402
from kshot.core.records import Failed, Generate, Loglik, Message, Prompt, Sample  # noqa: E402
from kshot.core.task import Task  # noqa: E402
from kshot.methods import generate  # noqa: E402
from tests.media_files import BLUE, RED, WAV, png  # noqa: E402
from tests.tiny_image_models import build_image_model  # noqa: E402
from tests.tiny_models import ask_all, build, copied  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return build_image_model(tmp_path_factory.mktemp("images") / "model")


@pytest.fixture(scope="module")
def model(folder):
    return Transformers(str(folder), device="cpu")


def image(data=RED):
    return MediaPart.of_bytes("image", "image/png", data, name="x.png")


def asked(*parts, **options):
    messages = (Message("system", "Be brief."), Message("user", parts))
    return Generate(Prompt(messages=messages), **{"max_tokens": 8, **options})


def reference(folder, texts_and_images, max_new_tokens=8):
    """Return the new tokens that transformers writes by its own recipe."""
    processor = transformers.AutoProcessor.from_pretrained(folder)
    own = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    content = [{"type": "image"} if part is None else {"type": "text", "text": part} for part, _ in texts_and_images]
    images = [pillow.open(BytesIO(data)).convert("RGB") for part, data in texts_and_images if part is None]
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": content},
    ]
    text = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    inputs = processor(text=[text], images=images, return_tensors="pt")
    with torch.inference_mode():
        written = own.generate(**inputs, max_new_tokens=max_new_tokens, do_sample=False)
    new = written[0, inputs["input_ids"].shape[1] :].tolist()
    return processor.tokenizer.decode(new, skip_special_tokens=True), inputs["input_ids"].shape[1]


def test_a_reply_is_that_of_transformers_itself(folder, model):
    for parts in ([(None, RED), ("What is it?", None)], [("One", None), (None, RED), ("two", None), (None, BLUE)]):
        given = [image(data) if text is None else TextPart(text) for text, data in parts]
        (reply,) = ask_all(model, [asked(*given)])
        text, tokens = reference(folder, parts)
        assert (reply.text, reply.usage.prompt_tokens) == (text, tokens)


def test_the_picture_makes_a_difference_and_the_place_in_a_batch_none(model):
    requests = [asked(image(data), TextPart("What is it?"), max_tokens=16) for data in (RED, BLUE, png((9, 200, 9)))]
    together = ask_all(model, requests)
    assert len({reply.text for reply in together}) == 3
    assert ask_all(model, requests[::-1])[::-1] == together


def test_sampled_replies_follow_from_the_request_alone(model):
    sampled = [asked(image(), temperature=1.0, seed=1, replica=number) for number in range(4)]
    replies = [reply.text for reply in ask_all(model, sampled)]
    assert len(set(replies)) > 1
    assert [reply.text for reply in ask_all(model, sampled)] == replies


def test_tokens_and_their_logprobs(model):
    (reply,) = ask_all(model, [asked(image(), TextPart("What?"), token_logprobs=True)])
    assert "".join(text for text, _ in reply.token_logprobs) == reply.text
    assert all(value <= 0 for _, value in reply.token_logprobs)


def test_the_same_model_reads_text_alone(model):
    chat = Generate(Prompt(messages=(Message("user", (TextPart("hello"),)),)), max_tokens=4)
    answers = ask_all(model, [chat, Loglik(Prompt("hello"), (" world",))])
    assert answers[0].usage.completion_tokens == 4
    assert answers[1].likelihoods[0].logprob < 0


def test_a_prompt_that_does_not_fit_fails(folder, model):
    (reply,) = ask_all(model, [asked(image(), TextPart("word " * 200))])
    assert isinstance(reply, Failed)
    assert reply.kind == "too_long"
    cutting = Transformers(str(folder), device="cpu", truncate="left")
    (reply,) = ask_all(cutting, [asked(image(), TextPart("word " * 200))])
    assert reply.kind == "too_long"
    assert "with images cannot be cut" in reply.message


@pytest.mark.parametrize("data", [RED[:40], b"no picture", RED[:8] + b"\0" * 100])
def test_a_damaged_picture_is_a_failed_sample(model, data):
    (reply, other) = ask_all(model, [asked(image(data)), asked(image())])
    assert isinstance(reply, Failed)
    assert reply.kind == "unreadable_image"
    assert "x.png" in reply.message
    assert not isinstance(other, Failed)


def test_a_picture_of_too_many_points_is_not_unpacked(model, monkeypatch):
    monkeypatch.setattr(pillow, "MAX_IMAGE_PIXELS", 100)
    (reply,) = ask_all(model, [asked(image())])
    assert "DecompressionBomb" in reply.message


def test_what_it_reads(folder, model, tmp_path):
    assert model.abilities.media == {"image"}
    check_reads(f"hf:{folder}", {"image"})
    with pytest.raises(BackendError, match=r"cannot read sound, which the prompts hold\. It reads text, images"):
        check_reads(f"hf:{folder}", {"audio"})
    text = build("llama", tmp_path / "text", chat=True)
    assert Transformers(str(text), device="cpu").abilities.media == frozenset()
    with pytest.raises(BackendError, match=r"cannot read images, which the prompts hold\. It reads text"):
        check_reads(f"hf:{text}", {"image"})


@pytest.mark.parametrize(
    ("part", "what"),
    [
        (MediaPart.of_bytes("audio", "audio/wav", WAV), "sound"),
        (MediaPart.of_url("image", "https://x.example/a.png"), "media by an address"),
    ],
)
def test_a_run_with_other_media_ends_before_the_weights_are_loaded(folder, part, what):
    task = Task("look", [Sample("0", {})], lambda *_: asked(part).prompt, generate(), ())
    with pytest.raises(BackendError, match=f"cannot read {what}"):
        kshot.evaluate(f"hf:{folder}", task)


def test_the_processor_is_part_of_the_fingerprint(folder, model, tmp_path):
    other = copied(folder, tmp_path / "other")
    assert Transformers(str(other), device="cpu").fingerprint == model.fingerprint
    file = other / "processor_config.json"
    file.write_text(file.read_text().replace('"shortest_edge": 16', '"shortest_edge": 32'))
    assert Transformers(str(other), device="cpu").fingerprint != model.fingerprint


def test_a_template_of_the_user_and_one_that_is_missing(folder, tmp_path):
    template = (
        "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}<image>{% endif %}{% endfor %}"
    )
    own = Transformers(str(folder), device="cpu", chat_template=template)
    (reply,) = ask_all(own, [asked(image())])
    assert reply.usage.prompt_tokens < 15
    bare = copied(folder, tmp_path / "bare")
    (bare / "chat_template.jinja").unlink()
    with pytest.raises(BackendError, match="its processor has no chat template"):
        ask_all(Transformers(str(bare), device="cpu"), [asked(image())])


def test_a_template_that_writes_no_place_for_the_image(folder):
    own = Transformers(str(folder), device="cpu", chat_template="{% for m in messages %}text{% endfor %}")
    with pytest.raises(BackendError, match="cannot read a prompt with 1 images"):
        ask_all(own, [asked(image())])


def test_without_pillow_the_error_names_the_extra(model, monkeypatch):
    monkeypatch.setattr("kshot.core.extras.is_installed", lambda name: name != "pillow")
    with pytest.raises(MissingExtra, match=r"kshot\[hf\]"):
        ask_all(model, [asked(image())])
