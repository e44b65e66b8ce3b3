"""Retrievers of config files choose as OpenCompass's own code does: its recorded choices, and plain sums beside them."""

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from kshot import retrievers
from kshot.index.bm25 import OkapiScores

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "golden_retrievers.json").read_text(encoding="utf-8"))
DATA = {name: GOLDEN[name] for name in ("train", "test", "input_columns", "output_column")}
VECTORS = {"TopkRetriever": "topk_vectors", "VotekRetriever": "votek_vectors"}


def chosen(case, **more):
    named = VECTORS.get(case["retriever"])
    if named is not None:
        sides = (np.asarray(GOLDEN[named][side], dtype=np.float32) for side in ("train", "test"))
        more["vectors"] = tuple(sides)
    return getattr(retrievers, case["retriever"])(DATA, **case["options"], **more).retrieve()


@pytest.mark.needs("llama-index-core")  # which carries NLTK's rules for sentences
@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: f"{case['retriever']} {case['options']}")
def test_the_recorded_choices(case):
    assert chosen(case, strict=False) == case["chosen"]


def test_kshots_own_rules_are_others():
    for name in ("BM25Retriever", "TopkRetriever", "VotekRetriever"):
        case = next(case for case in GOLDEN["cases"] if case["retriever"] == name)
        assert chosen(case, exclude_self=False) != case["chosen"]


def okapi(texts, query, k1=1.5, b=0.75):
    """BM25 as Robertson and others define it, with rank_bm25's floor: word by word, text by text."""
    size, average = len(texts), sum(map(len, texts)) / len(texts)
    holding = Counter(word for text in texts for word in dict.fromkeys(text))
    idf = {word: math.log(size - n + 0.5) - math.log(n + 0.5) for word, n in holding.items()}
    total = 0.0
    for value in idf.values():
        total += value
    floor = 0.25 * (total / len(idf))
    scores = []
    for text in texts:
        score = 0.0
        for word in query:
            tf = text.count(word)
            weight = floor if idf.get(word, 0.0) < 0 else idf.get(word, 0.0)
            score += weight * (tf * (k1 + 1) / (tf + k1 * (1 - b + b * len(text) / average)))
        scores.append(score)
    return scores


@pytest.mark.parametrize("seed", range(8))
def test_okapi_scores_are_the_same_to_the_last_bit(seed):
    rng = np.random.default_rng(seed)
    vocabulary = [f"w{i}" for i in range(3 + 9 * seed)]
    texts = [rng.choice(vocabulary, rng.integers(0, 12)).tolist() for _ in range(40)]
    scores = OkapiScores(texts)
    for _ in range(10):
        query = [*rng.choice(vocabulary, 7).tolist(), "unknown"]
        assert scores.of(query).tolist() == okapi(texts, query)


def test_okapi_scores_of_texts_without_words():
    assert OkapiScores([[], []]).of(["a"]).tolist() == [0.0, 0.0]
    assert OkapiScores([]).of(["a"]).tolist() == []
