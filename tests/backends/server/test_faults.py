"""Servers that refuse, break off, crawl and fall silent: everything is answered, nothing twice, and no storm."""

import json
import random
import threading
import time

import pytest

import kshot
from kshot.backends import open_backend
from kshot.core.errors import BackendError
from kshot.core.records import Failed, Generate, Generated, Message, Prompt
from tests.datasets.fakes import generation
from tests.fake_server import FakeServer, Reply, chat, echo, error
from tests.tiny_models import Queue, ask_all


def asking(count):
    return [Generate(Prompt(messages=(Message("user", str(i)),))) for i in range(count)]


def opened(server, **options):
    return open_backend("openai:m", {"base_url": server.url, **options})


def faulty(share, seed=1):
    """Answers, but this share of the calls goes wrong in one way or another."""
    chance = random.Random(seed)

    def answer(call):
        if chance.random() >= share:
            return echo(call)
        return chance.choice(
            [error(429, "slow down"), error(500, "oops"), Reply("", cut=0), Reply(echo(call), cut=40), Reply('{"choi')]
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


def test_nothing_but_429_for_a_while_loses_nothing_and_makes_no_storm():
    begun = []

    def answer(call):
        begun.append(call.at)
        if call.at - begun[0] < 2.4:
            return error(429, "later", {"Retry-After": "2"})
        return echo(call)

    with FakeServer(answer, latency=0.01) as server:
        found = ask_all(opened(server, max_concurrency=100), asking(500))
    assert all(isinstance(each, Generated) for each in found)
    refused = len(server.calls) - 500
    assert refused <= 103  # those under way at first, then one at a time
    early = [call.at - begun[0] for call in server.calls if 0.5 < call.at - begun[0] < 3.9]
    assert len(early) == 1


def test_without_retry_after_the_pauses_grow():
    began = time.monotonic()

    def answer(call):
        return echo(call) if time.monotonic() - began > 2 else Reply("no", 503)

    with FakeServer(answer, latency=0.01) as server:
        found = ask_all(opened(server, max_concurrency=50), asking(100))
    assert all(isinstance(each, Generated) for each in found)
    assert len(server.calls) - 100 < 70  # 50 to begin with, then one at a time


def test_a_wait_beyond_all_patience_stops_the_run():
    with (
        FakeServer(lambda _: error(429, "daily limit", {"Retry-After": "86400"})) as server,
        pytest.raises(BackendError, match=r"asks to wait for 86400 s\. Come back then\. What was answered is kept"),
    ):
        ask_all(opened(server), asking(3))


def test_a_server_that_never_answers_ends_the_patience():
    with FakeServer(lambda _: Reply("no", 503)) as server, pytest.raises(BackendError, match="no answer for"):
        ask_all(opened(server, patience=1.0), asking(30))


def test_a_server_that_dies_half_way_leaves_what_it_answered(tmp_path):
    rows = [{"q": str(i), "target": f"<{i}:>"} for i in range(300)]
    with FakeServer(echo, latency=0.02) as server:
        options = dict(base_url=server.url, model_type="chat", max_concurrency=20, patience=0.5)

        def dead(call):
            return Reply("", cut=0)

        threading.Timer(0.2, lambda: setattr(server, "answer", dead)).start()
        try:
            kshot.evaluate("openai:m", generation(rows), out=tmp_path / "run", **options)
        except BackendError as exc:
            assert "What was answered is kept" in str(exc)
        kept = len((tmp_path / "run" / "journal.jsonl").read_text().splitlines())
        assert 20 <= kept < 300
        server.answer, before = echo, len(server.calls)
        result = kshot.evaluate("openai:m", generation(rows), out=tmp_path / "run", **options)
    assert result.results[0]["n"] == 300
    assert len(server.calls) - before <= 300 - 20


def test_a_reply_that_does_not_come_is_asked_again():
    slow = iter([Reply(chat("late"), after=5.0)])
    with FakeServer(lambda _: next(slow, chat("ok"))) as server:
        began = time.monotonic()
        (found,) = ask_all(opened(server, timeout=0.3), asking(1))
    assert found.text == "ok"
    assert time.monotonic() - began < 4


def test_it_grows_to_what_is_allowed_and_not_beyond():
    with FakeServer(echo, latency=0.05) as server:
        ask_all(opened(server, max_concurrency=100), asking(600))
    assert 50 < server.most <= 100  # how many of 100 are there together is the machine's affair
    with FakeServer(echo, latency=0.01) as server:
        ask_all(opened(server, max_concurrency=3), asking(30))
    assert server.most == 3


def test_requests_a_minute():
    with FakeServer(echo) as server:
        stream = opened(server, rpm=20).serve(Queue(asking(40)))
        began = time.monotonic()
        for _ in range(20):
            next(stream)
        assert time.monotonic() - began < 5
        time.sleep(0.3)
        stream.close()
    assert len(server.calls) == 20


def test_tokens_a_minute():
    with FakeServer(lambda _: chat("x", usage=(90, 10))) as server:
        stream = opened(server, tpm=1000, max_concurrency=1).serve(Queue(asking(40)))
        for _ in range(9):
            next(stream)
        time.sleep(0.2)
        stream.close()
    assert 9 <= len(server.calls) <= 10


def test_serving_ends_cleanly_when_nobody_wants_the_rest():
    with FakeServer(echo, latency=0.05) as server:
        backend = opened(server, max_concurrency=4)
        stream = backend.serve(Queue(asking(100)))
        next(stream)
        stream.close()
        time.sleep(0.2)
        assert len(server.calls) < 20
        (found,) = ask_all(backend, asking(1))  # and the next one is served as ever
        assert isinstance(found, Generated)
        backend._link.close()
        assert not backend._link.tasks


def test_two_at_once_on_one_backend():
    with FakeServer(echo, latency=0.01) as server:
        backend = opened(server)
        outer = backend.serve(Queue(asking(10)))
        next(outer)
        inner = ask_all(backend, asking(5))
        assert len(inner) == 5
        assert len(list(outer)) == 9


def test_failures_are_asked_again_by_the_same_command(tmp_path):
    rows = [{"q": "a", "target": "<a:>"}, {"q": "b", "target": "<b:>"}]

    def answer(call):
        return error(400, "no") if call.asked == "b:" else echo(call)

    with FakeServer(answer) as server:
        options = dict(base_url=server.url, model_type="chat", out=tmp_path / "run")
        result = kshot.evaluate("openai:m", generation(rows), **options)
        assert (result.results[0]["n"], result.results[0]["failed"]) == (1, 1)
        server.answer = echo
        result = kshot.evaluate("openai:m", generation(rows), **options)
    assert (result.results[0]["n"], result.results[0]["failed"]) == (2, 0)
    assert len(server.calls) == 3
    assert not isinstance(result.samples[1]["response"], Failed)
