from __future__ import annotations

import pytest
import sacrebleu
from hypothesis import given, strategies as st

from kshot.core.errors import DataError, UsageError
from kshot.metrics import Bleu
from tests.measures import measure

SENTENCE = st.lists(st.sampled_from(["the", "cat", "sat,", "on", "a", "mat.", "今日", "3.5", "été"]), max_size=9).map(
    " ".join
)


@given(st.lists(st.tuples(SENTENCE, SENTENCE, SENTENCE), min_size=1, max_size=5))
def test_as_sacrebleu_with_two_references(rows):
    predictions = [row[0] for row in rows]
    references = [list(row[1:]) for row in rows]
    found = Bleu()(predictions, references)
    streams = [[row[1] for row in rows], [row[2] for row in rows]]
    assert found["Corpus_BLEU"] == sacrebleu.corpus_bleu(predictions, streams, tokenize="intl").score
    sentences = [
        sacrebleu.sentence_bleu(p, r, tokenize="intl").score for p, r in zip(predictions, references, strict=True)
    ]
    assert found["Sentence_BLEU"] == pytest.approx(sum(sentences) / len(sentences), abs=1e-12)
    assert Bleu().values(predictions, references)["Sentence_BLEU"] == sentences


@given(st.lists(st.tuples(SENTENCE, SENTENCE), min_size=2, max_size=6), st.data())
def test_the_statistics_add_up(rows, data):
    """The whole corpus has the score of any two parts' summed statistics."""
    metric = Bleu()
    values = [metric.rate(p, r)["Corpus_BLEU"] for p, r in rows]
    cut = data.draw(st.integers(1, len(values) - 1))
    parts = [tuple(map(sum, zip(*part, strict=True))) for part in (values[:cut], values[cut:])]
    assert measure(metric, "Corpus_BLEU").aggregate(parts) == measure(metric, "Corpus_BLEU").aggregate(values)


def test_a_reference_that_is_no_text():
    for wrong in (3, [], [1], None):
        with pytest.raises(DataError, match="BLEU got"):
            Bleu()(["x"], [wrong])


TOKENIZERS = ["13a", "zh", "char", "none"]


@given(st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=5), st.sampled_from(TOKENIZERS), st.booleans())
def test_as_sacrebleu_with_each_tokenizer(rows, tokenize, lowercase):
    metric = Bleu(tokenize, lowercase=lowercase)
    predictions, references = [row[0] for row in rows], [row[1] for row in rows]
    found = metric(predictions, references)
    expected = sacrebleu.corpus_bleu(predictions, [references], tokenize=tokenize, lowercase=lowercase).score
    assert found[metric.name] == expected
    assert metric.name == f"Corpus_BLEU:{tokenize}" + (":lc" if lowercase else "")


def test_tokenizers_differ_and_can_stand_side_by_side():
    prediction, reference = "The 5€-note, they said, isn’t new.", "The 5€ note they said isn’t new."
    values = {tokenize: Bleu(tokenize)([prediction], [reference]) for tokenize in ("intl", "13a", "char")}
    assert len({name for found in values.values() for name in found}) == 6
    assert len({max(found.values()) for found in values.values()}) == 3


def test_a_tokenizer_that_cannot_be_made_is_an_error_before_any_request(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "MeCab", None)  # as where it is not installed
    monkeypatch.delitem(__import__("sys").modules, "sacrebleu.tokenizers.tokenizer_ja_mecab", raising=False)
    with pytest.raises(UsageError, match=r"sacrebleu cannot make its tokenizer 'ja-mecab'.*sacrebleu\[ja\]"):
        Bleu("ja-mecab")
