"""Models that are split over devices by a device map give the answers of whole ones."""

import json
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from kshot.backends import open_model  # noqa: E402
from kshot.backends.hf import model_runner  # noqa: E402
from kshot.backends.hf.loading import is_split  # noqa: E402
from kshot.backends.hf.model import Transformers  # noqa: E402
from kshot.core.errors import BackendError, MissingExtra, UsageError  # noqa: E402
from kshot.core.records import Generate, Loglik, Prompt  # noqa: E402
from tests.commands import kshot  # noqa: E402
from tests.tiny_models import ask_all, build  # noqa: E402

STEM = "Question: what is the answer to this question? " * 8
REQUESTS = [
    *(Loglik(Prompt(f"{STEM}{text}"), (" A", " the answer is B.", " hello")) for text in ("hello", "the dog", "A fox")),
    *(Loglik(Prompt(text), (" Paris", " Berlin is")) for text in ("The capital of France is", "People say", "naïve")),
    Loglik(Prompt(), ("The capital of France is Paris. " * 30,), rolling="bos"),
    *(Generate(Prompt(f"{STEM}{text}"), max_tokens=6) for text in ("hello", "the dog sleeps", "0 1 2")),
    Generate(Prompt("hello"), max_tokens=5, temperature=1.0, seed=3),
]
PARTS = {
    "llama": ["model.embed_tokens", "model.rotary_emb", "model.layers.0", "model.layers.1", "model.norm", "lm_head"],
    "gpt2": ["transformer.wte", "transformer.wpe", "transformer.h.0", "transformer.h.1", "transformer.ln_f", "lm_head"],
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {kind: build(kind, tmp_path_factory.mktemp("split") / kind) for kind in PARTS}


def half(kind, first="cpu", last="disk"):
    """Return a device map: the first layer on one device, all after it on another."""
    found = {part: first if number < 3 else last for number, part in enumerate(PARTS[kind])}
    return found | ({"lm_head": first} if kind == "gpt2" else {})  # the weight of its first part


def numbers(answers):
    """Return what can be compared: log-probabilities, or the text."""
    return [
        [likelihood.logprob for likelihood in each.likelihoods] if hasattr(each, "likelihoods") else each.text
        for each in answers
    ]


def assert_same(split, whole, requests=REQUESTS, tolerance=1e-5):
    for ours, right in zip(numbers(ask_all(split, requests)), numbers(ask_all(whole, requests)), strict=True):
        assert ours == (right if isinstance(right, str) else pytest.approx(right, abs=tolerance))


@pytest.mark.parametrize(
    ("kind", "devices"), [("llama", ("cpu", "disk")), ("llama", ("disk", "cpu")), ("gpt2", ("cpu", "disk"))]
)
def test_a_split_model_gives_the_answers_of_a_whole_one(folders, kind, devices):
    """Trie, tree batches, documents and texts; the tokens computed are those of the trie."""
    split = Transformers(str(folders[kind]), device_map=half(kind, *devices))
    whole = Transformers(str(folders[kind]), device="cpu")
    assert_same(split, whole)
    assert is_split(split._model)
    assert {"cpu", "meta"} == {parameter.device.type for parameter in split._model.parameters()}
    assert split.token_counts == whole.token_counts
    assert split.notes == whole.notes == ()
    assert split.fingerprint == whole.fingerprint


def test_plain_batches_of_a_split_model(folders, monkeypatch):
    monkeypatch.setattr(model_runner, "packing_obstacle", lambda *_: "a test says so")
    split = Transformers(str(folders["llama"]), device_map=half("llama"))
    whole = Transformers(str(folders["llama"]), device="cpu")
    assert_same(split, whole)
    assert "plain batches" in split.notes[0]


def test_logits_of_a_split_model_are_made_where_they_are_wanted_alone(folders):
    split = Transformers(str(folders["llama"]), device_map=half("llama"))
    rows = []
    split._model.get_output_embeddings().register_forward_hook(
        lambda _module, _given, made: rows.append(made.shape[-2])
    )
    split._runner  # noqa: B018 - its trial makes logits too
    rows.clear()
    ask_all(split, [Loglik(Prompt(STEM), (" A", " hello"))])
    assert sum(rows) < 10 < len(split._tokenizer.encode(STEM))


def test_what_is_written_to_disk_goes_when_the_model_is_closed(folders):
    split = open_model(f"hf:{folders['llama']}", {"device_map": half("llama")})
    ask_all(split, REQUESTS[:1])
    place = Path(split._offloaded.name)
    assert place.is_dir()
    split.close()
    assert not place.exists()
    assert numbers(ask_all(split, REQUESTS[:1])), "it loads again"
    split.close()


@pytest.mark.parametrize("name", ["auto", "balanced", "sequential"])
def test_the_maps_of_transformers(folders, name):
    """Without a GPU all of the model is on the CPU."""
    whole = Transformers(str(folders["llama"]), device="cpu")
    assert_same(open_model(f"hf:{folders['llama']},device_map={name}"), whole, REQUESTS[:4], tolerance=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("devices", [(0, "cpu"), ("cpu", 0)], ids=["last on the CPU", "first on the CPU"])
def test_a_model_split_between_gpu_and_cpu(folders, devices):
    split = Transformers(str(folders["llama"]), device_map=half("llama", *devices), dtype="float32")
    assert_same(split, Transformers(str(folders["llama"]), device="cpu"), tolerance=1e-3)


def test_a_map_in_a_file_on_the_command_line(folders, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "map.json").write_text(json.dumps(half("llama")))
    (tmp_path / "quiz.csv").write_text("q,a,b,key\nIs it?,yes,no,A\nAnd this?,hello,there,B\n")
    rows = ("-d", "quiz.csv", "--question", "q", "--options", "a,b", "--answer", "key")
    found = []
    for option in ((), ("--device-map", "map.json")):
        done = kshot(capsys, "run", "-m", f"hf:{folders['llama']}", *rows, *option, "--out", f"out{len(found)}")
        assert done.code == 0, done.err
        found.append((tmp_path / f"out{len(found)}" / "summary.json").read_text())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "cpu", "device_map": "auto"}, "--device and --device-map both say where the model runs"),
        ({"deterministic": True, "device_map": "auto"}, "--deterministic cannot be promised"),
        ({"device_map": "everywhere"}, r"there is no device map 'everywhere'\. Use auto, balanced"),
        ({"device_map": "missing.json"}, "missing.json: the device map cannot be read"),
        ({"device_map": {"lm_head": 1.5}}, "does not name a device for each part"),
        ({"device_map": {}}, "does not name a device for each part"),
    ],
)
def test_what_cannot_be_a_device_map(folders, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message):
        Transformers(str(folders["llama"]), **options)


@pytest.mark.parametrize(("text", "message"), [("[1]", "is not a JSON object"), ("{", "is not JSON")])
def test_a_file_that_is_no_device_map(folders, tmp_path, text, message):
    (tmp_path / "map.json").write_text(text)
    with pytest.raises(UsageError, match=message):
        Transformers(str(folders["llama"]), device_map=str(tmp_path / "map.json"))


@pytest.mark.parametrize(
    ("kind", "placed"),
    [
        ("gpt2", dict.fromkeys(PARTS["gpt2"], "cpu") | {"lm_head": "disk"}),
        ("llama", {"": 7}),
        ("llama", {"x": "y"}),
    ],
    ids=["one weight in two places", "no such device", "no device at all"],
)
def test_a_map_that_does_not_work_is_one_message(folders, kind, placed):
    with pytest.raises(BackendError) as refused:
        ask_all(Transformers(str(folders[kind]), device_map=placed), REQUESTS[:1])
    assert "\n" not in str(refused.value)
    assert refused.value.hint


def test_without_accelerate_the_error_says_what_to_install(folders, monkeypatch):
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(
        MissingExtra, match=r"--device-map needs the package 'accelerate'.*pip install 'kshot\[split\]'"
    ):
        Transformers(str(folders["llama"]), device_map="auto")
