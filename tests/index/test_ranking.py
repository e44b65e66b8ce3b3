"""The best of many scores."""

import numpy as np
from hypothesis import given, settings, strategies as st

from kshot.index.ranking import best


@settings(max_examples=100)
@given(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0, 3.0]), max_size=30), st.integers(0, 35))
def test_best_is_a_stable_sort(scores, k):
    got = best(np.asarray(scores, dtype=np.float32), k)
    order = sorted(range(len(scores)), key=lambda at: (-scores[at], at))[:k]
    assert (list(got.positions), list(got.scores)) == (order, [scores[at] for at in order])
    shifted = best(np.asarray(scores, dtype=np.float32), k, np.arange(100, 100 + len(scores)))
    assert list(shifted.positions) == [at + 100 for at in order]
