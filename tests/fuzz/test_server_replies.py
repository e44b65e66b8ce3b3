"""Replies of servers: any bytes and any JSON are read, or are one of the failures that a run names."""

import asyncio
import gzip
import json
import zlib
from contextlib import suppress

from hypothesis import strategies as st

from kshot.backends.server import http_errors, replies
from kshot.backends.server.anthropic import Anthropic
from kshot.backends.server.connection import MalformedReplyError
from kshot.backends.server.http_errors import BrokenError, TooLargeError, UnreadableError, parsed, unpacked
from kshot.backends.server.openai import OpenAI
from kshot.backends.server.replies import usage_from
from kshot.backends.texts import cut_at_stop
from kshot.core.records import Generate, Generated, Message, Prompt
from kshot.core.validation import checked_response
from tests.fuzz.harness import DEEP, HUGE_INT, any_text, fuzz, grafted, json_bytes, json_values, mutated

READABLE = (
    MalformedReplyError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    http_errors.RequestFailedError,
)
"""What ``Connection`` makes a failure of: the reply cannot be read. Everything else would end the run."""

CHAT = {"id": "1", "choices": [{"message": {"role": "assistant", "content": "hi", "reasoning_content": "hm", "tool_calls": None}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}  # fmt: skip
TEXT = {
    "choices": [{"text": "hi <think>x</think>", "finish_reason": "length"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2},
}
PARTS = {"choices": [{"message": {"content": [{"type": "text", "text": "a"}, {"type": "image"}]}}]}
CLAUDE = {"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "hi"}], "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 0}}  # fmt: skip
TEXT_REQUEST = Generate(Prompt("say"), stop=("END",))
CHAT_REQUEST = Generate(Prompt(messages=(Message("user", "say"),)), stop=("END", "\n\n"))
bodies = st.one_of(*(grafted(value, odds=10) for value in (CHAT, TEXT, PARTS, CLAUDE)), json_values())


def answered(model, request, body):
    """Have a model answer with this body as the server's reply; None where the reply cannot be read."""

    async def post(_group, call):
        return call.read(body)

    model._post = post
    try:
        return asyncio.run(model._answer(None, request))
    except READABLE:
        return None


def test_whole_replies_are_read():
    """What the others draw is near to these."""
    openai, claude = (kind("m", base_url="http://localhost:1/v1") for kind in (OpenAI, Anthropic))
    assert answered(openai, CHAT_REQUEST, CHAT).text == answered(claude, CHAT_REQUEST, CLAUDE).text == "hi"
    assert answered(openai, TEXT_REQUEST, TEXT).reasoning == "x"
    assert answered(openai, CHAT_REQUEST, PARTS).text == "a"


@fuzz(bodies, examples=50)
def test_a_reply_of_any_shape_is_an_answer_or_cannot_be_read(body):
    for model, requests in (
        (OpenAI("m", base_url="http://localhost:1/v1"), (TEXT_REQUEST, CHAT_REQUEST)),
        (Anthropic("m", base_url="http://localhost:1/v1"), (CHAT_REQUEST,)),
    ):
        for request in requests:
            found = answered(model, request, body)
            if found is not None:
                assert isinstance(found, Generated)
                assert checked_response(request, found, "here") == found
                assert not any(stop in found.text for stop in request.stop)
                assert json.dumps(found.text)


@fuzz(
    st.one_of(
        bodies.map(json_bytes).flatmap(lambda raw: mutated(st.just(raw))),
        st.binary(max_size=60),
        st.sampled_from(
            [DEEP.encode(), HUGE_INT.encode(), b"", b"\xff\xfe", json_bytes(CHAT).decode().encode("utf-16")]
        ),
    )
)
def test_a_body_of_any_bytes_is_json_or_named(raw):
    try:
        body, written = parsed(raw)
    except (ValueError, UnreadableError, TooLargeError):
        return
    assert json.dumps(body) == json.dumps(json.loads(written))


@fuzz(
    st.binary(max_size=300),
    st.sampled_from(["gzip", "deflate", "identity", "", "br", "x-gzip", " GZIP "]),
    st.integers(1, 400),
    st.integers(0, 5),
)
def test_a_packed_body_is_unpacked_up_to_the_limit(raw, encoding, limit, damage):
    packed = {"gzip": gzip.compress(raw), "x-gzip": gzip.compress(raw), "deflate": zlib.compress(raw)}.get(
        encoding.strip().lower(), raw
    )
    try:
        found, more = unpacked(packed[: len(packed) - damage], encoding, limit)
    except UnreadableError:
        assert encoding == "br"
        return
    except BrokenError:
        assert damage
        return
    assert len(found) <= limit or encoding in {"identity", ""}
    if not damage and encoding not in {"identity", ""}:
        assert found == raw[:limit]
        assert more == (len(raw) > limit)


ERROR = {"error": {"message": "no sk-abcdefghijkl here", "code": "x", "type": "y", "param": "max_tokens"}}


@fuzz(st.integers(100, 599), grafted(ERROR, odds=5) | json_values(), any_text, st.booleans())
def test_every_status_is_a_failure_that_says_something(status, body, text, answered):
    if status == 200:
        return
    found = http_errors.error_from(
        http_errors.HttpReply(status, body, {"Retry-After": text}, text),
        where="here",
        key_hint="hint",
        answered=answered,
    )
    assert isinstance(found, (http_errors.RetryableError, http_errors.RequestFailedError, http_errors.HttpStatusError))
    assert str(status) in str(found)
    assert "sk-abcdefghijkl" not in str(found)
    assert "\n" not in str(found)


@fuzz(
    st.sampled_from(
        [
            "",
            "1",
            "1.5",
            "-1",
            "nan",
            "inf",
            "1e400",
            "Wed, 21 Oct 2015 07:28:00 GMT",
            "Wed, 21 Oct 9999 07:28:00",
            "Mon, 32 Foo 2015",
            "Thu, 01 Jan 0001 00:00:00 +9999",
            "9" * 400,
        ]
    )
    | any_text
)
def test_a_time_to_wait_is_positive_or_none(text):
    for headers in ({"Retry-After": text}, {"retry-after-ms": text}):
        found = http_errors.retry_after(headers)
        assert found is None or 0 < found < float("inf")


@fuzz(any_text)
def test_a_shortened_text_is_one_line(text):
    assert len(http_errors.shortened(text * 50)) <= 300
    assert not http_errors.shortened(text).splitlines()[1:]


@fuzz(any_text, st.lists(st.text(min_size=1, max_size=3), max_size=3))
def test_a_text_is_cut_at_the_first_stop(text, stop):
    found = cut_at_stop(text, stop)
    assert (found is None) == (not any(each in text for each in stop))
    assert found is None or (text.startswith(found) and not any(each in found for each in stop))


@fuzz(grafted({"usage": {"prompt_tokens": 1, "completion_tokens": 2}}, odds=3))
def test_usage_is_possible_or_none(body):
    if isinstance(body, dict):
        found = usage_from(body)
        assert found is None or 0 <= found.prompt_tokens <= 4 * 10**12


# ---- log-probabilities ----

ECHO = {"logprobs": {"tokens": ["a", "b"], "token_logprobs": [None, -1.5], "top_logprobs": [None, {"b": -1.5}]}}
PROMPT = {"prompt_logprobs": [None, {"12": {"logprob": -1.0, "rank": 1, "decoded_token": "x"}}]}
LISTED = {"logprobs": {"content": [{"top_logprobs": [{"token": "A", "logprob": -0.5}]}], "top_logprobs": [{"A": -0.5}]}}


@fuzz(st.one_of(grafted(ECHO), grafted(PROMPT), grafted(LISTED), json_values()), examples=50)
def test_logprobs_of_any_shape_are_read_or_cannot_be(choice):
    for read in (replies.tokens_from_echo, replies.tokens_from_prompt_logprobs):
        try:
            found = read(choice)
        except READABLE:
            continue
        if found is not None:
            assert len(found.texts) == len(found.logprobs)
            assert all(value is None or value <= 1e-3 for value in found.logprobs)
    for chat in (True, False):
        with suppress(*READABLE):
            assert all(value <= 0.01 for value in replies.top_logprobs(choice, chat=chat).values())


tokens = st.lists(
    st.sampled_from(["", "a", "b", "é", "\ufffd", " ", "<0xc3>", "bytes:\\xc3", "<s>"]) | any_text, max_size=6
)


@fuzz(tokens, any_text, st.integers(0, 3))
def test_tokens_are_matched_with_any_text(texts, text, number):
    start = replies.continuation_start(texts, text)
    assert start is None or "".join(texts[start:]).endswith(text)
    assert replies.text_end(texts, text, number) <= len(texts)
    assert replies.covers(texts, text, number) in (True, False)
    assert replies.covers(texts, "".join(texts), 0)
