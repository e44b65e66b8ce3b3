from __future__ import annotations

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from kshot.core.errors import DataError
from kshot.metrics import Bleu

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
    assert metric.reduce("Corpus_BLEU", parts) == metric.reduce("Corpus_BLEU", values)


def test_a_reference_that_is_no_text():
    for wrong in (3, [], [1], None):
        with pytest.raises(DataError, match="BLEU got"):
            Bleu()(["x"], [wrong])
