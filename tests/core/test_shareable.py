"""Values for others to see have no keys, and every file can hold their texts."""

import json

import pytest

from kshot.core.shareable import shareable, well_formed, well_formed_value

KEY = "sk-" + "a1" * 12


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"request_option": ["api_key=hunter22", "seed=3"]}, {"request_option": ["api_key=***", "seed=3"]}),
        ({"request_option": [f"extra={KEY}"]}, {"request_option": ["extra=***"]}),
        ({"request_option": {"password": "hunter22", "seed": 3}}, {"request_option": {"password": "***", "seed": 3}}),
        ({"header": ["x-mine: hunter22"]}, {"header": ["***"]}),
        ({"base_url": "https://me:hunter22@host/v1"}, {"base_url": "https://***@host/v1"}),
        ({"instruction": "The password: find it.", "limit": 5}, {"instruction": "The password: find it.", "limit": 5}),
        ([None, True, 1.5, ("a",)], [None, True, 1.5, ["a"]]),
    ],
)
def test_keys_are_replaced(value, shown):
    assert shareable(value) == shown


def test_texts_can_be_written():
    odd = {"half \ud800": ["日", {"x": "\udfff"}, 3, None]}
    expected = {"half \\ud800": ["日", {"x": "\\udfff"}, 3, None]}
    assert well_formed_value(odd) == shareable(odd) == expected
    assert json.dumps(expected, ensure_ascii=False).encode()
    assert well_formed("plain") == "plain"
