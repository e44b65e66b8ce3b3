from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from rouge_score.rouge_scorer import RougeScorer

from kshot.core.errors import UsageError
from kshot.metrics import Rouge, RougeLsum

SENTENCE = st.lists(st.sampled_from(["the", "cats", "cat", "running", "ran", "on", "Mats."]), max_size=8).map(" ".join)
SCORER = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)


@given(SENTENCE, st.lists(SENTENCE, min_size=1, max_size=3))
def test_as_rouge_score_best_over_references(prediction, references):
    found = Rouge()([prediction], [references])
    for name, kind in (("ROUGE-1", "rouge1"), ("ROUGE-2", "rouge2"), ("ROUGE-L", "rougeL")):
        best = max(SCORER.score(r, prediction)[kind].fmeasure for r in references)
        assert found[name] == pytest.approx(100 * best)


def test_one_text_is_one_reference():
    assert Rouge()(["a cat"], ["a cat"]) == Rouge()(["a cat"], [["a cat"]])


SUMMARY = st.lists(SENTENCE, max_size=4).map("\n".join)


@given(SUMMARY, st.lists(SUMMARY, min_size=1, max_size=3), st.booleans())
def test_lsum_as_rouge_score_best_over_references(prediction, references, stemmer):
    scorer = RougeScorer(["rougeLsum"], use_stemmer=stemmer)
    best = max(scorer.score(r, prediction)["rougeLsum"].fmeasure for r in references)
    metric = RougeLsum(stemmer=stemmer)
    assert metric([prediction], [references]) == {metric.name: pytest.approx(100 * best)}


@given(SENTENCE, SENTENCE)
def test_without_the_stemmer(prediction, reference):
    found = Rouge(stemmer=False)([prediction], [reference])
    expected = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=False).score(reference, prediction)
    assert list(found) == ["ROUGE-1:unstemmed", "ROUGE-2:unstemmed", "ROUGE-L:unstemmed"]
    assert list(found.values()) == pytest.approx([100 * score.fmeasure for score in expected.values()])


def test_where_a_sentence_ends():
    prediction, reference = "b c . a d . e", "a d . b c . e"
    scorer = RougeScorer(["rougeLsum"], use_stemmer=True)
    lines = 100 * scorer.score(reference, prediction)["rougeLsum"].fmeasure
    cut = [text.replace(" . ", ".\n") for text in (reference, prediction)]
    periods = 100 * scorer.score(*cut)["rougeLsum"].fmeasure
    assert lines < periods == 100
    assert RougeLsum()([prediction], [reference]) == {"ROUGE-Lsum": pytest.approx(lines)}
    assert RougeLsum("periods")([prediction], [reference]) == {"ROUGE-Lsum": pytest.approx(periods)}


def test_nltk_without_its_data_is_an_error_before_any_request(monkeypatch):
    import nltk

    def lacking(text):
        raise LookupError("punkt_tab")

    monkeypatch.setattr(nltk, "sent_tokenize", lacking)
    with pytest.raises(UsageError, match=r"NLTK's data for sentences.*punkt_tab"):
        RougeLsum("nltk")
    monkeypatch.setattr(nltk, "sent_tokenize", lambda text: text.split(". "))
    assert RougeLsum("nltk")(["b c. a d"], ["a d. b c"]) == {"ROUGE-Lsum": 100.0}
