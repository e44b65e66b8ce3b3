"""Requests and responses as JSON: what goes out comes back; equal requests and no others have equal digests."""

import json

from hypothesis import strategies as st

from kshot.core.serialization import digest, request_body, response_from_json, response_to_json
from tests.fuzz import records
from tests.fuzz.harness import fuzz, json_values


@fuzz(records.responses)
def test_a_response_comes_back_from_json_text(response):
    assert response_from_json(json.loads(json.dumps(response_to_json(response)))) == response


@fuzz(
    json_values().filter(lambda value: isinstance(value, dict))
    | st.builds(
        lambda r, more: response_to_json(r) | more,
        records.responses,
        st.dictionaries(
            st.sampled_from(["usage", "text", "scored", "hits", "cut_tokens", "stop_reason", "failed", "message"]),
            json_values(depth=2),
            max_size=2,
        ),
    )
)
def test_json_of_another_shape_is_read_or_named_as_damaged(body):
    """The journal names these exceptions as damage; nothing else may come out."""
    try:
        response_from_json(body)
    except (KeyError, TypeError, ValueError):
        return


@fuzz(records.requests, records.requests)
def test_requests_have_equal_digests_exactly_if_they_are_equal(one, other):
    same = json.dumps(request_body(one)) == json.dumps(request_body(other))
    assert (digest(one) == digest(other)) == same
    assert one != other or same
