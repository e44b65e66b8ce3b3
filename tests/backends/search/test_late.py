"""Late interaction agrees with MaxSim written out, for ColBERT models and for plain encoders."""

import importlib.util
import string

import numpy as np
import pytest

from kshot.backends.search import neural
from kshot.backends.search.neural import Late
from kshot.core.corpus import Corpus, Passage
from kshot.core.errors import BackendError, MissingExtra, UsageError
from kshot.index import encoders
from kshot.index.model_folders import model_kind
from kshot.index.store import Store
from tests import tiny_encoders
from tests.tiny_encoders import LONG, TEXTS

pytestmark = pytest.mark.needs("sentence-transformers")  # imported when it is used: that takes seconds

QUERIES = ["what cat sleeps?", "king", "the fox and the bird in the snow"]


def corpus(texts):
    return Corpus(Passage(str(at), text) for at, text in enumerate(texts))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return tiny_encoders.sentence_encoder(tmp_path_factory.mktemp("models") / "plain")


@pytest.fixture(scope="module")
def colbert(tmp_path_factory):
    return tiny_encoders.colbert(tmp_path_factory.mktemp("models") / "colbert")


def maxsim(query, passage, weights=1.0):
    return float((np.einsum("qd,pd->qp", query, passage).max(axis=1) * weights).sum())


def agrees(found, scores, tolerance):
    """Whether a ranking has these scores (a row for each query), in their order."""
    for (positions, values), row in zip(found, scores, strict=True):
        assert sorted(positions) == list(range(len(row)))
        assert np.allclose(values, row[list(positions)], atol=tolerance)
        assert list(values) == sorted(values, reverse=True)


def states(folder, text, projection=None, mark=None, length=None, *, expand=False):
    """A text's token vectors, with plain transformers: as ColBERT's authors describe it if there is a mark."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, network = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    ids = tokenizer(text, add_special_tokens=False, truncation=False)["input_ids"]
    number = tokenizer.convert_tokens_to_ids
    ids = [number("[CLS]"), *([number(mark)] if mark else []), *ids, number("[SEP]")]
    attended = [1] * len(ids)
    if expand:
        ids += [number("[MASK]")] * (length - len(ids))
        attended += [0] * (length - len(attended))
    with torch.inference_mode():
        coded = {"input_ids": torch.tensor([ids]), "attention_mask": torch.tensor([attended])}
        rows = network(**coded).last_hidden_state[0]
        rows = rows @ projection.T if projection is not None else rows
        rows = torch.nn.functional.normalize(rows, dim=-1).numpy()
    if mark is None:
        return rows[1:-1], ids[1:-1]
    skipped = {number(one) for one in string.punctuation}
    return rows[[expand or one not in skipped for one in ids]], ids


def test_colbert_agrees_with_maxsim_written_out(colbert, tmp_path):
    from safetensors.torch import load_file

    projection = load_file(colbert / "1_Dense" / "model.safetensors")["linear.weight"]
    texts = [states(colbert, text, projection, "[D] ", 24)[0] for text in TEXTS]
    queries = [states(colbert, text, projection, "[Q] ", 12, expand=True)[0] for text in QUERIES]
    scores = np.array([[maxsim(query, text) for text in texts] for query in queries])
    for precision, tolerance in (("float32", 1e-4), ("float16", 2e-2)):
        index = Late(str(colbert), precision=precision).open(corpus(TEXTS), Store(tmp_path))
        agrees(index.search(QUERIES, 99, None), scores, tolerance)


def test_colbert_agrees_with_its_own_library(colbert, tmp_path):
    encoder = encoders.ColBERT(colbert, "cpu")
    if not encoder._native:
        pytest.importorskip("pylate", reason="needs kshot[late]")
    texts, queries = encoder.token_vectors(TEXTS, "passage", 2), encoder.token_vectors(QUERIES, "query", 2)
    scores = np.array([[maxsim(query, text) for text in texts] for query in queries])
    index = Late(str(colbert), precision="float32").open(corpus(TEXTS), Store(tmp_path))
    agrees(index.search(QUERIES, 99, None), scores, 1e-4)


@pytest.mark.parametrize("idf", [False, True])
def test_a_plain_encoder_is_compared_token_by_token(plain, tmp_path, idf):
    texts = [states(plain, text) for text in TEXTS]
    scores = []
    for query in QUERIES:
        rows, ids = states(plain, query)
        held = np.array([sum(one in own for _, own in texts) for one in ids])
        weights = np.log(1 + (len(TEXTS) - held + 0.5) / (held + 0.5)) if idf else 1.0
        scores.append([maxsim(rows, text, weights) for text, _ in texts])
    index = Late(str(plain), idf=idf, precision="float32").open(corpus(TEXTS), Store(tmp_path))
    agrees(index.search(QUERIES, 99, None), np.array(scores), 1e-4)


def test_prompts_lend_context_but_no_tokens(plain, tmp_path):
    encoder = encoders.sentence_encoder(plain, "cpu")
    ((ids, rows),) = encoder.token_vectors(["old king"], "this is : ", 4)
    whole, every = states(plain, "this is : old king")
    assert ids.tolist() == every[-2:]
    assert np.allclose(rows, whole[-2:], atol=1e-5)
    with_prompt = Late(str(plain), passage_prompt="this is : ", precision="float32", idf=False)
    ((_, scores),) = with_prompt.open(corpus(["old king"]), Store(tmp_path)).search(["king"], 1, None)
    assert scores[0] == pytest.approx(maxsim(states(plain, "king")[0], rows), abs=1e-4)


@pytest.mark.parametrize("kind", ["plain", "colbert"])
def test_a_long_passage_has_the_tokens_of_all_its_windows(kind, tmp_path, request):
    folder = request.getfixturevalue(kind)
    weights = {"idf": False} if kind == "plain" else {}
    index = Late(str(folder), precision="float32", **weights).open(corpus([LONG, "old king"]), Store(tmp_path))
    ((_, scores),) = index.search(["star moon"], 1, [0])
    # The end of the passage is far beyond the model's 24 tokens; its last window must be among what was compared.
    from kshot.index.windows import tokenised, windows

    coder = neural._HiddenStateCoder(encoders.sentence_encoder(folder, None), 4, None, None)
    if kind == "colbert":
        coder = neural._ColBERTCoder(encoders.ColBERT(folder, None), 4)
    size = 24 - coder.extra_tokens
    ((_, tokens),) = tokenised(coder.encoder.tokenizer, [LONG])
    pieces = [LONG[one.begin : one.end] for one in windows(LONG, tokens, size, size - size // 4)]
    assert len(pieces) > 2
    rows = np.concatenate(coder.passages(pieces))
    assert scores[0] == pytest.approx(maxsim(coder.queries(["star moon"])[0].rows, rows), abs=1e-4)
    short = maxsim(coder.queries(["star moon"])[0].rows, coder.passages(pieces[:1])[0])
    assert scores[0] > short + 1e-3


@pytest.mark.parametrize("kind", ["plain", "colbert"])
def test_blank_texts_score_nothing_and_filters_hold(kind, tmp_path, request, monkeypatch):
    texts = ["cat", "", LONG, " \n ", "日本", "z" * 200]
    index = Late(str(request.getfixturevalue(kind))).open(corpus(texts), Store(tmp_path))
    blank, filled = index.search(["", "cat dog"], 99, None)
    assert list(blank.positions) == [0, 1, 2, 3, 4, 5]
    assert set(blank.scores) == {0.0}
    scores = dict(zip(filled.positions, filled.scores, strict=True))
    assert scores[1] == scores[3] == 0.0
    assert scores[4] != 0.0
    monkeypatch.setattr(neural, "_MAX_GROUP_TOKENS", 3)  # a group for each query
    among = index.search(["", "cat dog"], 2, [1, 2, 5])
    assert list(among[0].positions) == [1, 2]
    best = sorted([1, 2, 5], key=lambda at: -scores[at])[:2]
    assert list(among[1].positions) == best
    assert np.allclose(among[1].scores, [scores[at] for at in best], atol=1e-5)


def test_idf_is_not_in_the_files_and_the_model_is_loaded_late(plain, tmp_path, monkeypatch):
    reports = []
    store = Store(tmp_path, lambda *args: reports.append(args))
    Late(str(plain)).open(corpus(TEXTS), store)
    assert reports[-1] == (f"late:{plain}: encoding, shards", 1, 1)
    monkeypatch.setattr(encoders, "load_model", lambda *args: pytest.fail("loaded"))
    unweighted = Late(str(plain), idf=False)
    unweighted.open(corpus(TEXTS), store)
    assert unweighted.name == f"late:{plain},idf=False"
    assert unweighted.fingerprint != Late(str(plain)).fingerprint
    assert len(list(tmp_path.glob("late-*"))) == 1


def test_impossible_settings_and_models(plain, colbert, tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="is a ColBERT model: it has its own weights"):
        Late(str(colbert), idf=True)
    with pytest.raises(UsageError, match="precision is 'int8'"):
        Late(str(plain), precision="int8")
    with pytest.raises(UsageError, match="a window of 99 tokens"):
        Late(str(colbert), window=99).open(corpus(TEXTS), Store(tmp_path))
    with pytest.raises(BackendError, match="it is a cross-encoder, not a sentence encoder or late-interaction model"):
        Late(str(tiny_encoders.cross_encoder(tmp_path / "cross")))
    monkeypatch.setattr(encoders, "version", lambda _: "5.3.0")
    real = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pylate" else real(name))
    with pytest.raises(MissingExtra, match=r"kshot\[late\]"):
        Late(str(colbert))


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("artifact.metadata", "{}"),
        ("config.json", '{"architectures": ["HF_ColBERT"]}'),
        ("config_sentence_transformers.json", '{"similarity_fn_name": "MaxSim"}'),
        ("config_sentence_transformers.json", '{"model_type": "MultiVectorEncoder"}'),
    ],
)
def test_a_colbert_model_is_known_by_its_settings(tmp_path, file, text):
    assert model_kind(tmp_path) == "sentence encoder"
    (tmp_path / file).write_text(text)
    assert model_kind(tmp_path) == "late-interaction model"
