"""Servers that refuse, break connections or are slow: all requests are answered, none twice, without a flood of retries."""

import asyncio
import json
import random
from contextlib import closing

import pytest

import kshot
from kshot.core.errors import BackendError
from kshot.core.records import Failed, Generated
from kshot.core.watcher import Watcher
from tests.backends.server.clients import chat_requests, connect
from tests.datasets.fakes import generation
from tests.fake_server import FakeServer, Reply, chat, echo, error
from tests.tiny_models import Queue, answers_of, ask_all


def faulty(share, counter, seed=1):
    """Return an answer function of which this share of the replies is faulty; it counts them."""
    rng = random.Random(seed)

    def answer(call):
        if rng.random() >= share:
            return echo(call)
        counter[0] += 1
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
    faults = [0]
    with FakeServer(faulty(0.02, faults), latency=0.005) as server:
        options = dict(base_url=server.url, model_type="chat", max_concurrency=100)
        result = kshot.evaluate("openai:m", generation(rows), out=tmp_path / "run", **options)
    (row,) = result.results
    assert (row["n"], row["failed"], row["value"]) == (2000, 0, 100.0)
    keys = [json.loads(line)["key"] for line in (tmp_path / "run" / "journal.jsonl").read_text().splitlines()]
    assert len(keys) == len(set(keys)) == 2000
    assert len(server.calls) == 2000 + faults[0]
    assert faults[0] > 10


@pytest.mark.parametrize("refusal", [error(429, "later", {"retry-after-ms": "50"}), Reply("no", 503)])
def test_refused_requests_are_sent_again_until_they_are_answered(refusal):
    """How many are refused in a row, and what that does to the pauses: see ``test_rate_limiter``."""

    def answer(call):
        return refusal if call.number < 3 else echo(call)

    with FakeServer(answer) as server:
        model = connect(server, max_concurrency=100)
        found = ask_all(model, chat_requests(500))
    assert all(isinstance(each, Generated) for each in found)
    assert len(server.calls) == 503
    assert model.abilities.tries.retries == 3  # which a run shows while it is under way


def test_a_retry_after_beyond_the_patience_stops_the_run():
    with (
        FakeServer(lambda _: error(429, "daily limit", {"Retry-After": "86400"})) as server,
        pytest.raises(BackendError, match=r"asks to wait for 86400 s\. Try again after that\.$"),
    ):
        ask_all(connect(server), chat_requests(3))


def test_a_server_that_never_answers_stops_the_run():
    with FakeServer(lambda _: Reply("no", 503)) as server, pytest.raises(BackendError, match="no answer for"):
        ask_all(connect(server, patience=1.0), chat_requests(30))


def test_the_answers_of_a_server_that_dies_are_kept(tmp_path):
    rows = [{"q": str(i), "target": f"<{i}:>"} for i in range(300)]

    def dies(call):
        return echo(call) if call.number < 100 else Reply("", cut_after=0)

    with FakeServer(dies) as server:
        options = dict(base_url=server.url, model_type="chat", max_concurrency=20, patience=0.5)
        with pytest.raises(BackendError, match="The answers so far are kept"):
            kshot.evaluate("openai:m", generation(rows), out=tmp_path / "run", **options)
        journalled = len((tmp_path / "run" / "journal.jsonl").read_text().splitlines())
        assert journalled >= 100
        server.answer, before = echo, len(server.calls)
        result = kshot.evaluate("openai:m", generation(rows), out=tmp_path / "run", **options)
    assert result.results[0]["n"] == 300
    assert len(server.calls) - before == 200


def test_a_request_that_gets_no_reply_is_sent_again():
    slow = iter([Reply(chat("late"), delay=600)])
    with FakeServer(lambda _: next(slow, chat("ok"))) as server:
        (found,) = ask_all(connect(server, timeout=0.3), chat_requests(1))
    assert found.text == "ok"
    assert len(server.calls) == 2


def test_concurrency_reaches_the_maximum_and_not_more():
    """A server that answers only when as many run as are allowed is answered; one more never comes."""

    def answering(together):
        full = asyncio.Event()

        async def answer(call):
            if server.running == together:
                full.set()
            await full.wait()
            return echo(call)

        return answer

    for allowed in (1, 3, 16):
        with FakeServer(answering(allowed)) as server:
            found = ask_all(connect(server, max_concurrency=allowed), chat_requests(40))
            assert all(isinstance(each, Generated) for each in found)
            assert server.max_running == allowed


@pytest.mark.parametrize("limits", [{"rpm": 20}, {"tpm": 2000, "max_concurrency": 1}])
def test_a_minute_holds_what_the_limits_allow(limits):
    """Of 40 requests of 100 tokens, 20 are sent now: the stream waits with the others, and is closed."""
    queue = Queue(chat_requests(40))
    with FakeServer(lambda _: chat("x", usage=(90, 10))) as server:
        backend = connect(server, **limits)
        stream = backend.serve(queue)
        found = 0
        while found < 20:
            if next(stream) is not None:
                found += 1
            else:
                queue.news.wait(60)
                queue.news.clear()
        stream.close()
        assert len(server.calls) == 20
        backend.close()


def test_a_stream_that_is_closed_early_sends_no_further_requests():
    with FakeServer(echo, latency=0.01) as server:
        backend = connect(server, max_concurrency=4)
        with closing(answers_of(backend, chat_requests(1000))) as stream:
            next(stream)
        sent = len(server.calls)
        assert sent < 1000
        assert not backend._event_loop.tasks
        (found,) = ask_all(backend, chat_requests(1))  # the next request is served as always
        assert isinstance(found, Generated)
        assert len(server.calls) <= sent + 4 + 1  # the server may read late what was sent before
        backend.close()


def test_two_streams_of_one_server():
    with FakeServer(echo, latency=0.01) as server:
        backend = connect(server)
        outer = answers_of(backend, chat_requests(10))
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


@pytest.mark.parametrize("refusal", [error(401, "no"), error(402, "no"), Reply("", 302, {"Location": "http://other"})])
def test_a_refusal_among_answers_does_not_stop_the_run(refusal):
    """A proxy may refuse one request and answer the next; a request that it always refuses fails by itself."""
    once = iter([refusal])

    def answer(call):
        if call.prompt == "20":
            return next(once, None) or echo(call)
        return refusal if call.prompt == "7" else echo(call)

    with FakeServer(answer) as server:
        found = ask_all(connect(server, max_concurrency=4), chat_requests(60))
    assert [at for at, each in enumerate(found) if isinstance(each, Failed)] == [7]
    assert found[7].kind == f"http_{refusal.status}"
    assert found[7].retryable


def test_a_key_that_expires_stops_the_run_soon():
    def answer(call):
        return echo(call) if call.number < 20 else error(401, "expired")

    with FakeServer(answer) as server, pytest.raises(BackendError, match="expired"):
        ask_all(connect(server, max_concurrency=4), chat_requests(500))
    assert len(server.calls) <= 20 + 11 + 4


@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_reply_that_is_sent_twice_answers_no_other_request(concurrency):
    """The second one comes when the connection is free: the next request must not take it for its answer."""

    class Twice(FakeServer):
        async def _send(self, reply, writer):
            for _ in range(2):
                await super()._send(reply, writer)
                await asyncio.sleep(0)
            return True

    with Twice(echo, latency=0.003) as server:
        found = ask_all(connect(server, max_concurrency=concurrency), chat_requests(100))
    assert [each.text for each in found] == [f"<{number}>" for number in range(100)]
    assert len(server.calls) == 100


def test_a_run_shows_retries_tokens_and_cost_while_it_is_under_way():
    class Gauge(Watcher):
        def planned(self, tasks, meter, *, complete):
            self.meter = meter

        def finished(self, rows):
            self.reading = self.meter.read()

    rows, gauge = [{"q": str(i), "target": f"<{i}:>"} for i in range(20)], Gauge()
    with FakeServer(lambda call: Reply("no", 503) if call.number < 2 else echo(call)) as server:
        options = dict(base_url=server.url, model_type="chat", price_in=1.0, price_out=2.0)
        result = kshot.evaluate("openai:m", generation(rows), watcher=gauge, **options)
    (spent,) = result.usage
    assert (gauge.reading.done, gauge.reading.failed, gauge.reading.retried) == (20, 0, 2)
    assert (gauge.reading.prompt_tokens, gauge.reading.completion_tokens) == (
        spent["prompt_tokens"],
        spent["completion_tokens"],
    )
    assert gauge.reading.cost_usd == pytest.approx(spent["cost_usd"], abs=1e-6)
    assert gauge.reading.prompt_tokens > 0
    assert (gauge.reading.value, gauge.reading.scored) == (result.results[0]["value"], 20)
