"""The spread over draws of examples."""

import pytest

from kshot.core.errors import UsageError
from kshot.studies.example_draws import Spread, parse_seeds, spread


def test_seeds():
    assert parse_seeds("0..9") == range(10)
    assert parse_seeds(" 3 .. 5 ") == range(3, 6)
    assert list(parse_seeds("7")) == [7]
    assert list(parse_seeds("4294967295")) == [4294967295]


@pytest.mark.parametrize("bad", ["", "9..0", "-1..3", "a..b", "0..", "..3", "0...9", "1,2", "0..4294967296", "٣"])
def test_what_is_no_seeds(bad):
    with pytest.raises(UsageError, match=r"--retriever-seeds is .*such as 0..9"):
        parse_seeds(bad)


def test_spread():
    found = spread({0: 50.0, 1: 54.0, 2: 52.0, 3: 56.0})
    assert found == Spread(mean=53.0, sd=pytest.approx((20 / 3) ** 0.5), min=50.0, max=56.0)
    assert spread({5: 1}) == (1.0, None, 1.0, 1.0)
    with pytest.raises(UsageError, match="no values"):
        spread({})
