"""Servers that lie: whatever they send, each request is accounted for, in bounded memory, and the run goes on."""

import gzip
import json
import subprocess
import sys
import time
import zlib
from contextlib import closing
from itertools import chain, repeat

import pytest

from kshot.backends.server import http_errors
from kshot.backends.server.keys import Secret
from kshot.core.errors import BackendError, UsageError
from kshot.core.records import Failed, Generate, Generated, Message, Prompt, Usage
from tests.backends.server.clients import connect
from tests.backends.server.lying_server import GOOD, LyingServer, answer, head, http
from tests.tiny_models import ask_all

MEGABYTE = 10**6
LIMIT = "2MB"


def bomb(window, megabytes=3000):
    """Return a compressed body that decompresses to so many megabytes: one block, many times."""
    packer = zlib.compressobj(9, zlib.DEFLATED, window)
    first = packer.compress(b'"' + b" " * (MEGABYTE - 1)) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(b" " * MEGABYTE) + packer.flush(zlib.Z_FULL_FLUSH)
    return first + block * (megabytes - 1)


def endless(start, part):
    """Return a reply that begins, and then repeats a part for ever."""
    return lambda: chain([start], repeat(part))


def dripping():
    yield head(200, "content-length: 1000000")
    while True:
        yield b" "
        time.sleep(0.05)


def deflated(body, window):
    packer = zlib.compressobj(9, zlib.DEFLATED, window)
    return packer.compress(json.dumps(body).encode()) + packer.flush()


def encoded(data, encoding):
    return http(data, 200, f"content-encoding: {encoding}")


def used(usage):
    return http(answer(usage=usage))


def chunked(*parts):
    sizes = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return head(200, "transfer-encoding: chunked", "connection: close") + sizes


WHOLE = json.dumps(answer()).encode()
TOO_LARGE, BAD, UNANSWERED = "reply_too_large", "bad_reply", "unanswered"

FAILURES = {
    # more than fits
    "gzip bomb": (TOO_LARGE, encoded(bomb(31), "gzip")),
    "gzip bomb in capitals": (TOO_LARGE, encoded(bomb(31), "X-GZip")),
    "deflate bomb": (TOO_LARGE, encoded(bomb(15), "deflate")),
    "raw deflate bomb": (TOO_LARGE, encoded(bomb(-15), "deflate")),
    "chunked gzip bomb": (TOO_LARGE, chunked(bomb(31), b"").replace(b"X\r\n", b"X\r\ncontent-encoding: gzip\r\n", 1)),
    "endless chunks": (TOO_LARGE, endless(head(200, "transfer-encoding: chunked"), b"10000\r\n" + b" " * 65536 + b"\r\n")),
    "endless body": (TOO_LARGE, endless(head(200, "connection: close"), b" " * 65536)),
    "a petabyte announced": (TOO_LARGE, endless(head(200, f"content-length: {10**15}"), b" " * 65536)),
    "endless key": (TOO_LARGE, endless(head(200, "connection: close") + b'{"', b"a" * 65536)),
    # encodings that nobody asked for
    "brotli": (BAD, encoded(WHOLE, "br")),
    "zstd": (BAD, encoded(WHOLE, "zstd")),
    "gzip twice": (BAD, encoded(gzip.compress(gzip.compress(WHOLE)), "gzip, gzip")),
    # bodies that break
    "half of gzip": (UNANSWERED, encoded(gzip.compress(WHOLE)[:-20], "gzip")),
    "not gzip": (UNANSWERED, encoded(WHOLE, "gzip")),
    "less than announced": (UNANSWERED, head(200, "content-length: 9999") + WHOLE),
    "more than announced": (UNANSWERED, head(200, "content-length: 40", "connection: close") + WHOLE),
    "a negative length": (UNANSWERED, head(200, "content-length: -1") + WHOLE),
    "a length of words": (UNANSWERED, head(200, "content-length: ten") + WHOLE),
    "two lengths": (UNANSWERED, head(200, "content-length: 5", "content-length: 6") + WHOLE),
    "a chunk size of words": (UNANSWERED, head(200, "transfer-encoding: chunked") + b"many\r\n"),
    "a chunk size of a yottabyte": (UNANSWERED, head(200, "transfer-encoding: chunked") + b"f" * 40 + b"\r\n{}"),
    "dripping": (UNANSWERED, dripping),
    "nothing": (UNANSWERED, b""),
    "another protocol": (UNANSWERED, b"SSH-2.0-OpenSSH_9.6\r\n"),
    "half a status line": (UNANSWERED, b"HTTP/1.1 2"),
    "server-sent events": (UNANSWERED, http(f"data: {json.dumps(answer())}\n\ndata: [DONE]\n\n")),
    "a page": (UNANSWERED, http("<html>Sign in</html>")),
    "not UTF-8": (UNANSWERED, http(WHOLE.replace(b"lie", b"\xff\xfe\xff"))),
    # heads that never end
    "endless header lines": (UNANSWERED, endless(b"HTTP/1.1 200 OK\r\n", b"x-a: b\r\n" * 1000)),
    "one endless header": (UNANSWERED, endless(b"HTTP/1.1 200 OK\r\nx-a: ", b"b" * 65536)),
    "an endless status line": (UNANSWERED, endless(b"HTTP/1.1 200 ", b"O" * 65536)),
    "5000 headers": (UNANSWERED, http(answer(), 200, *(f"x-{i}: {'b' * 50}" for i in range(5000)))),
    "please continue, for ever": (UNANSWERED, endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n")),
    "endless trailers": (UNANSWERED, endless(chunked(WHOLE) + b"0\r\n", b"x-a: b\r\n" * 1000)),
    "endless chunk extension": (UNANSWERED, endless(head(200, "transfer-encoding: chunked") + b"5;", b"a" * 65536)),
    # JSON that is hard to read
    "100,000 lists deep": (BAD, http(b"[" * 100_000 + b"]" * 100_000)),
    "100,000 objects deep": (BAD, http(b'{"a":' * 100_000 + b"1" + b"}" * 100_000)),
    "300 lists deep": (BAD, http(answer(more=json.loads("[" * 300 + "]" * 300)))),
    "a long number": (BAD, http(WHOLE.replace(b"3", b"3" * 100_000))),
    # wrong types
    "no object": (BAD, http([answer()])),
    "a text": (BAD, http('"lie"')),
    "null": (BAD, http("null")),
    "no choices": (BAD, http({})),
    "choices of letters": (BAD, http(answer(choices="abc"))),
    "choices by name": (BAD, http(answer(choices={"0": 1}))),
    "choices without end": (BAD, http(answer(choices=[]))),
    "choice null": (BAD, http(answer(choices=[None]))),
    "message null": (BAD, http(answer(choices=[{"message": None}]))),
    "message of letters": (BAD, http(answer(choices=[{"message": "lie"}]))),
    "content is a number": (BAD, http(answer(7))),
    "content is an object": (BAD, http(answer({"text": "lie"}))),
    "stop reason is a list": (BAD, http(answer(choices=[{"message": {"content": "x"}, "finish_reason": ["stop"]}]))),
    # errors
    "an error of 3 GB": ("http_400", encoded(bomb(31), "gzip").replace(b"200 X", b"400 X", 1)),
    "an endless error": ("http_418", endless(head(418, "connection: close"), b"no " * 20000)),
    "an endless overload": (UNANSWERED, endless(head(503, "connection: close"), b"no " * 20000)),
    "a deep error": ("http_400", http(b'{"error":' * 100_000 + b"1" + b"}" * 100_000, 400)),
    "an error 90 levels deep": ("http_400", http(b'{"error":' * 90 + b"1" + b"}" * 90, 400)),
    "an error in brotli": (BAD, http(b"x", 400, "content-encoding: br")),
    "an error inside 200": (UNANSWERED, http({"error": {"message": "no", "code": True}})),
    "no content": ("http_204", head(204, "connection: close")),
    "part of it": ("http_206", http(answer(), 206)),
    "wait for ever": (UNANSWERED, http("", 429, "retry-after: Mon, 99 Foo 99999999999999 99:99:99 GMT")),
    "wait for less than nothing": (UNANSWERED, http("", 429, "retry-after: -1e308", "retry-after-ms: NaN")),
}  # fmt: skip

NO_USAGE = "the server gives token counts that are not possible; they are not counted"
COUNTED = Usage(3, 1)
ANSWERS = {
    "gzip": (encoded(gzip.compress(WHOLE), "gzip"), COUNTED, None),
    "deflate": (encoded(deflated(answer(), 15), "deflate"), COUNTED, None),
    "raw deflate": (encoded(deflated(answer(), -15), "deflate"), COUNTED, None),
    "chunks": (chunked(WHOLE[:9], WHOLE[9:], b""), COUNTED, None),
    "UTF-16": (http(json.dumps(answer()).encode("utf-16")), COUNTED, None),
    "BOM": (http(b"\xef\xbb\xbf" + WHOLE), COUNTED, None),
    "no usage": (used(None), None, None),
    "usage without counts": (used({"prompt_tokens": None}), None, None),
    "negative usage": (used({"prompt_tokens": -3, "completion_tokens": 1}), None, NO_USAGE),
    "half negative usage": (used({"prompt_tokens": 3, "completion_tokens": -1}), None, NO_USAGE),
    "huge usage": (used({"prompt_tokens": 10**11, "completion_tokens": 1}), None, NO_USAGE),
    "1e308": (used({"prompt_tokens": 1e308, "completion_tokens": 1}), None, NO_USAGE),
    "NaN": (used({"prompt_tokens": float("nan"), "completion_tokens": 1}), None, NO_USAGE),
    "infinity": (used({"prompt_tokens": 3, "completion_tokens": float("inf")}), None, NO_USAGE),
    "usage in words": (used({"prompt_tokens": "3", "completion_tokens": "1"}), None, NO_USAGE),
    "usage is true": (used({"prompt_tokens": True, "completion_tokens": False}), None, NO_USAGE),
    "usage is a list": (used([3, 1]), None, NO_USAGE),
    "usage is a text": (used("3 tokens"), None, NO_USAGE),
    "usage of usage": (used({"prompt_tokens": {"prompt_tokens": 3}}), None, NO_USAGE),
    "keys twice": (http(WHOLE[:-1] + b', "usage": {"prompt_tokens": 3, "completion_tokens": 1}}'), COUNTED, None),
    "another model": (http(answer(model="n")), COUNTED, "the replies name another model than was asked for: 'n' instead of 'm'"),
    "a model in red": (http(answer(model="\x1b[31mn")), COUNTED, "the replies name another model than was asked for: '\\x1b[31mn' instead of 'm'"),
    "a model that is no text": (http(answer(model=["n"])), COUNTED, None),
    "the same model": (http(answer(model="org/M-2024-08-06")), COUNTED, None),
}  # fmt: skip


def chat(text):
    return Generate(Prompt(messages=(Message("user", text),)))


def ask(reply, **options):
    """Return what becomes of an honest request and of one that the server lies to, and the client."""
    settings = {"patience": 0.1, "timeout": 0.4, "max_reply": LIMIT} | options
    with LyingServer(reply) as server:
        backend = connect(server, **settings)
        (honest,) = ask_all(backend, [chat(GOOD)])
        (lied_to,) = ask_all(backend, [chat("bad")])
        backend.close()
    return honest, lied_to, backend


@pytest.mark.parametrize("case", FAILURES)
def test_a_lie_is_one_failed_sample_with_a_name(case):
    kind, reply = FAILURES[case]
    timeout = {} if kind == UNANSWERED else {"timeout": 20}
    honest, lied_to, _ = ask(reply, **timeout)
    assert honest == Generated("fine", "stop", COUNTED)
    assert isinstance(lied_to, Failed)
    assert lied_to.kind == kind
    assert len(lied_to.message) < 600


@pytest.mark.parametrize("case", ANSWERS)
def test_an_answer_is_used_and_what_is_wrong_beside_it_is_noted_once(case):
    reply, usage, note = ANSWERS[case]
    honest, lied_to, backend = ask(reply, timeout=20)
    assert honest == Generated("fine", "stop", COUNTED)
    assert lied_to == Generated("lie", "stop", usage)
    assert backend.notes == ([note] if note else [])


def test_another_model_is_noted_once_whatever_else_it_is_called():
    names = iter("abcdefgh")
    with LyingServer(lambda: iter([http(answer(model=next(names)))])) as server:
        backend = connect(server, max_concurrency=1)
        ask_all(backend, [chat(str(i)) for i in range(5)])
        backend.close()
    assert backend.notes == ["the replies name another model than was asked for: 'a' instead of 'm'"]


def test_a_server_whose_replies_all_hold_something_else_stops_the_run():
    with (
        LyingServer(http({"status": "ok"})) as server,
        closing(connect(server)) as backend,
        pytest.raises(BackendError, match=r"cannot be read: .*Check --base-url and --model-type"),
    ):
        ask_all(backend, [chat(str(i)) for i in range(60)])
    assert len(server.requests) < 60 * 3


def test_a_redirect_is_not_followed():
    with LyingServer(http(answer())) as other:
        target = f"location: {other.url}/v1/chat/completions"
        for status in (301, 302, 303, 307, 308):
            with (
                LyingServer(http("", status, target)) as server,
                closing(connect(server)) as backend,
                pytest.raises(BackendError, match="kshot follows no redirect"),
            ):
                ask_all(backend, [chat("bad")])
        assert other.requests == []


def test_a_reply_of_millions_of_think_tags_is_read_in_time_that_grows_with_it():
    _, lied_to, _ = ask(http(answer("x</think>" * 200_000)), timeout=60)
    assert isinstance(lied_to, Generated)
    assert lied_to.text == ""


def test_a_reply_of_too_many_values_is_refused_before_it_is_parsed(monkeypatch):
    monkeypatch.setattr(http_errors, "MAX_VALUES", 1000)
    with pytest.raises(http_errors.TooLargeError, match="more than 1,000 values"):
        http_errors.parsed(b"[" + b"[]," * 600 + b"0]")
    assert http_errors.parsed(b"[" + b"0," * 400 + b"0]")[0] == [0] * 401


def test_the_limit_is_on_the_decoded_size():
    padded = answer(padding=" " * 1000)
    data = json.dumps(padded).encode()
    for size, kind in ((len(data), Generated), (len(data) - 1, Failed)):
        for reply in (http(data), encoded(gzip.compress(data), "gzip")):
            assert isinstance(ask(reply, max_reply=str(size), timeout=20)[1], kind)


@pytest.mark.parametrize(
    ("text", "size"), [("64MB", 64 * 10**6), ("500 kB", 500_000), ("1gb", 10**9), ("7", 7), ("8B", 8)]
)
def test_sizes(text, size):
    assert http_errors.bytes_of(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "64MiB", "1.5MB", "MB", "64M", "9" * 20, "inf", "٣"])
def test_sizes_that_mean_nothing(text):
    with pytest.raises(UsageError, match="--max-reply is"):
        http_errors.bytes_of(text)


CLIENT = """
import sys
from kshot.backends import open_model
from kshot.core.records import Generate, Message, Prompt
from tests.tiny_models import ask_all
backend = open_model("openai:m", {"base_url": sys.argv[1]})
requests = [Generate(Prompt(messages=(Message("user", f"bad {i}"),))) for i in range(int(sys.argv[2]))]
print(*(each.kind for each in ask_all(backend, requests)))
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
# ru_maxrss would count what the process that started this one had.


@pytest.mark.skipif(sys.platform != "linux", reason="its peak of memory is read from /proc")
def test_many_bombs_of_3_gb_at_one_time_take_little_memory():
    with LyingServer(encoded(bomb(31), "gzip")) as server:
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, server.url, "3"], check=False, capture_output=True, text=True, timeout=300
        )
    assert done.returncode == 0, done.stderr
    kinds, kilobytes = done.stdout.splitlines()
    assert kinds.split() == [TOO_LARGE] * 3
    assert int(kilobytes) < 600_000


def test_a_secret_shows_nothing_of_itself():
    assert "sk-" not in f"{Secret('sk-1234567890')!r}{Secret('sk-1234567890')}"
