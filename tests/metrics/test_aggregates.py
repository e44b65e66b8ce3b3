"""Rules by which the tuples of samples become figures, by the names that run folders have."""

import pytest

from kshot.metrics.aggregates import aggregate


@pytest.mark.parametrize(("rule", "figure"), [("share", 100 / 3), ("rounded_share", 33.33)])
def test_points_of_those_that_could_be_had(rule, figure):
    computed = aggregate(rule, 2)
    assert computed is not None
    assert computed([(1.0, 1.0), (0.0, 2.0)]) == pytest.approx(figure, abs=1e-12)
    assert computed([(0.0, 0.0)]) is None  # nothing of nothing is no figure
    assert aggregate(rule, 3) is None
    assert aggregate(f"{rule},digits=3", 2) is None
