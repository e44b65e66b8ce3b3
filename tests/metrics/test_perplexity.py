from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshot.core.errors import DataError
from kshot.core.records import Sample
from kshot.metrics import Perplexity


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(1, 50)), min_size=1))
def test_over_all_tokens(pairs):
    expected = math.exp(sum(nll for nll, _ in pairs) / sum(tokens for _, tokens in pairs))
    assert Perplexity()(pairs, [None] * len(pairs))["PPL"] == pytest.approx(expected)


def test_a_sample_needs_no_reference():
    metric = Perplexity()
    value = metric.score(Sample("s", {}), (math.log(8) * 3, 3))
    assert metric.reduce("PPL", [value["PPL"]]) == pytest.approx(8)


def test_edges():
    assert Perplexity()([(1e6, 1)], [None]) == {"PPL": math.inf}
    with pytest.raises(DataError, match="no tokens"):
        Perplexity()([(0.0, 0)], [None])
    for wrong in ("text", 3, (1, 2, 3), None):
        with pytest.raises(DataError, match="not a pair"):
            Perplexity()([wrong], [None])
