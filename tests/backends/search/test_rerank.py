"""Reranking agrees with the cross-encoder asked directly, and keeps what it does not read."""

import numpy as np
import pytest

from kshot.backends.search.neural import Rerank
from kshot.backends.search.search_engine import IndexSearchEngine
from kshot.core.corpus import Corpus, Passage
from kshot.core.errors import BackendError, UsageError
from kshot.index import encoders
from kshot.index.ranking import Found
from kshot.index.store import Store
from tests import tiny_encoders
from tests.tiny_encoders import LONG, TEXTS

pytestmark = pytest.mark.needs("sentence-transformers")  # imported when it is used: that takes seconds

LENGTH = 32


class Backwards(IndexSearchEngine):
    """Finds the last passage first; the score is its position."""

    name = fingerprint = "backwards"

    def open(self, corpus, store, /):
        self.asked = []
        self.size = len(corpus)
        return self

    def search(self, queries, k, among, /):
        self.asked.append(k)
        places = sorted(range(self.size) if among is None else among, reverse=True)[:k]
        return [Found(places, [float(at) for at in places]) for _ in queries]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_encoders.cross_encoder(tmp_path_factory.mktemp("models") / "cross", length=LENGTH)


def opened(engine, texts, tmp_path):
    return engine.open(Corpus(Passage(str(at), text) for at, text in enumerate(texts)), Store(tmp_path))


def directly(folder, query, text):
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        return float(model(**tokenizer(query, text, return_tensors="pt")).logits[0, 0])


def test_the_first_are_reranked_and_the_others_follow(folder, tmp_path):
    inner = Backwards()
    engine = Rerank(str(folder), inner, depth=3, batch_size=2)
    query = "what cat sleeps"
    (found,) = opened(engine, TEXTS, tmp_path).search([query], 5, None)
    scores = {at: directly(folder, query, TEXTS[at]) for at in (5, 4, 3)}
    expected = sorted(scores, key=lambda at: -scores[at])
    assert list(found.positions) == [*expected, 2, 1]
    assert np.allclose(found.scores[:3], [scores[at] for at in expected], atol=1e-5)
    assert found.scores[3] == pytest.approx(found.scores[2] - 1)
    assert found.scores[4] == pytest.approx(found.scores[3] - 1)  # as far apart as they were
    assert engine.name == f"rerank:{folder},depth=3@backwards"


def test_depth_is_searched_even_for_a_small_k(folder, tmp_path):
    inner = Backwards()
    index = opened(Rerank(str(folder), inner, depth=4), TEXTS, tmp_path)
    (found,) = index.search(["old king"], 1, None)
    scores = {at: directly(folder, "old king", TEXTS[at]) for at in (5, 4, 3, 2)}
    assert list(found.positions) == [max(scores, key=scores.get)]
    (within,) = index.search(["old king"], 9, [0, 2])
    assert sorted(within.positions) == [0, 2]
    assert inner.asked == [4, 2]


def test_a_long_passage_has_the_score_of_its_best_window(folder, tmp_path):
    from kshot.index.windows import tokenised, windows

    query = "star moon"
    (found,) = opened(Rerank(str(folder), Backwards(), batch_size=3), [LONG, "cat"], tmp_path).search([query], 2, None)
    tokenizer = encoders.load_model(folder, _cross_encoder(), "cpu").tokenizer
    ((_, tokens),) = tokenised(tokenizer, [LONG])
    room = LENGTH - 3 - 2
    pieces = [LONG[one.begin : one.end] for one in windows(LONG, tokens, room, (room + 1) // 2)]
    assert len(pieces) > 2
    scores = dict(zip(found.positions, found.scores, strict=True))
    assert scores[0] == pytest.approx(max(directly(folder, query, piece) for piece in pieces), abs=1e-5)


def _cross_encoder():
    from sentence_transformers import CrossEncoder

    return CrossEncoder


def test_odd_texts_and_long_queries(folder, tmp_path):
    texts = ["", "  ", "日本", "z" * 500, "cat"]
    index = opened(Rerank(str(folder), Backwards()), texts, tmp_path)
    for found in index.search(["", "cat " * 99, "☃"], 5, None):
        assert sorted(found.positions) == [0, 1, 2, 3, 4]
        assert list(found.scores) == sorted(found.scores, reverse=True)
        assert np.isfinite(found.scores).all()
    # A query takes half the room at most: 29 tokens beside the special ones, so 14 of them.
    (cut,), (whole,) = index.search(["cat " * 14], 5, None), index.search(["cat " * 99], 5, None)
    assert np.allclose(cut.scores, whole.scores, atol=1e-5)


def test_the_model_is_loaded_for_the_first_query(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(encoders, "load_model", lambda *args: (_ for _ in ()).throw(KeyError("loaded")))
    index = opened(Rerank(str(folder), Backwards()), TEXTS, tmp_path)
    with pytest.raises(KeyError, match="loaded"):
        index.search(["cat"], 1, None)


def test_impossible_settings_and_models(folder, tmp_path):
    with pytest.raises(UsageError, match="depth is 0"):
        Rerank(str(folder), Backwards(), depth=0)
    with pytest.raises(BackendError, match="it is a sentence encoder, not a cross-encoder"):
        Rerank(str(tiny_encoders.sentence_encoder(tmp_path / "plain")), Backwards())
    three = Rerank(str(tiny_encoders.cross_encoder(tmp_path / "three", labels=3)), Backwards())
    with pytest.raises(BackendError, match="it gives 3 scores for a pair"):
        opened(three, TEXTS, tmp_path / "store").search(["cat"], 1, None)
    assert Rerank(str(folder), Backwards()).fingerprint != Rerank(str(folder), Backwards(), depth=9).fingerprint
