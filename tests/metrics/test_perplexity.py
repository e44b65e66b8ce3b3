from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from kshot.core.errors import DataError
from kshot.core.records import Sample, TextLikelihood
from kshot.metrics import Greedy, Perplexity
from tests.measures import measure


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(1, 50)), min_size=1))
def test_over_all_tokens(pairs):
    expected = math.exp(sum(nll for nll, _ in pairs) / sum(tokens for _, tokens in pairs))
    assert Perplexity()(pairs, [None] * len(pairs))["PPL"] == pytest.approx(expected)


def test_a_sample_needs_no_reference():
    metric = Perplexity()
    value = metric.score(Sample("s", {}), (math.log(8) * 3, 3))
    assert measure(metric).aggregate([value["PPL"]]) == pytest.approx(8)


texts = st.builds(
    TextLikelihood, st.floats(0, 500), st.integers(1, 50), st.integers(1, 50), st.integers(1, 50), st.booleans()
)


@given(st.lists(texts, min_size=1))
def test_per_word_byte_and_sample(found):
    """The definitions of lm-eval: weighted_perplexity, bits_per_byte, and perplexity over samples."""
    nll, words, size = (sum(getattr(each, name) for each in found) for name in ("nll", "words", "bytes"))
    figures = Perplexity()(found, [None] * len(found))
    assert figures == {
        "PPL": pytest.approx(math.exp(nll / sum(each.tokens for each in found))),
        "word_perplexity": pytest.approx(math.exp(nll / words)),
        "byte_perplexity": pytest.approx(math.exp(nll / size)),
        "bits_per_byte": pytest.approx(nll / size / math.log(2)),
        "perplexity": pytest.approx(math.exp(nll / len(found))),
    }
    assert "perplexity" not in Perplexity(documents=True)(found, [None] * len(found))
    share = 100 * sum(each.greedy for each in found) / len(found)
    assert Greedy()(found, [None] * len(found)) == {"acc": pytest.approx(share)}


def test_a_likelihood_of_a_text_unpacks_as_a_pair():
    nll, tokens = TextLikelihood(3.0, 2, 1, 9)
    assert (nll, tokens) == (3.0, 2)


def test_what_is_not_known_is_absent_and_never_0():
    assert set(Perplexity()([(3.0, 2)], [None])) == {"PPL", "perplexity"}
    assert Greedy()([(3.0, 2)], [None]) == {}
    known, unknown = TextLikelihood(3.0, 2, 1, 9, greedy=True), TextLikelihood(3.0, 2, 1, 9)
    assert Greedy()([known], [None]) == {"acc": 100.0}
    assert Greedy()([known, unknown], [None] * 2) == {}
    long = TextLikelihood(900.0, 400, 1, 1200, greedy=False)  # a Chinese text has no spaces between words
    assert set(Perplexity()([long], [None])) == {"PPL", "byte_perplexity", "bits_per_byte"}


def test_edges():
    assert Perplexity()([(1e6, 1)], [None]) == {"PPL": math.inf}
    with pytest.raises(DataError, match="no tokens"):
        Perplexity()([(0.0, 0)], [None])
    for wrong in ("text", 3, (1, 2, 3), None):
        for metric in (Perplexity(), Greedy()):
            with pytest.raises(DataError, match="not a pair"):
                metric([wrong], [None])
