"""What statuses, headers and messages of a server mean."""

from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest

from kshot.backends.server.connection import normalised
from kshot.backends.server.http_errors import Answer, Refused, Transient, judged, retry_after, shortened
from kshot.core.errors import BackendError, UsageError


def meaning(status, body=None, *, answered=True, **headers):
    return judged(Answer(status, body, headers), where="here", key_name="A_KEY", answered=answered)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_what_may_succeed_later(status):
    found = meaning(status, **{"Retry-After": "7"})
    assert isinstance(found, Transient)
    assert found.after == 7
    assert found.throttled == (status == 429)


@pytest.mark.parametrize("status", [400, 403, 404, 413, 422])
def test_what_never_will_is_this_sample_s_failure(status):
    found = meaning(status, {"error": {"message": "no such luck"}})
    assert isinstance(found, Refused)
    assert (found.failed.kind, found.failed.retryable) == (f"http_{status}", False)
    assert "no such luck" in found.failed.message


@pytest.mark.parametrize(
    ("status", "answered", "hint"),
    [
        (401, True, "A_KEY"),
        (403, False, "A_KEY"),
        (404, False, "--base-url"),
        (402, True, "credit"),
        (307, True, "new"),
    ],
)
def test_what_would_hit_every_sample_stops_the_run(status, answered, hint):
    found = meaning(status, {"error": {"message": "m"}}, answered=answered, Location="http://new")
    assert isinstance(found, BackendError)
    assert hint in str(found)


def test_an_empty_account_is_not_a_rate_limit():
    spent = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
    assert isinstance(meaning(429, spent), BackendError)


def test_filters_have_a_kind_of_their_own():
    assert meaning(400, {"error": {"message": "no", "code": "content_filter"}}).failed.kind == "content_filter"


def test_faults_in_other_shapes():
    assert Answer(422, {"detail": "bad field"}, {}).fault[0] == "bad field"
    assert Answer(500, "oops", {}).fault[0] == ""
    assert Answer(500, None, {}, "<html>Bad\n gateway</html>").fault[0] == "<html>Bad gateway</html>"
    assert Answer(400, {"error": "plain"}, {}).fault[0] == "plain"


def test_retry_after_in_all_its_forms():
    soon = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=20))
    assert retry_after({"Retry-After": "1.5"}) == 1.5
    assert retry_after({"retry-after-ms": "250", "Retry-After": "1"}) == 0.25
    assert 18 < retry_after({"Retry-After": soon}) <= 20
    for none in ({}, {"Retry-After": "0"}, {"Retry-After": "-3"}, {"Retry-After": "soon"}, {"Retry-After": "nan"}):
        assert retry_after(none) is None
    assert retry_after({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}) is None


def test_messages_are_short_and_quote_no_key():
    text = shortened("Incorrect API key provided: sk-abcdefgh12345678.\n\n" + "x" * 1000)
    assert "abcdefgh" not in text
    assert len(text) <= 300
    assert "\n" not in text


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("http://localhost:8000", "http://localhost:8000/v1"),
        ("http://LOCALHOST:8000/", "http://localhost:8000/v1"),
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
        ("http://localhost:8000/v1/", "http://localhost:8000/v1"),
        ("http://localhost:8000/v1/chat/completions", "http://localhost:8000/v1"),
        ("https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1"),
        ("http://[::1]:8000", "http://[::1]:8000/v1"),
        ("http://my_host.:8000", "http://my_host.:8000/v1"),
        ("http://bücher.example", "http://bücher.example/v1"),
        ("https://host/v1beta/openai/", "https://host/v1beta/openai"),
    ],
)
def test_one_spelling_of_a_base_url(given, meant):
    assert normalised(given) == meant
    assert normalised(meant) == meant


@pytest.mark.parametrize(
    "bad",
    [
        "localhost:8000",
        "ftp://x",
        "ftp://me:secret@x",
        "http://",
        "http://me:secret@x/v1",
        "http://me:secret@x:abc/v1",
        "http://x/v1?key=secret",
        "http://localhost:abc/v1",
        "http://localhost:99999",
        "http://localhost:0",
        "http://localhost:-1",
        "http://[::1",
        "http://....",
        "http://a..b/v1",
        "http://a b/v1",
        f"http://{'x' * 64}.org",
    ],
)
def test_what_is_no_base_url(bad):
    with pytest.raises(UsageError) as caught:
        normalised(bad)
    assert "secret" not in str(caught.value)


def test_what_a_server_says_can_be_printed_whatever_bytes_it_sent():
    assert shortened("caf\udce9 closed").encode() == b"caf? closed"
