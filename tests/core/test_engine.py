"""The engine: order, window, equal requests once, failures, overlapping roles, and agreement with asking one by one."""

import gc
import os
import pickle
import signal
import threading
from collections import Counter
from contextlib import closing

import pytest
from hypothesis import given, strategies as st

from kshot.core.engine import SampleJob, drive
from kshot.core.errors import BackendError
from kshot.core.memo import MemoryMemo
from kshot.core.records import AskFailed, Failed, Generate, Generated, Loglik, Prompt, Search, ask
from kshot.core.validation import MOST_CHARACTERS


class Echo:
    """Answers with the prompt in capitals; remembers what it was asked and how it was served."""

    answers = (Generate,)

    def __init__(self, name="echo", fails=()):
        self.name = self.fingerprint = name
        self.asked = Counter()
        self.fails = set(fails)

    def reply(self, request):
        self.asked[request] += 1
        text = request.prompt.text
        return Failed("broken", f"no answer to {text}") if text in self.fails else Generated(text.upper())

    def serve(self, waiting):
        for request in waiting:
            yield request, self.reply(request)


class Batches(Echo):
    """Takes all that waits and answers it from the last to the first."""

    def __init__(self, **more):
        super().__init__(**more)
        self.sizes = []

    def serve(self, waiting):
        while batch := waiting.take():
            self.sizes.append(len(batch))
            for request in reversed(batch):
                yield request, self.reply(request)


def one(text):
    (reply,) = yield from ask(Generate(Prompt(text)))
    return reply.text


def chain(text, turns):
    for _ in range(turns):
        (reply,) = yield from ask(Generate(Prompt(text)))
        text = reply.text.lower() + "."
    return text


def outcomes(jobs, backend, memo=None, **more):
    return list(drive(jobs, {"model": backend}, memo or MemoryMemo(), **more))


@pytest.mark.parametrize("kind", [Echo, Batches])
@pytest.mark.parametrize("window", [1, 2, 7, 1000])
def test_outcomes_come_in_order_and_the_window_bounds_what_waits(kind, window):
    live = peak = 0

    def job(i):
        nonlocal live, peak
        live += 1
        peak = max(peak, live)
        answer = yield from chain(f"q{i}", 1 + i % 3)
        live -= 1
        return answer

    got = outcomes(((i, job(i)) for i in range(50)), kind(), window=window)
    assert [o.item for o in got] == list(range(50))
    assert [o.answer for o in got] == [f"q{i}" + "." * (1 + i % 3) for i in range(50)]
    assert peak <= window


def test_equal_requests_are_asked_once_even_while_waiting():
    backend = Batches()
    got = outcomes(((i, one(f"q{i % 5}")) for i in range(40)), backend)
    assert [o.answer for o in got] == [f"Q{i % 5}" for i in range(40)]
    assert set(backend.asked.values()) == {1}
    assert len(backend.asked) == 5


def test_replicas_are_different_questions():
    def job():
        replies = yield from ask(*(Generate(Prompt("q"), replica=r) for r in range(3)))
        return [reply.text for reply in replies]

    backend = Echo()
    (got,) = outcomes([(0, job())], backend)
    assert got.answer == ["Q", "Q", "Q"]
    assert sum(backend.asked.values()) == 3


def test_a_slow_conversation_does_not_hold_up_the_others():
    backend = Batches()
    done = []

    def job(i):
        answer = yield from chain(f"q{i}", 30 if i == 0 else 1)
        done.append(i)
        return answer

    got = outcomes(((i, job(i)) for i in range(400)), backend, window=10)
    assert [o.item for o in got] == list(range(400))
    assert done.index(0) > 100  # the others went on while sample 0 talked


def test_memory_of_finished_samples_is_bounded_while_one_is_slow():
    started = []

    def job(i):
        started.append(i)
        return (yield from chain(f"q{i}", 10_000 if i == 0 else 1))

    stream = drive(((i, job(i)) for i in range(10_000)), {"model": Echo()}, MemoryMemo(), window=8)
    next(stream)
    assert len(started) <= 8 * 16 + 8


def test_a_failure_is_the_outcome_and_the_others_go_on():
    got = outcomes(((i, one(f"q{i}")) for i in range(4)), Echo(fails=["q2"]))
    assert [o.failed for o in got] == [False, False, True, False]
    assert got[2].answer == Failed("broken", "no answer to q2")
    assert got[2].exchanges[0][1] == got[2].answer


def test_a_text_that_no_model_can_read_fails_and_is_not_asked():
    backend = Echo()
    got = outcomes([(0, one("q")), (1, one("q" * (MOST_CHARACTERS + 1)))], backend)
    assert [o.failed for o in got] == [False, True]
    assert got[1].answer.kind == "too_long"
    assert sum(backend.asked.values()) == 1


def test_a_method_may_catch_a_failure_and_ask_something_else():
    def job():
        try:
            return (yield from one("bad"))
        except AskFailed as exc:
            assert exc.failed.kind == "broken"
            return (yield from one("good"))

    (got,) = outcomes([(0, job())], Echo(fails=["bad"]))
    assert got.answer == "GOOD"
    assert [type(response) for _, response in got.exchanges] == [Failed, Generated]


def test_failures_are_asked_again_but_answers_are_not():
    memo, backend = MemoryMemo(), Echo(fails=["q1"])
    outcomes(((i, one(f"q{i}")) for i in range(3)), backend, memo)
    backend.fails.clear()
    again = outcomes(((i, one(f"q{i}")) for i in range(3)), backend, memo)
    assert [o.answer for o in again] == ["Q0", "Q1", "Q2"]
    assert sorted(backend.asked.values()) == [1, 1, 2]


def test_answers_of_another_backend_are_not_taken():
    memo = MemoryMemo()
    outcomes([(0, one("q"))], Echo(name="first"), memo)
    second = Echo(name="second")
    outcomes([(0, one("q"))], second, memo)
    assert sum(second.asked.values()) == 1


def test_requests_go_to_the_backend_they_name():
    def job():
        (text,) = yield from ask(Generate(Prompt("q")))
        (verdict,) = yield from ask(Generate(Prompt(text.text), role="judge"))
        return verdict.text

    model, judge = Echo("model"), Batches(name="judge")
    stream = drive(((i, job()) for i in range(3)), {"model": model, "judge": judge}, MemoryMemo())
    assert [o.answer for o in stream] == ["Q"] * 3
    assert sum(model.asked.values()) == sum(judge.asked.values()) == 1


def test_a_request_the_backend_cannot_answer_names_both():
    def job():
        yield from ask(Loglik(Prompt("q"), (" a",)))

    with pytest.raises(BackendError, match=r"echo: it cannot answer Loglik requests, only Generate.*generation"):
        outcomes([(0, job())], Echo())


def test_a_request_to_a_role_without_a_model_names_the_role():
    def job():
        yield from ask(Search("q", 3))

    with pytest.raises(BackendError, match="no model of this run has the role 'corpus', which Search requests need"):
        outcomes([(0, job())], Echo())


def test_a_backend_that_drops_or_invents_answers_is_caught():
    class Drops(Echo):
        def serve(self, waiting):
            for request in waiting:
                if request.prompt.text != "q1":
                    yield request, self.reply(request)

    class Invents(Echo):
        def serve(self, waiting):
            waiting.take()
            yield Generate(Prompt("other")), Generated("x")

    jobs = [(i, i) for i in range(3)]
    with pytest.raises(BackendError, match="echo: 1 requests were taken and never answered"):
        outcomes(((i, one(f"q{i}")) for i, _ in jobs), Drops())
    with pytest.raises(BackendError, match="was not waiting"):
        outcomes(((i, one(f"q{i}")) for i, _ in jobs), Invents())


def test_an_answer_fits_by_its_ticket_after_a_process_boundary():
    class Pickles(Batches):
        def serve(self, waiting):
            for request, response in super().serve(waiting):
                yield pickle.loads(pickle.dumps(request)), response

    got = outcomes(((i, one(f"q{i % 7}")) for i in range(20)), Pickles())
    assert [o.answer for o in got] == [f"Q{i % 7}" for i in range(20)]


def test_an_answer_is_given_once_and_by_the_role_that_was_asked():
    class Twice(Echo):
        def serve(self, waiting):
            for request in waiting:
                yield request, self.reply(request)
                yield request, self.reply(request)

    with pytest.raises(BackendError, match="echo: it answered a request that was not waiting"):
        outcomes(((i, one(f"q{i}")) for i in range(3)), Twice())

    seen = []

    class Other(Echo):
        def serve(self, waiting):
            for request in waiting:
                yield (seen[0] if seen else request), self.reply(request)

    class First(Echo):
        def serve(self, waiting):
            seen.extend(waiting.take())
            while not judge.asked:
                yield None
            yield seen[0], Generated("late")

        in_background = True

    judge = Other("judge")
    jobs = [(0, one("q")), (1, to_judge("v"))]
    with pytest.raises(BackendError, match="judge: it answered a request that was not waiting"):
        list(drive(jobs, {"model": First(), "judge": judge}, MemoryMemo()))


# ---- roles ----


def to_judge(text):
    (reply,) = yield from ask(Generate(Prompt(text), role="judge"))
    return reply.text


def both(text):
    (reply,) = yield from ask(Generate(Prompt(text)))
    (verdict,) = yield from ask(Generate(Prompt(reply.text), role="judge"))
    return verdict.text


class Background(Echo):
    """Answers in a thread, as many as ``release`` lets pass; remembers whether its stream was closed."""

    in_background = True

    def __init__(self, name="echo", release=None):
        super().__init__(name)
        self.release = release
        self.opened = self.closed = 0
        self.expected_more = []

    def serve(self, waiting):
        self.opened += 1
        under_way, answered = 0, []

        def answer(request):
            if self.release is not None:
                assert self.release.wait(60)
            answered.append((request, self.reply(request)))
            waiting.notify()

        try:
            while True:
                for request in waiting.take(4):
                    under_way += 1
                    threading.Thread(target=answer, args=(request,), daemon=True).start()
                if answered:
                    under_way -= 1
                    yield answered.pop()
                elif under_way or waiting.more_expected:
                    self.expected_more.append(waiting.more_expected)
                    yield None
                else:
                    return
        finally:
            self.closed += 1


def test_a_backend_that_withholds_its_answers_until_another_role_is_asked():
    asked = threading.Event()

    class Judge(Background):
        def reply(self, request):
            asked.set()
            return super().reply(request)

    backends = {"model": Background("model", release=asked), "judge": Judge("judge")}
    jobs = [(0, one("q")), (1, to_judge("v")), (2, both("w"))]
    assert [o.answer for o in drive(jobs, backends, MemoryMemo())] == ["Q", "V", "W"]


def test_a_role_in_the_background_is_asked_while_another_computes():
    """The judge is asked about the first answer before the model, which blocks the thread, has given its last."""
    judged = threading.Event()

    class Judge(Background):
        def reply(self, request):
            judged.set()
            return super().reply(request)

    class Model(Echo):
        def serve(self, waiting):
            for number, request in enumerate(waiting.take()):
                if number == 5:
                    assert judged.wait(60)
                yield request, self.reply(request)

    backends = {"model": Model("model"), "judge": Judge("judge")}
    got = list(drive(((i, both(f"q{i}")) for i in range(10)), backends, MemoryMemo()))
    assert [o.answer for o in got] == [f"Q{i}" for i in range(10)]


def test_of_two_that_compute_in_this_thread_each_finds_large_batches():
    model, judge = Batches(name="model"), Batches(name="judge")
    jobs = ((i, both(f"q{i}")) for i in range(10))
    assert len(list(drive(jobs, {"model": model, "judge": judge}, MemoryMemo()))) == 10
    assert model.sizes == judge.sizes == [10]


def test_a_queue_tells_nothing_now_from_nothing_more():
    release = threading.Event()
    model = Background("model", release)

    class Judge(Background):
        def serve(self, waiting):
            for answer in super().serve(waiting):
                if answer is None:
                    assert waiting.more_expected or self.asked
                    release.set()  # there is nothing now, and more to come from the model
                yield answer

    judge = Judge("judge")
    jobs = [(0, to_judge("v")), *((i, both(f"q{i}")) for i in range(1, 6))]
    assert len(list(drive(jobs, {"model": model, "judge": judge}, MemoryMemo()))) == 6
    assert True in judge.expected_more
    assert judge.opened == 1  # it waited for more instead of ending

    class Alone(Background):
        def serve(self, waiting):
            for answer in super().serve(waiting):
                assert not waiting.more_expected  # only its own answers lead to more
                yield answer

    assert len(outcomes(((i, chain(f"q{i}", 3)) for i in range(20)), Alone())) == 20


def test_samples_are_in_their_second_method_while_others_are_in_their_first():
    order = []

    class Notes(Echo):
        def serve(self, waiting):
            for request in waiting:
                order.append((request.role, request.prompt.text))
                yield request, self.reply(request)

    def then(outcome):
        return to_judge(f"{outcome.item}:{outcome.answer}")

    backends = {"model": Notes("model"), "judge": Notes("judge")}
    jobs = (SampleJob(i, one(f"q{i}"), then) for i in range(9))
    got = list(drive(jobs, backends, MemoryMemo(), window=3))
    assert [o.answer for o in got] == [f"{i}:Q{i}" for i in range(9)]
    assert [o.item.item for o in got] == list(range(9))
    assert all(len(o.exchanges) == len(o.item.exchanges) == 1 for o in got)
    assert order.index(("judge", "0:Q0")) < order.index(("model", "q5"))


def test_a_stream_that_takes_once_is_opened_again():
    class TakesOnce(Echo):
        def serve(self, waiting):
            for request in waiting.take():
                yield request, self.reply(request)

    got = outcomes(((i, chain(f"q{i}", 4)) for i in range(5)), TakesOnce())
    assert [o.answer for o in got] == [f"q{i}...." for i in range(5)]

    class Refuses(Echo):
        def serve(self, waiting):
            return iter(())

    with pytest.raises(BackendError, match="echo: it took none of 1 waiting requests"):
        outcomes([(0, one("q"))], Refuses())


def test_nothing_more_is_expected_while_a_backend_computes():
    class Model(Echo):
        def serve(self, waiting):
            while (batch := waiting.take()) or waiting.more_expected:
                for request in batch:
                    yield request, self.reply(request)

    jobs = [(0, to_judge("v")), *((i, both(f"q{i}")) for i in range(1, 9))]
    got = list(drive(jobs, {"model": Model("model"), "judge": Background("judge")}, MemoryMemo(), window=4))
    assert len(got) == 9


@pytest.mark.parametrize("kind", [Echo, Batches, Background])
def test_the_error_of_a_job_is_not_blamed_on_the_model(kind):
    def jobs():
        yield 0, one("q0")
        raise OSError("the dataset is gone")

    with pytest.raises(OSError, match="the dataset is gone"):
        outcomes(jobs(), kind())


def test_jobs_and_methods_are_closed_with_the_run():
    closed = []

    def job(i):
        try:
            reply = yield from one(f"q{i}")
            assert i != 2
            return reply
        finally:
            closed.append(i)

    def jobs():
        try:
            for i in range(100):
                yield i, job(i)
        finally:
            closed.append("jobs")

    held = holding(AssertionError)(lambda: outcomes(jobs(), Batches(), window=8))
    assert held.value is not None
    assert closed == [7, 6, 5, 4, 3, 2, 0, 1, "jobs"]  # the last two were still waiting


# ---- streams are closed ----


def holding(error):
    """Run something that raises, and return the exception, which keeps every frame alive."""

    def held(run):
        with pytest.raises(error) as caught:
            run()
        return caught

    return held


@pytest.mark.parametrize("kind", [Background, Echo])
def test_every_stream_is_closed_when_a_method_raises(kind):
    closed = []

    class Model(kind):
        def serve(self, waiting):
            try:
                yield from super().serve(waiting)
            finally:
                closed.append(self.name)

    def job(i):
        reply = yield from both(f"q{i}")
        if i == 3:
            raise ValueError("a metric fails")
        return reply

    backends = {"model": Model("model"), "judge": Model("judge")}
    held = holding(ValueError)(lambda: list(drive(((i, job(i)) for i in range(50)), backends, MemoryMemo())))
    assert "judge" in closed
    assert closed.count("model") == 1
    assert held.value


def test_a_stream_is_closed_when_the_caller_stops():
    backend = Background()
    with closing(drive(((i, one(f"q{i}")) for i in range(100)), {"model": backend}, MemoryMemo(), window=4)) as stream:
        next(stream)
        assert not backend.closed
    assert backend.closed == backend.opened == 1
    assert sum(backend.asked.values()) < 100


def test_a_stream_is_closed_on_ctrl_c(default_signals):
    class Interrupted(Background):
        def reply(self, request):
            if request.prompt.text == "q5":
                os.kill(os.getpid(), signal.SIGINT)
                threading.Event().wait()  # no answer comes any more
            return super().reply(request)

    backend = Interrupted()
    held = holding(KeyboardInterrupt)(lambda: outcomes(((i, one(f"q{i}")) for i in range(100)), backend, window=8))
    assert backend.closed == 1
    assert held.value is not None


@pytest.mark.parametrize("kind", [Background, Echo])
def test_an_error_of_closing_does_not_hide_the_one_that_ended_the_run(kind):
    class Broken(kind):
        def serve(self, waiting):
            try:
                yield from super().serve(waiting)
            finally:
                raise RuntimeError("closing fails too")

    def job(i):
        yield from one(f"q{i}")
        raise ValueError("a metric fails")

    with pytest.raises(ValueError, match="a metric fails"):
        outcomes(((i, job(i)) for i in range(9)), Broken())


@pytest.mark.parametrize("yielded", [Generate(Prompt("q")), [5], "abc", None, iter([Generate(Prompt("q"))])])
def test_a_method_that_yields_something_else(yielded):
    def job():
        yield yielded

    with pytest.raises(TypeError, match="is no list of requests: write yield from ask"):
        outcomes([(0, job())], Echo())


def test_the_iterator_of_a_plug_in_need_not_be_a_generator():
    class Lists(Echo):
        def serve(self, waiting):
            return iter([(request, self.reply(request)) for request in waiting.take()])

    assert [o.answer for o in outcomes(((i, one(f"q{i}")) for i in range(3)), Lists())] == ["Q0", "Q1", "Q2"]


def test_a_method_that_asks_nothing_is_done_at_once():
    def job(i):
        return i * 2
        yield

    assert [o.answer for o in outcomes(((i, job(i)) for i in range(3000)), Echo(), window=2)] == [
        2 * i for i in range(3000)
    ]


@given(
    st.lists(st.lists(st.lists(st.integers(0, 4), min_size=0, max_size=3), max_size=4), max_size=12), st.integers(1, 5)
)
def test_any_programs_give_what_asking_one_by_one_gives(programs, window):
    """A program is a list of rounds, a round a list of questions; its answer is all replies."""

    def job(rounds):
        said = []
        for number, questions in enumerate(rounds):
            replies = yield from ask(*(Generate(Prompt(f"{q}/{number}/{len(said)}")) for q in questions))
            said += [reply.text for reply in replies]
        return said

    expected = []
    for rounds in programs:
        said = []
        for number, questions in enumerate(rounds):
            said += [f"{q}/{number}/{len(said)}".upper() for q in questions] if questions else []
        expected.append(said)
    for kind in (Echo, Batches):
        backend = kind()
        got = outcomes(((i, job(rounds)) for i, rounds in enumerate(programs)), backend, window=window)
        assert [o.answer for o in got] == expected
        assert all(count == 1 for count in backend.asked.values())
        assert all(isinstance(response, Generated) for o in got for _, response in o.exchanges)


def test_what_is_done_comes_out_before_more_is_begun():
    begun = []

    def jobs():
        for i in range(100):
            begun.append(i)
            yield i, known(i)

    def known(i):
        yield from ask()
        return i

    for outcome in drive(jobs(), {"model": Echo()}, MemoryMemo()):
        assert len(begun) <= outcome.item + 2


def test_the_garbage_collector_is_as_it_was():
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    for outcome in drive(((i, one(str(i))) for i in range(3)), {"model": Echo()}, MemoryMemo()):
        assert outcome.answer
        assert gc.get_threshold() != before
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() <= frozen
    left = drive(((i, one(str(i))) for i in range(3)), {"model": Echo()}, MemoryMemo())
    next(left)
    left.close()
    assert gc.get_threshold() == before
