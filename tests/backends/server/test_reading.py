"""Compressed replies: all of one is read, and one that is not whole is asked for again."""

import gzip
import json
import zlib

import pytest

from kshot.backends.server import http_errors
from kshot.core.records import Failed, Generate, Generated, Message, Prompt
from tests.backends.server.clients import connect
from tests.backends.server.lying_server import GOOD, LyingServer, answer, http
from tests.tiny_models import ask_all

BODY = json.dumps(answer("whole", padding="ä" * 500)).encode()
LIMIT = 10**6


def deflated(window):
    packer = zlib.compressobj(9, zlib.DEFLATED, window)
    return packer.compress(BODY) + packer.flush()


PACKED = {
    "gzip": ("gzip", gzip.compress(BODY)),
    "two members": ("gzip", gzip.compress(BODY[:30]) + gzip.compress(BODY[30:])),
    "an empty member first": ("x-gzip", gzip.compress(b"") + gzip.compress(BODY)),
    "a member for every byte": ("gzip", b"".join(gzip.compress(BODY[i : i + 1]) for i in range(len(BODY)))),
    "zlib": ("Deflate", deflated(15)),
    "raw deflate": ("deflate", deflated(-15)),
}


@pytest.mark.parametrize("case", PACKED)
def test_all_of_a_compressed_body_is_read_within_the_limit(case):
    encoding, raw = PACKED[case]
    assert http_errors.unpacked(raw, encoding, LIMIT) == (BODY, False)
    assert http_errors.unpacked(raw, encoding, len(BODY)) == (BODY, False)
    assert http_errors.unpacked(raw, encoding, len(BODY) - 1) == (BODY[:-1], True)
    assert http_errors.unpacked(raw, encoding, 40) == (BODY[:40], True)


@pytest.mark.parametrize("case", ["gzip", "two members", "zlib", "raw deflate"])
def test_a_compressed_body_that_is_cut_anywhere_is_broken(case):
    encoding, raw = PACKED[case]
    ends = set(range(1, len(raw))) - {len(gzip.compress(BODY[:30])) if case == "two members" else 0}
    for end in ends:
        with pytest.raises(http_errors.BrokenError):
            http_errors.unpacked(raw[:end], encoding, LIMIT)


def damaged(raw, at):
    return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]


@pytest.mark.parametrize(
    ("encoding", "raw"),
    [
        ("gzip", damaged(gzip.compress(BODY), -5)),
        ("gzip", damaged(gzip.compress(BODY), -2)),
        ("gzip", damaged(gzip.compress(BODY[:30]), -6) + gzip.compress(BODY[30:])),
        ("gzip", gzip.compress(BODY) + b"more"),
        ("gzip", BODY),
        ("deflate", damaged(deflated(15), -2)),
        ("deflate", BODY),
    ],
)
def test_a_compressed_body_that_is_damaged_is_broken(encoding, raw):
    with pytest.raises(http_errors.BrokenError, match="damaged"):
        http_errors.unpacked(raw, encoding, LIMIT)


def test_a_gzip_of_too_many_members_is_refused(monkeypatch):
    monkeypatch.setattr(http_errors, "MAX_MEMBERS", 5)
    assert http_errors.unpacked(gzip.compress(b"1") * 5, "gzip", LIMIT) == (b"11111", False)
    with pytest.raises(http_errors.TooLargeError, match="more than 5 members"):
        http_errors.unpacked(gzip.compress(b"1") * 6, "gzip", LIMIT)


def ask(reply, **options):
    with LyingServer(reply) as server:
        backend = connect(server, timeout=20, **options)
        requests = [Generate(Prompt(messages=(Message("user", text),))) for text in (GOOD, "bad")]
        found = [ask_all(backend, [each])[0] for each in requests]
        backend.close()
    return found[1], len(server.requests) - 1


def test_a_broken_reply_is_asked_for_again():
    _, raw = PACKED["gzip"]
    replies = iter([raw[:-8], raw[:-1], raw])
    found, tries = ask(lambda: iter([http(next(replies), 200, "content-encoding: gzip")]))
    assert isinstance(found, Generated)
    assert (found.text, tries) == ("whole", 3)


def test_a_broken_error_is_still_that_error():
    found, tries = ask(http(PACKED["gzip"][1][:-8], 400, "content-encoding: gzip"))
    assert isinstance(found, Failed)
    assert (found.kind, found.message, tries) == ("http_400", "the server says 400", 1)


def test_a_reply_that_stays_broken_says_so():
    found, _ = ask(http(PACKED["gzip"][1][:-8], 200, "content-encoding: gzip"), patience=0.01)
    assert isinstance(found, Failed)
    assert "the server's reply is broken: its gzip is not complete" in found.message
