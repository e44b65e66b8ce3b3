"""The event loop of a thread: the thread that asks runs it, and all servers of the thread share it."""

import asyncio
import gc
import os
import signal
import threading
import time

import pytest

from kshot.backends.server import event_loop
from kshot.backends.server.event_loop import EventLoopHandle
from kshot.core.errors import BackendError
from kshot.core.records import Generated
from tests.backends.server.clients import chat_requests, connect
from tests.fake_server import FakeServer, echo, error
from tests.tiny_models import Queue, ask_all


def test_a_server_is_asked_while_another_loop_runs_in_the_thread():
    async def notebook():
        return ask_all(backend, chat_requests(20))

    with FakeServer(echo, latency=0.01) as server:
        backend = connect(server)
        assert all(isinstance(each, Generated) for each in asyncio.run(notebook()))
        assert isinstance(ask_all(backend, chat_requests(1))[0], Generated)  # and afterwards without the other loop


def test_waiting_for_one_server_serves_the_others_of_the_thread():
    with FakeServer(echo, latency=0.05) as slow, FakeServer(echo) as quick:
        first = connect(quick).serve(Queue(chat_requests(40)))
        next(first)
        ask_all(connect(slow), chat_requests(1))
        time.sleep(0.1)
        assert len(quick.calls) == 40  # all were sent and answered meanwhile
        assert len(list(first)) == 39


def test_one_server_in_two_threads():
    with FakeServer(echo, latency=0.005) as server:
        backend, found = connect(server), {}

        def work(name):
            found[name] = ask_all(backend, chat_requests(50))

        threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
        for each in threads:
            each.start()
        for each in threads:
            each.join(30)
        assert [len(found[name]) for name in "ab"] == [50, 50]
        assert all(isinstance(each, Generated) for name in "ab" for each in found[name])


def test_the_last_server_of_a_thread_closes_its_loop():
    with FakeServer(echo) as server:
        one, other = connect(server), connect(server)
        ask_all(one, chat_requests(1))
        ask_all(other, chat_requests(1))
        shared = one._event_loop._shared
        assert other._event_loop._shared is shared
        del one
        gc.collect()
        assert not shared.loop.is_closed()
        assert isinstance(ask_all(other, chat_requests(1))[0], Generated)
        before = shared.handles
        del other
        gc.collect()
        assert shared.handles == before - 1
        assert shared.loop.is_closed() == (shared.handles == 0)


def test_a_handle_that_is_closed_while_the_loop_runs_is_closed_in_the_loop():
    handle, other = EventLoopHandle(), EventLoopHandle()
    closed = []

    async def on_close():
        closed.append(True)

    async def close_handle():
        handle.close()

    handle.on_close.append(on_close)
    handle.run(asyncio.sleep(0))
    other.run(close_handle())
    other.run(asyncio.sleep(0.01))
    assert closed
    other.close()


def test_a_server_that_is_collected_while_the_loop_starts_does_not_block_it(monkeypatch):
    """A garbage collection may close a server at any point, such as just before ``run_ready`` runs the loop."""
    done = threading.Event()

    def asks():
        one, collected = EventLoopHandle(), EventLoopHandle()

        async def many_iterations():
            for _ in range(10):
                await asyncio.sleep(0)

        for handle in (one, collected):
            handle.run(asyncio.sleep(0))
        collected.on_close.append(many_iterations)
        has_running_loop = event_loop._has_running_loop

        def collect():
            monkeypatch.setattr(event_loop, "_has_running_loop", has_running_loop)
            collected.close()
            return has_running_loop()

        monkeypatch.setattr(event_loop, "_has_running_loop", collect)
        one.run_ready()
        one.close()
        done.set()

    threading.Thread(target=asks, daemon=True).start()
    assert done.wait(30)


def test_a_closed_server_can_be_asked_again():
    with FakeServer(echo) as server:
        backend = connect(server)
        for _ in range(3):
            assert isinstance(ask_all(backend, chat_requests(1))[0], Generated)
            backend.close()
            assert not backend._event_loop.tasks
            assert backend._connection.closed
        backend.close()  # closing it again changes nothing


def test_a_closed_server_can_be_asked_again_while_another_one_holds_the_loop():
    with FakeServer(echo) as server:
        backend, other = connect(server), connect(server)
        ask_all(other, chat_requests(1))
        ask_all(backend, chat_requests(1))
        backend.close()
        assert not other._event_loop._shared.loop.is_closed()
        assert backend.best_ranking(chat=True) == "generation"
        assert isinstance(ask_all(backend, chat_requests(1))[0], Generated)
        assert isinstance(ask_all(other, chat_requests(1))[0], Generated)
        backend.close()
        other.close()


def test_an_error_leaves_no_task_behind():
    with FakeServer(lambda _: error(401, "no"), latency=0.01) as server:
        backend = connect(server)
        with pytest.raises(BackendError):
            ask_all(backend, chat_requests(200))
        time.sleep(0.05)
        assert not backend._event_loop.tasks
        assert len(server.calls) <= 64


def test_a_forked_process_does_not_touch_the_loop_of_its_parent(tmp_path):
    with FakeServer(echo, latency=0.01) as server:
        backend = connect(server)
        ask_all(backend, chat_requests(5))
        child = os.fork()
        if not child:
            responses = [*ask_all(backend, chat_requests(20)), *ask_all(connect(server), chat_requests(20))]
            os._exit(0 if all(isinstance(each, Generated) for each in responses) else 1)
        assert len(ask_all(backend, chat_requests(30))) == 30
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(ask_all(backend, chat_requests(7))) == 7


def test_no_request_times_out_while_the_thread_is_busy_between_answers():
    with FakeServer(echo, latency=0.1) as server:
        served = connect(server, timeout=0.4, max_concurrency=4).serve(Queue(chat_requests(8)))
        for _ in served:
            time.sleep(0.6)
    assert len(server.calls) == 8


def test_ctrl_c_stops_the_loop_between_two_callbacks():
    reached = []

    async def patient():
        try:
            await asyncio.sleep(30)
        finally:
            reached.append(True)

    handle = EventLoopHandle()
    threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        handle.run(patient())
    assert time.monotonic() - began < 5
    handle.close()
    assert reached
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("loop_of", ["this thread", "another thread"])
def test_ctrl_c_does_not_break_off_a_callback_of_any_loop(loop_of):
    completed = []

    async def busy():
        until = time.monotonic() + 0.4
        while time.monotonic() < until:
            pass
        completed.append(True)
        await asyncio.sleep(30)

    first, other = EventLoopHandle(), EventLoopHandle()
    if loop_of == "another thread":
        thread = threading.Thread(target=lambda: other.run(asyncio.sleep(0)))
        thread.start()
        thread.join()
    with first.background():
        threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            other.run(busy())
        assert completed
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    first.close()
    other.close()


def test_a_server_answers_after_ctrl_c_in_a_notebook():
    loop = asyncio.new_event_loop()
    with FakeServer(echo, latency=0.05) as server:
        backend = connect(server, max_concurrency=4)

        async def cell(count):
            return ask_all(backend, chat_requests(count))

        threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(cell(1000))
        again = threading.Timer(10, os.kill, [os.getpid(), signal.SIGINT])
        again.start()  # so that a failure does not hang
        assert len(loop.run_until_complete(cell(3))) == 3
        again.cancel()
    loop.close()
