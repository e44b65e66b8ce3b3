"""What the statuses, headers and messages of a server mean."""

from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest

from kshot.backends.server import http_errors
from kshot.backends.server.keys import normalised_url
from kshot.core.errors import UsageError


def error_of(status, body=None, *, answered=True, **headers):
    return http_errors.error_from(
        http_errors.HttpReply(status, body, headers), where="here", key_hint="A_KEY", answered=answered
    )


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_errors_that_are_tried_again(status):
    found = error_of(status, **{"Retry-After": "7"})
    assert isinstance(found, http_errors.RetryableError)
    assert found.retry_after == 7
    assert found.rate_limited == (status == 429)


@pytest.mark.parametrize("status", [400, 403, 404, 413, 422])
def test_errors_that_only_this_sample_gets(status):
    found = error_of(status, {"error": {"message": "no such luck"}})
    assert isinstance(found, http_errors.RequestFailedError)
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
def test_errors_that_every_sample_would_get_stop_the_run(status, answered, hint):
    found = error_of(status, {"error": {"message": "m"}}, answered=answered, Location="http://new")
    assert isinstance(found, http_errors.HttpStatusError)
    assert found.status == status
    assert hint in str(found)


def test_an_empty_account_is_not_a_rate_limit():
    no_credit = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
    assert isinstance(error_of(429, no_credit), http_errors.HttpStatusError)


def test_content_filters_have_their_own_kind_of_failure():
    assert error_of(400, {"error": {"message": "no", "code": "content_filter"}}).failed.kind == "content_filter"


def test_errors_in_other_forms():
    assert http_errors.HttpReply(422, {"detail": "bad field"}, {}).error.message == "bad field"
    assert http_errors.HttpReply(500, "oops", {}).error.message == ""
    assert (
        http_errors.HttpReply(500, None, {}, "<html>Bad\n gateway</html>").error.message == "<html>Bad gateway</html>"
    )
    assert http_errors.HttpReply(400, {"error": "plain"}, {}).error.message == "plain"


@pytest.mark.parametrize(("given", "named"), [(None, ""), ("None", ""), ("", ""), ("seed", "seed"), (3, "3")])
def test_the_parameter_that_an_error_names(given, named):
    assert http_errors.HttpReply(400, {"error": {"message": "no", "param": given}}, {}).error.parameter == named


def test_retry_after_in_all_its_forms():
    in_20_seconds = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=20))
    assert http_errors.retry_after({"Retry-After": "1.5"}) == 1.5
    assert http_errors.retry_after({"retry-after-ms": "250", "Retry-After": "1"}) == 0.25
    assert 18 < http_errors.retry_after({"Retry-After": in_20_seconds}) <= 20
    for none in ({}, {"Retry-After": "0"}, {"Retry-After": "-3"}, {"Retry-After": "soon"}, {"Retry-After": "nan"}):
        assert http_errors.retry_after(none) is None
    assert http_errors.retry_after({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}) is None


def test_messages_are_short_and_contain_no_key():
    text = http_errors.shortened("Incorrect API key provided: sk-abcdefgh12345678.\n\n" + "x" * 1000)
    assert "abcdefgh" not in text
    assert len(text) <= 300
    assert "\n" not in text


@pytest.mark.parametrize(
    ("given", "expected"),
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
def test_a_base_url_has_one_spelling(given, expected):
    assert normalised_url(given) == expected
    assert normalised_url(expected) == expected


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
def test_texts_that_are_no_base_url(bad):
    with pytest.raises(UsageError) as caught:
        normalised_url(bad)
    assert "secret" not in str(caught.value)


def test_a_message_can_be_printed_whatever_bytes_the_server_sent():
    assert http_errors.shortened("caf\udce9 closed").encode() == b"caf? closed"
