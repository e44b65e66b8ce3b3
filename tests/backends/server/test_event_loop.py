"""The loop that servers are asked in: turned by whoever asks, shared by the servers of a thread."""

import asyncio
import gc
import os
import signal
import threading
import time

import pytest
from tests.backends.servers.test_faults import asking, opened

from kshot.backends.server import event_loop as link
from kshot.core.errors import BackendError
from kshot.core.records import Generated
from tests.fake_server import FakeServer, echo, error
from tests.tiny_models import Queue, ask_all


def test_it_works_where_a_loop_runs_already():
    async def notebook():
        return ask_all(backend, asking(20))

    with FakeServer(echo, latency=0.01) as server:
        backend = opened(server)
        assert all(isinstance(each, Generated) for each in asyncio.run(notebook()))
        assert isinstance(ask_all(backend, asking(1))[0], Generated)  # and outside of it afterwards


def test_waiting_for_one_server_moves_the_others_of_the_thread():
    with FakeServer(echo, latency=0.05) as slow, FakeServer(echo) as quick:
        first = opened(quick).serve(Queue(asking(40)))
        next(first)
        ask_all(opened(slow), asking(1))
        time.sleep(0.1)
        assert len(quick.calls) == 40  # all were asked and answered meanwhile
        assert len(list(first)) == 39


def test_one_backend_in_two_threads():
    with FakeServer(echo, latency=0.005) as server:
        backend, found = opened(server), {}

        def work(name):
            found[name] = ask_all(backend, asking(50))

        threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
        for each in threads:
            each.start()
        for each in threads:
            each.join(30)
        assert [len(found[name]) for name in "ab"] == [50, 50]
        assert all(isinstance(each, Generated) for name in "ab" for each in found[name])


def test_the_last_server_of_a_thread_closes_its_loop():
    with FakeServer(echo) as server:
        one, other = opened(server), opened(server)
        ask_all(one, asking(1))
        ask_all(other, asking(1))
        shared = one._link._shared
        assert other._link._shared is shared
        del one
        gc.collect()
        assert not shared.loop.is_closed()
        assert isinstance(ask_all(other, asking(1))[0], Generated)
        before = shared.links
        del other
        gc.collect()
        assert shared.links == before - 1
        assert shared.loop.is_closed() == (shared.links == 0)


def test_a_server_forgotten_while_the_loop_turns_is_closed_all_the_same():
    made = link.Link()
    closed = []

    async def close():
        closed.append(True)

    async def forget():
        made.close()

    other = link.Link()
    made.closing.append(close)
    made.run(asyncio.sleep(0))
    other.run(forget())
    other.run(asyncio.sleep(0.01))
    assert closed
    other.close()


def test_an_error_leaves_nothing_behind():
    with FakeServer(lambda _: error(401, "no"), latency=0.01) as server:
        backend = opened(server)
        with pytest.raises(BackendError):
            ask_all(backend, asking(200))
        time.sleep(0.05)
        asked = len(server.calls)
        assert not backend._link.tasks
        assert asked <= 64


def test_a_forked_process_leaves_its_parents_loop_alone(tmp_path):
    with FakeServer(echo, latency=0.01) as server:
        backend = opened(server)
        ask_all(backend, asking(5))
        child = os.fork()
        if not child:
            fine = all(
                isinstance(each, Generated) for own in (backend, opened(server)) for each in ask_all(own, asking(20))
            )
            os._exit(0 if fine else 1)
        assert len(ask_all(backend, asking(30))) == 30
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(ask_all(backend, asking(7))) == 7


def test_a_thread_that_is_busy_between_answers_makes_nothing_time_out():
    with FakeServer(echo, latency=0.1) as server:
        served = opened(server, timeout=0.4, max_concurrency=4).serve(Queue(asking(8)))
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

    made = link.Link()
    threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        made.run(patient())
    assert time.monotonic() - began < 5
    made.close()
    assert reached
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("turned_by", ["its own", "another's"])
def test_ctrl_c_leaves_a_callback_whole_whichever_loop_turns(turned_by):
    whole = []

    async def busy():
        until = time.monotonic() + 0.4
        while time.monotonic() < until:
            pass
        whole.append(True)
        await asyncio.sleep(30)

    first, other = link.Link(), link.Link()
    if turned_by == "another's":
        joining = threading.Thread(target=lambda: other.run(asyncio.sleep(0)))
        joining.start()
        joining.join()
    with first.kept():
        threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            other.run(busy())
        assert whole
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    first.close()
    other.close()


def test_ctrl_c_in_a_notebook_leaves_a_server_that_answers():
    loop = asyncio.new_event_loop()
    with FakeServer(echo, latency=0.05) as server:
        backend = opened(server, max_concurrency=4)

        async def cell(count):
            return ask_all(backend, asking(count))

        threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(cell(1000))
        again = threading.Timer(10, os.kill, [os.getpid(), signal.SIGINT])
        again.start()  # rather than to hang
        assert len(loop.run_until_complete(cell(3))) == 3
        again.cancel()
    loop.close()
