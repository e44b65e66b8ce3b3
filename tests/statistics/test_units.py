"""Figures per unit are compared only where both systems count the same units."""

import numpy as np
import pytest

from kshot.statistics.figures import same_units


@pytest.mark.parametrize("rule", ["perplexity", "bits"])
@pytest.mark.parametrize("kind", [list, np.array])
def test_units_of_every_sample_count(rule, kind):
    one = [(2.0, 4.0), (3.0, 5.0)]
    assert same_units(rule, kind(one), kind([(9.0, 4.0), (1.0, 5.0)]))
    assert not same_units(rule, kind(one), kind([(2.0, 5.0), (3.0, 4.0)]))


def test_other_rules_have_no_units():
    for rule in (None, "bleu", "own"):
        assert same_units(rule, [(1.0, 2.0)], [(1.0, 3.0)])
    assert same_units("perplexity", [1.0], [2.0])
    assert same_units("perplexity", [], [])
