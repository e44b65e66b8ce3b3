"""How a p is written."""

import pytest

from kshot.core.failed_parts import p_text


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (0.0, "< 0.0001"),
        (0.00009999, "< 0.0001"),
        (0.0001, "0.0001"),
        (0.0123, "0.012"),
        (0.0496, "0.0496"),
        (0.0504, "0.0504"),
        (0.0499999, "0.0499999"),
        (0.0500001, "0.0500001"),
        (0.049999999999, "0.049999999999"),
        (0.05, "0.05"),
        (0.5, "0.5"),
        (1.0, "1"),
    ],
)
def test_its_side_of_5_percent_is_seen(p, text):
    assert p_text(p) == text
