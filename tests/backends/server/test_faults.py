"""Servers that refuse, break connections or are slow: all requests are answered, none twice, without a flood of retries."""

import json
import random
import threading
import time

import pytest

import kshot
from kshot.core.errors import BackendError
from kshot.core.records import Failed, Generated
from tests.backends.server.clients import chat_requests, connect
from tests.datasets.fakes import generation
from tests.fake_server import FakeServer, Reply, chat, echo, error
from tests.tiny_models import Queue, ask_all


def faulty(share, seed=1):
    """Return an answer function of which this share of the replies is faulty."""
    rng = random.Random(seed)

    def answer(call):
        if rng.random() >= share:
            return echo(call)
        return rng.choice(
            [
                error(429, "slow down"),
                error(500, "oops"),
                Reply("", cut_after=0),
                Reply(echo(call), cut_after=40),
                Reply('{"choi'),
            ]
        )

    return answer


def test_with_two_percent_of_faults_every_sample_is_answered_and_none_twice(tmp_path):
    rows = [{"q": str(i), "target": f"<{i}:>"} for i in range(2000)]
    with FakeServer(faulty(0.02), latency=0.005) as server:
        options = dict(base_url=server.url, model_type="chat", max_concurrency=100)
        result = kshot.evaluate("openai:m", generation(rows), out=tmp_path / "run", **options)
    (row,) = result.results
    assert (row["n"], row["failed"], row["value"]) == (2000, 0, 100.0)
    keys = [json.loads(line)["key"] for line in (tmp_path / "run" / "journal.jsonl").read_text().splitlines()]
    assert len(keys) == len(set(keys)) == 2000
    assert 2010 < len(server.calls) < 2100


def test_429_for_two_seconds_loses_no_request_and_causes_no_flood_of_retries():
    times = []

    def answer(call):
        times.append(call.at)
        if call.at - times[0] < 2.4:
            return error(429, "later", {"Retry-After": "2"})
        return echo(call)

    with FakeServer(answer, latency=0.01) as server:
        found = ask_all(connect(server, max_concurrency=100), chat_requests(500))
    assert all(isinstance(each, Generated) for each in found)
    refused = len(server.calls) - 500
    assert refused <= 103  # those that ran at first, then one at a time
    early = [call.at - times[0] for call in server.calls if 0.5 < call.at - times[0] < 3.9]
    assert len(early) == 1


def test_without_retry_after_the_pauses_grow():
    began = time.monotonic()

    def answer(call):
        return echo(call) if time.monotonic() - began > 2 else Reply("no", 503)

    with FakeServer(answer, latency=0.01) as server:
        found = ask_all(connect(server, max_concurrency=50), chat_requests(100))
    assert all(isinstance(each, Generated) for each in found)
    assert len(server.calls) - 100 < 70  # 50 to begin with, then one at a time


def test_a_retry_after_beyond_the_patience_stops_the_run():
    with (
        FakeServer(lambda _: error(429, "daily limit", {"Retry-After": "86400"})) as server,
        pytest.raises(
            BackendError, match=r"asks to wait for 86400 s\. Try again after that\. The answers so far are kept"
        ),
    ):
        ask_all(connect(server), chat_requests(3))


def test_a_server_that_never_answers_stops_the_run():
    with FakeServer(lambda _: Reply("no", 503)) as server, pytest.raises(BackendError, match="no answer for"):
        ask_all(connect(server, patience=1.0), chat_requests(30))


def test_the_answers_of_a_server_that_dies_are_kept(tmp_path):
    rows = [{"q": str(i), "target": f"<{i}:>"} for i in range(300)]
    with FakeServer(echo, latency=0.02) as server:
        options = dict(base_url=server.url, model_type="chat", max_concurrency=20, patience=0.5)

        def dead(call):
            return Reply("", cut_after=0)

        threading.Timer(0.2, lambda: setattr(server, "answer", dead)).start()
        try:
            kshot.evaluate("openai:m", generation(rows), out=tmp_path / "run", **options)
        except BackendError as exc:
            assert "The answers so far are kept" in str(exc)
        journalled = len((tmp_path / "run" / "journal.jsonl").read_text().splitlines())
        assert 20 <= journalled < 300
        server.answer, before = echo, len(server.calls)
        result = kshot.evaluate("openai:m", generation(rows), out=tmp_path / "run", **options)
    assert result.results[0]["n"] == 300
    assert len(server.calls) - before <= 300 - 20


def test_a_request_that_gets_no_reply_is_sent_again():
    slow = iter([Reply(chat("late"), delay=5.0)])
    with FakeServer(lambda _: next(slow, chat("ok"))) as server:
        began = time.monotonic()
        (found,) = ask_all(connect(server, timeout=0.3), chat_requests(1))
    assert found.text == "ok"
    assert time.monotonic() - began < 4


def test_concurrency_grows_to_the_maximum_and_not_beyond():
    with FakeServer(echo, latency=0.05) as server:
        ask_all(connect(server, max_concurrency=100), chat_requests(600))
    assert 50 < server.max_running <= 100  # how many of 100 run at one time depends on the machine
    with FakeServer(echo, latency=0.01) as server:
        ask_all(connect(server, max_concurrency=3), chat_requests(30))
    assert server.max_running == 3


def test_requests_per_minute():
    with FakeServer(echo) as server:
        stream = connect(server, rpm=20).serve(Queue(chat_requests(40)))
        began = time.monotonic()
        for _ in range(20):
            next(stream)
        assert time.monotonic() - began < 5
        time.sleep(0.3)
        stream.close()
    assert len(server.calls) == 20


def test_tokens_per_minute():
    with FakeServer(lambda _: chat("x", usage=(90, 10))) as server:
        stream = connect(server, tpm=1000, max_concurrency=1).serve(Queue(chat_requests(40)))
        for _ in range(9):
            next(stream)
        time.sleep(0.2)
        stream.close()
    assert 9 <= len(server.calls) <= 10


def test_a_stream_that_is_closed_early_sends_no_further_requests():
    with FakeServer(echo, latency=0.05) as server:
        backend = connect(server, max_concurrency=4)
        stream = backend.serve(Queue(chat_requests(100)))
        next(stream)
        stream.close()
        time.sleep(0.2)
        assert len(server.calls) < 20
        (found,) = ask_all(backend, chat_requests(1))  # the next request is served as always
        assert isinstance(found, Generated)
        backend.close()
        assert not backend._event_loop.tasks


def test_two_streams_of_one_server():
    with FakeServer(echo, latency=0.01) as server:
        backend = connect(server)
        outer = backend.serve(Queue(chat_requests(10)))
        next(outer)
        inner = ask_all(backend, chat_requests(5))
        assert len(inner) == 5
        assert len(list(outer)) == 9


def test_the_same_command_asks_failed_requests_again(tmp_path):
    rows = [{"q": "a", "target": "<a:>"}, {"q": "b", "target": "<b:>"}]

    def answer(call):
        return error(400, "no") if call.prompt == "b:" else echo(call)

    with FakeServer(answer) as server:
        options = dict(base_url=server.url, model_type="chat", out=tmp_path / "run")
        result = kshot.evaluate("openai:m", generation(rows), **options)
        assert (result.results[0]["n"], result.results[0]["failed"]) == (1, 1)
        server.answer = echo
        result = kshot.evaluate("openai:m", generation(rows), **options)
    assert (result.results[0]["n"], result.results[0]["failed"]) == (2, 0)
    assert len(server.calls) == 3
    assert not isinstance(result.samples[1]["response"], Failed)
