"""The event loop of servers: one daemon thread runs it, all servers share it, and nothing of it is left at the end."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import weakref

import pytest

from kshot.backends.server import event_loop
from kshot.backends.server.event_loop import EventLoopHandle
from kshot.core.errors import BackendError
from kshot.core.records import Generated
from tests.backends.server.clients import chat_requests, connect
from tests.fake_server import FakeServer, echo, error
from tests.tiny_models import Queue, answers_of, ask_all


def loop_threads():
    return [thread for thread in threading.enumerate() if thread.name == "kshot-servers"]


def join_loop_threads():
    """Collect servers that nobody holds, which stops their loop, and wait for that."""
    gc.collect()
    for thread in loop_threads():
        thread.join(60)
    assert not loop_threads()


@pytest.fixture(scope="module", autouse=True)
def older_objects_are_not_collected():
    """Every test here collects garbage: looking through all that earlier tests have imported takes a second each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def nothing_is_left():
    """Every test begins and ends without a loop thread: what it opened is closed or collected."""
    join_loop_threads()
    yield
    join_loop_threads()


def test_a_server_is_asked_while_another_loop_runs_in_the_thread():
    async def notebook():
        return ask_all(backend, chat_requests(20))

    with FakeServer(echo, latency=0.01) as server:
        backend = connect(server)
        assert all(isinstance(each, Generated) for each in asyncio.run(notebook()))
        assert isinstance(ask_all(backend, chat_requests(1))[0], Generated)  # and afterwards without the other loop


def test_one_server_works_while_another_is_waited_for():
    all_asked = threading.Event()

    def counted(call):
        if call.number == 39:
            all_asked.set()
        return echo(call)

    async def slow(call):
        await asyncio.get_running_loop().run_in_executor(None, all_asked.wait, 60)
        return echo(call)

    with FakeServer(slow) as waits, FakeServer(counted) as quick:
        first = answers_of(connect(quick), chat_requests(40))
        next(first)
        assert (
            len(ask_all(connect(waits), chat_requests(1))) == 1
        )  # it answers when the other has been asked everything
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
            each.join(60)
        assert [len(found[name]) for name in "ab"] == [50, 50]
        assert all(isinstance(each, Generated) for name in "ab" for each in found[name])


def test_servers_share_a_loop_which_ends_with_the_last_one():
    with FakeServer(echo) as server:
        one, other = connect(server), connect(server)
        ask_all(one, chat_requests(1))
        ask_all(other, chat_requests(1))
        (thread,) = loop_threads()
        one.close()
        assert loop_threads() == [thread]
        assert isinstance(ask_all(other, chat_requests(1))[0], Generated)
        other.close()
        assert not loop_threads()


def test_a_server_that_is_collected_is_closed():
    with FakeServer(echo) as server:
        backend = connect(server)
        ask_all(backend, chat_requests(3))
        connection, (thread,) = backend._group, loop_threads()
        collected = weakref.ref(backend)
        del backend
        gc.collect()
        assert collected() is None
        thread.join(60)
        assert not thread.is_alive()
        assert connection.closed


def test_a_handle_may_be_closed_in_the_loop_itself():
    """A garbage collection can come in any thread; the loop cannot wait for itself."""
    handle, other = EventLoopHandle(), EventLoopHandle()
    closed = threading.Event()

    async def on_close():
        closed.set()

    async def close_handle():
        handle.close()

    handle.on_close.append(on_close)
    handle.run(asyncio.sleep(0))
    other.run(close_handle())
    assert closed.wait(60)
    other.close()


def test_closing_needs_no_lock_that_another_thread_may_hold():
    handle = EventLoopHandle()
    handle.run(asyncio.sleep(0))
    collecting = threading.Thread(target=handle.close_later)
    with event_loop._lock:
        collecting.start()
        collecting.join(60)
        assert not collecting.is_alive()


def test_a_closed_server_can_be_asked_again():
    with FakeServer(echo) as server:
        backend = connect(server)
        for _ in range(3):
            assert isinstance(ask_all(backend, chat_requests(1))[0], Generated)
            backend.close()
            assert not loop_threads()
            assert backend._group.closed
        backend.close()  # closing it again changes nothing


def test_a_closed_server_can_be_asked_again_while_another_one_holds_the_loop():
    with FakeServer(echo) as server:
        backend, other = connect(server), connect(server)
        ask_all(other, chat_requests(1))
        ask_all(backend, chat_requests(1))
        backend.close()
        assert loop_threads()
        assert backend.best_ranking(chat=True) == "generation"
        assert isinstance(ask_all(backend, chat_requests(1))[0], Generated)
        assert isinstance(ask_all(other, chat_requests(1))[0], Generated)
        backend.close()
        other.close()


def test_a_stream_that_outlives_its_server_starts_no_loop():
    with FakeServer(echo) as server:
        backend = connect(server, max_concurrency=2)
        stream = answers_of(backend, chat_requests(100))
        next(stream)
        backend.close()
        stream.close()
        assert not loop_threads()


def test_a_server_that_is_closed_meanwhile_ends_the_stream_with_an_error():
    async def never(call):
        await asyncio.Event().wait()

    with FakeServer(never) as server:
        backend = connect(server, max_concurrency=2)
        queue = Queue(chat_requests(5))
        stream = backend.serve(queue)
        assert next(stream) is None
        threading.Thread(target=backend.close).run()
        with pytest.raises(BackendError, match="it was closed while requests were under way"):
            next(stream)


def test_an_error_leaves_no_task_behind():
    with FakeServer(lambda _: error(401, "no"), latency=0.01) as server:
        backend = connect(server)
        with pytest.raises(BackendError):
            ask_all(backend, chat_requests(200))
        assert not backend._event_loop.tasks
        assert len(server.calls) <= 64
        backend.close()


def test_the_names_of_hosts_are_looked_up_in_threads_that_end_too():
    before = set(threading.enumerate())
    with FakeServer(echo) as server:
        server.url = server.url.replace("127.0.0.1", "localhost")
        backend = connect(server)
        ask_all(backend, chat_requests(2))
        backend.close()
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("closes_first", [False, True])
def test_a_forked_process_does_not_touch_the_loop_of_its_parent(closes_first):
    def of_child():
        if closes_first:
            backend.close()
        responses = [*ask_all(backend, chat_requests(20)), *ask_all(connect(server), chat_requests(20))]
        backend.close()
        return all(isinstance(each, Generated) for each in responses)

    with FakeServer(echo, latency=0.01) as server:
        backend = connect(server)
        ask_all(backend, chat_requests(5))
        child = os.fork()
        if not child:
            right = False
            try:
                right = of_child()
            finally:
                os._exit(0 if right else 1)
        assert len(ask_all(backend, chat_requests(30))) == 30
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(ask_all(backend, chat_requests(7))) == 7
        backend.close()


def test_requests_are_answered_while_the_thread_that_asks_is_busy():
    """All are sent and answered, though the thread takes none of the answers meanwhile."""
    everything = threading.Event()

    def answer(call):
        if call.number == 7:
            everything.set()
        return echo(call)

    with FakeServer(answer) as server:
        served = answers_of(connect(server, max_concurrency=4), chat_requests(8))
        next(served)
        assert everything.wait(60)
        assert len(list(served)) == 7


def test_ctrl_c_cancels_what_runs_in_the_loop(default_signals):
    running, cancelled = threading.Event(), threading.Event()

    async def patient():
        running.set()
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    handle = EventLoopHandle()
    with pytest.raises(KeyboardInterrupt):
        handle.run(patient())
    assert running.is_set()
    assert cancelled.wait(60)
    handle.close()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_while_work_is_started_cancels_it():
    running, cancelled = threading.Event(), threading.Event()

    async def patient():
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    class Interrupted(EventLoopHandle):
        """Ctrl-C comes when the loop has begun with the work, and before anybody waits for its result."""

        def call_soon(self, callback):
            super().call_soon(callback)
            assert running.wait(60)
            raise KeyboardInterrupt

    handle = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        handle.run(patient())
    assert cancelled.is_set()
    handle.close()


def test_a_server_answers_after_ctrl_c_in_a_notebook(default_signals):
    def answer(call):
        if call.number == 20:
            os.kill(os.getpid(), signal.SIGINT)
        return echo(call)

    loop = asyncio.new_event_loop()
    with FakeServer(answer) as server:
        backend = connect(server, max_concurrency=4)

        async def cell(count):
            return ask_all(backend, chat_requests(count))

        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(cell(100_000))
        assert not backend._event_loop.tasks
        assert len(loop.run_until_complete(cell(3))) == 3
        backend.close()
    loop.close()


FORGETFUL = """
import sys
from kshot.core.records import Generate, Prompt
from tests.backends.server.clients import connect
from tests.fake_server import FakeServer, echo
from tests.tiny_models import ask_all

with FakeServer(echo) as server:
    backend = connect(server)
    assert len(ask_all(backend, [Generate(Prompt(str(i))) for i in range(5)])) == 5
    sys.exit()
"""


def test_a_script_that_closes_nothing_ends_in_silence():
    command = [sys.executable, "-W", "default", "-c", FORGETFUL]  # not -X dev: asyncio then tells of a slow machine
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
