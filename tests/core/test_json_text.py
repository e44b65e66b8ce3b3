"""JSON that strangers wrote: parsed, or refused by a ValueError."""

import json

import pytest

from kshot.core.json_text import MAX_DEPTH, parse_first_json, parse_json


def nested(depth):
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    "text", [nested(MAX_DEPTH), '{"a": ' * MAX_DEPTH + "1" + "}" * MAX_DEPTH, "[[], {}, 1]", "null"]
)
def test_what_is_not_too_deep_is_parsed(text):
    assert parse_json(text) == json.loads(text)
    assert parse_first_json(f" {text} rest", 1) == (json.loads(text), 1 + len(text))


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 100_000])
@pytest.mark.parametrize("parse", [parse_json, parse_first_json])
def test_what_is_too_deep_is_refused(parse, depth):
    with pytest.raises(ValueError, match="nested too deeply"):
        parse(nested(depth))


@pytest.mark.parametrize("text", ["[", "", b"\xff", "9" * 5000])
def test_every_other_fault_is_a_value_error_too(text):
    with pytest.raises(ValueError):  # noqa: PT011 - the messages are those of Python
        parse_json(text)
