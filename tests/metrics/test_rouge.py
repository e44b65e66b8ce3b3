from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from kshot.metrics import Rouge

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
