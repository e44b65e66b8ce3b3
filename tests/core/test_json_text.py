"""JSON that strangers wrote: parsed, or refused by a ValueError."""

import json

import pytest

from kshot.core.text_files import MAX_DEPTH, parse_first_json, parse_json


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


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_deep_bytes_of_any_encoding_are_refused(encoding):
    assert parse_json(nested(MAX_DEPTH).encode(encoding)) == json.loads(nested(MAX_DEPTH))
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(nested(MAX_DEPTH + 1).encode(encoding))


@pytest.mark.parametrize("parse", [parse_json, parse_first_json])
def test_a_number_that_is_too_long_is_named(parse):
    with pytest.raises(ValueError, match="it holds a number of too many digits"):
        parse("9" * 5000)
