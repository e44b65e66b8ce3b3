"""Whole runs against servers: model and judge work at the same time, and nothing of a run is left when it ends."""

import asyncio
import gc
import os
import signal
import threading
from pathlib import Path

import pytest

import kshot
from kshot.core.errors import DataError
from kshot.core.records import Generated
from kshot.metrics import GPTEval, Metric
from tests.backends.server.clients import chat_requests, connect
from tests.datasets.fakes import generation, says
from tests.fake_server import FakeServer, chat, echo
from tests.tiny_models import ask_all


def questions(count):
    return [{"q": f"question {i}", "target": "yes"} for i in range(count)]


def judged(count):
    return generation(questions(count), metrics=[GPTEval()])


def options(server, **more):
    return dict(base_url=server.url, model_type="chat", max_concurrency=8, **more)


def test_a_server_withholds_the_models_answers_until_the_judge_is_asked():
    judge_asked = threading.Event()

    async def model(call):
        if "question 0" not in call.prompt:
            waited = await asyncio.get_running_loop().run_in_executor(None, judge_asked.wait, 60)
            assert waited, "the judge was not asked while the model was waited for"
        return chat("Because.")

    def judge(_):
        judge_asked.set()
        return chat("[[7]]")

    with FakeServer(model) as server, FakeServer(judge) as second:
        spec = f"openai:judge@{second.url}"
        result = kshot.evaluate("openai:m", judged(40), judge=spec, **options(server))
    assert (result.results[0]["n"], result.results[0]["value"]) == (40, 7.0)
    assert (len(server.calls), len(second.calls)) == (40, 40)


def test_a_local_model_goes_on_while_a_server_judges():
    judged_one = threading.Event()

    def judge(_):
        judged_one.set()
        return chat("[[5]]")

    class Model(says("yes").__class__):
        def serve(self, queue):
            for number, request in enumerate(queue.take()):
                if number == 20:
                    assert judged_one.wait(60)
                yield request, Generated("yes")

    with FakeServer(judge) as server:
        spec = f"openai:judge@{server.url}"
        result = kshot.evaluate(Model(None), judged(30), judge=spec)
    assert result.results[0]["n"] == 30


def test_a_model_and_its_judge_at_one_server_keep_the_limits_together():
    with FakeServer(lambda _: chat("[[7]]"), latency=0.005) as server:
        limited = dict(base_url=server.url, model_type="chat", max_concurrency=3)
        result = kshot.evaluate("openai:m", judged(40), judge="openai:judge", **limited)
        assert (result.results[0]["n"], result.results[0]["value"]) == (40, 7.0)
        assert (len(server.calls), server.max_running) == (80, 3)


# ---- nothing is left ----


class Fails(Metric):
    """A metric that raises for one sample."""

    name = "Fails"

    def score(self, sample, answer):
        if "question 5" in answer:
            raise ZeroDivisionError("this metric is broken")
        return {"Fails": 1.0}


def traces():
    """What a run could leave behind: threads, sockets, and the handler of Ctrl-C."""
    gc.collect()
    opened = (os.path.realpath(path).rpartition("/")[2] for path in Path("/proc/self/fd").iterdir())
    sockets = {name for name in opened if name.startswith("socket:")}
    return set(threading.enumerate()), sockets, {signal.getsignal(signal.SIGINT)}


def without_those_of(server, traced):
    """Leave the sockets out that the fake server has accepted: it closes them in its own time."""
    threads, sockets, handler = traced
    accepted = {f"socket:[{os.fstat(sock.fileno()).st_ino}]" for sock in server.accepted()}
    return threads, sockets - accepted, handler


def nothing_new(server, before):
    """Whether there is nothing that was not there before; what other tests have left may end at any time."""
    now = without_those_of(server, traces())
    return all(left <= earlier for left, earlier in zip(now, before, strict=True))


def test_an_exception_that_somebody_holds_keeps_no_request_going():
    """In a notebook the last exception stays alive with all its frames: the run must end without their end."""
    with FakeServer(echo, latency=0.01) as server:
        before = without_those_of(server, traces())
        with pytest.raises(DataError, match="this metric is broken") as held:
            kshot.evaluate("openai:m", generation(questions(2000), metrics=[Fails()]), **options(server))
        assert nothing_new(server, before)
        sent = len(server.calls)
        assert sent < 2000
        other = connect(server)
        ask_all(other, chat_requests(1))  # whatever was sent before is read by now, up to what ran at one time
        other.close()
        assert len(server.calls) <= sent + 8 + 1
        assert held.value is not None


def test_ctrl_c_leaves_nothing_behind_and_the_answers_in_the_journal(default_signals, tmp_path):
    def answer(call):
        if call.number == 100:
            os.kill(os.getpid(), signal.SIGINT)
        return echo(call)

    with FakeServer(answer) as server:
        before = without_those_of(server, traces())
        with pytest.raises(KeyboardInterrupt) as held:
            kshot.evaluate("openai:m", generation(questions(100_000)), out=tmp_path / "run", **options(server))
        assert nothing_new(server, before)
        assert held.value is not None
    assert len((tmp_path / "run" / "journal.jsonl").read_text().splitlines()) >= 50


def test_a_run_that_ends_well_leaves_nothing_either(tmp_path):
    with FakeServer(echo) as server:
        before = without_those_of(server, traces())
        kshot.evaluate("openai:m", generation(questions(50)), out=tmp_path / "run", **options(server))
        assert nothing_new(server, before)
