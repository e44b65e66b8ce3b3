"""The state of a run that is under way: what it is made of, the file in the run folder, and hostile files."""

import json
import math
import os
import threading
from dataclasses import replace

import pytest

import kshot
from kshot.core.budget import Budget, Tries
from kshot.core.records import Answers, Failed, Generate, Generated, Option, Outcome, Prompt, Sample, Usage, ask
from kshot.core.task import Task, TaskResult
from kshot.core.watcher import MeterReading, PlannedTask, Watcher
from kshot.metrics import F1, Accuracy, Chrf
from kshot.runs.progress import (
    PROGRESS,
    FolderProgress,
    ProgressState,
    ProgressTracker,
    RecentRate,
    StepProgress,
    TaskProgress,
    Ticker,
    read_progress,
)
from kshot.runs.results import result_rows
from kshot.runs.watchers import RunMeter
from kshot.statistics.intervals import interval
from tests.datasets.fakes import Fake
from tests.measures import measure, names
from tests.progress_tasks import task_progress

STARTED = "2026-11-16T09:00:00+00:00"


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Dial:
    """A meter whose reading a test sets."""

    def __init__(self):
        self.reading = MeterReading()

    def read(self):
        return self.reading


def tracker(*planned, complete=True):
    clock, dial = Clock(), Dial()
    found = ProgressTracker(STARTED, clock)
    found.planned(planned, dial, complete=complete)
    return found, clock, dial


# ---- the record ----

STATE = ProgressState(
    STARTED,
    12.5,
    True,
    99.0,
    [
        TaskProgress("a", "m", 3, "g", "done", MeterReading(3, 1, 1, 0, 5, 6, 0.25, "Accuracy", 2, 50.0, (9.5, 90.5))),
        TaskProgress("b", "m"),
    ],
    StepProgress("an index", 3, 7),
)


def test_a_state_goes_to_json_and_back():
    assert ProgressState.from_json(json.loads(json.dumps(STATE.as_json()))) == STATE
    empty = ProgressState(STARTED)
    assert ProgressState.from_json(json.loads(json.dumps(empty.as_json()))) == empty
    newer = {**STATE.as_json(), "something": "new"}
    assert ProgressState.from_json(newer) == STATE


def changed(**more):
    return {**STATE.as_json(), **more}


def with_task(**more):
    return changed(tasks=[{**STATE.as_json()["tasks"][0], **more}])


def with_reading(**more):
    return with_task(reading={**STATE.as_json()["tasks"][0]["reading"], **more})


HOSTILE = [
    None, [], 3, "text", {}, {"started": STARTED}, changed(started=3), changed(started="soon"),
    changed(started="2026-11-16T09:00:00"), changed(complete=1), changed(elapsed=-1.0), changed(elapsed="1"),
    changed(elapsed=math.nan), changed(elapsed=10**400), changed(left=math.inf), changed(left=True), changed(tasks={}),
    changed(tasks=[3]), changed(tasks=[{}]), changed(step=[]), changed(step={"label": 3, "done": 1, "total": 1}),
    changed(step={"label": "x", "done": -1, "total": 1}), with_task(task=None), with_task(task="x" * 10**6),
    with_reading(done=-1), with_reading(done=1.5), with_reading(done=True), with_task(total="3"), with_task(total=10**20),
    with_task(state="over"), with_task(state=[]), with_reading(value="1"), with_reading(value=math.nan),
    with_task(reading=None), with_task(reading={}), with_reading(interval=3), with_reading(interval=[1.0]),
    with_reading(interval=[1.0, None]), with_reading(interval=["1", "2"]), with_reading(interval=[1.0, math.nan]),
    with_reading(cost_usd=-math.inf), with_reading(metric=["Accuracy"]), with_task(model={}), with_task(rate=10**30),
]  # fmt: skip


@pytest.mark.parametrize("content", HOSTILE)
def test_whatever_else_a_file_holds_is_no_progress(content, tmp_path):
    with pytest.raises(ValueError, match=r"no|not|neither|state is|Invalid"):
        ProgressState.from_json(content)
    (tmp_path / PROGRESS).write_text(json.dumps(content))
    assert read_progress(tmp_path) is None


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"1" * 10_000, b"null", b"NaN"])
def test_damaged_files_are_no_progress(content, tmp_path):
    (tmp_path / PROGRESS).write_bytes(content)
    assert read_progress(tmp_path) is None


def test_a_file_that_is_none_is_no_progress(tmp_path):
    assert read_progress(tmp_path) is None
    assert read_progress(tmp_path / "nowhere") is None
    (tmp_path / "folder" / PROGRESS).mkdir(parents=True)
    assert read_progress(tmp_path / "folder") is None
    for name, make in {"pipe": os.mkfifo, "link": lambda path: path.symlink_to("/etc/hostname")}.items():
        (tmp_path / name).mkdir()
        make(tmp_path / name / PROGRESS)
        assert read_progress(tmp_path / name) is None


# ---- what happens to it ----


def test_all_that_is_planned_is_the_total():
    found, _, dial = tracker(PlannedTask("a", "m", 10), PlannedTask("b", "m", 20), PlannedTask("a", "n", 10))
    assert (found.state().done, found.state().total) == (0, 40)
    found.begin("a", "m", 10)
    dial.reading = MeterReading(done=4, failed=1, metric="Accuracy", scored=3, value=50.0, interval=(10.0, 90.0))
    state = found.state()
    assert [task.state for task in state.tasks] == ["running", "waiting", "waiting"]
    assert (state.done, state.total) == (4, 40)
    assert state.tasks[0].reading == dial.reading
    dial.reading = replace(dial.reading, done=10)
    found.finished([{"task": "a", "metric": "Accuracy", "value": 61.0, "ci95": [30.0, 80.0]}])
    assert found.state().tasks[0] == task_progress(
        "a", "m", 10, state="done", done=10, failed=1, metric="Accuracy", scored=3, value=61.0, interval=(30.0, 80.0)
    )


def test_without_a_plan_the_total_is_not_known_before_the_end():
    found, _, dial = tracker(complete=False)
    found.begin("a", "m", 10)
    dial.reading = MeterReading(done=10)
    assert found.state().total is None
    found.finished([])
    found.ended([], [])
    assert found.state().total == 10


def test_a_size_that_shows_when_a_task_begins_joins_the_total():
    found, _, _ = tracker(PlannedTask("a", "m", 10), PlannedTask("b", "m", None))
    assert found.state().total is None
    found.begin("a", "m", 10)
    found.finished([])
    found.begin("b", "m", 5)
    assert found.state().tasks[1].total == 5
    assert found.state().total == 0 + 5  # the meter has counted nothing of the first


def test_a_task_that_is_left_for_the_next_one_waits_and_a_run_may_begin_again():
    planned = [PlannedTask("a", "m", 10), PlannedTask("b", "m", 5)]
    found, _, dial = tracker(*planned)
    for _ in range(2):
        found.planned(planned, dial, complete=True)
        found.begin("a", "m", 10)
        found.begin("b", "m", 5)
        assert [(task.state, task.total) for task in found.state().tasks] == [("waiting", 10), ("running", 5)]


def test_models_keep_their_names_of_the_plan_and_tasks_may_come_otherwise():
    found, _, dial = tracker(
        PlannedTask("a", "spec-1", 1), PlannedTask("b", "spec-1", 1), PlannedTask("a", "spec-2", 1), PlannedTask("b", "spec-2", 1)
    )  # fmt: skip
    dial.reading = MeterReading(done=1)
    for task, model in (("a", "one"), ("new", "one"), ("b", "two")):
        found.begin(task, model, 1)
        found.finished([])
    shown = [(task.task, task.model, task.state) for task in found.state().tasks]
    assert shown == [("a", "spec-1", "done"), ("new", "spec-1", "done"), ("b", "spec-2", "done")]  # one name each


def test_stored_answers_do_not_fool_the_time_left():
    found, clock, dial = tracker(PlannedTask("a", "m", 1000))
    found.begin("a", "m", 1000)
    clock.now += 2
    dial.reading = MeterReading(done=500, recalled=500)
    assert found.state().left is None  # 250 a second is no speed of the model
    for second in range(1, 21):
        clock.now += 1
        dial.reading = MeterReading(done=500 + 2 * second, recalled=500)
        found.state()
    state = found.state()
    assert state.tasks[0].rate == pytest.approx(2.0, rel=0.15)
    assert state.left == pytest.approx((1000 - 540) / 2, rel=0.15)


def test_time_between_tasks_does_not_count():
    found, clock, dial = tracker(PlannedTask("a", "m", 20), PlannedTask("b", "m", 1000))
    found.begin("a", "m", 20)
    for second in range(1, 11):
        clock.now += 1
        dial.reading = MeterReading(done=2 * second)
        found.state()
    found.finished([])
    clock.now += 600  # an index is built
    dial.reading = MeterReading()
    found.begin("b", "m", 1000)
    clock.now += 1
    dial.reading = MeterReading(done=2)
    assert found.state().left == pytest.approx(998 / 2, rel=0.2)


def test_the_rate_is_that_of_late_and_of_the_model_that_runs():
    rate = RecentRate()
    for second in range(100):
        rate.add(second, 10 * second)
    for second in range(1, 61):
        rate.add(99 + second, 990 + second)
    assert rate.at(159) == pytest.approx(1.0, rel=0.1)
    rate.restart()
    assert rate.at(160) == pytest.approx(1.0, rel=0.1)  # until the next model has a rate of its own
    for second in range(10):
        rate.add(200 + second, 1100 + 50 * second)
    assert rate.at(209) == pytest.approx(50.0, rel=0.1)


def test_batches_do_not_make_the_rate_swing():
    rate = RecentRate()
    for batch in range(5):  # 1,000 samples every five minutes
        rate.add(300 * batch, 1000 * batch)
        assert rate.at(300 * batch + 299) in (None, pytest.approx(1000 / 300, rel=0.01))
    assert rate.at(300 * 4 + 900) < 0.7 * 1000 / 300  # one that does not come in time slows it down


def test_steps_are_shown_until_they_are_done():
    found, _, _ = tracker()
    found.step("an index", 3, 7)
    assert found.state().step == StepProgress("an index", 3, 7)
    found.step("an index", 7, 7)
    assert found.state().step is None


# ---- the meter ----


def result_of(metric, values):
    result = TaskResult(Task("t", [], lambda *_: Prompt(), lambda *_: iter(()), (metric,)), "m")
    for position, value in enumerate(values):
        result.add(position, Sample(str(position), {}), {measure(metric).name: value})
    return result


@pytest.mark.parametrize("count", [1, 2, 7, 100, 1003])
@pytest.mark.parametrize("metric", [Accuracy(), F1()])
def test_the_running_figure_is_the_figure_of_the_samples_so_far(metric, count):
    binary = measure(metric).binary
    values = [100.0 * ((7 * at) % 3 == 0) if binary else float(37 * at % 101 % 100) for at in range(count)]
    result, meter = result_of(metric, ()), RunMeter(Budget())
    meter.begin(result)
    assert meter.read().value is None
    for position, value in enumerate(values):  # read while it grows, as a terminal does
        result.add(position, Sample(str(position), {}), dict.fromkeys(names(metric), value))
        if position % 13 == 0:
            meter.read()
    found, expected = meter.read(), next(iter(result_rows(result)))
    assert (found.metric, found.scored) == (measure(metric).name, count)
    assert found.value == pytest.approx(expected["value"], rel=1e-12)
    if binary:
        assert list(found.interval) == pytest.approx(expected["ci95"])
        assert found.interval == pytest.approx(interval(values, bounds=measure(metric).bounds, binary=True))
    elif count > 1:
        assert found.interval[0] <= found.value <= found.interval[1]


def test_a_figure_that_is_no_mean_is_computed_as_at_the_end():
    metric = Chrf()
    texts = ["the cat sat on the mat today", "a dog ran over the hill", "all is well that ends well here"]
    result, meter = result_of(metric, ()), RunMeter(Budget())
    meter.begin(result)
    for position, text in enumerate(texts):
        sample = Sample(str(position), {}, Answers((text + " indeed",)))
        result.add(position, sample, metric.score(sample, text))
        found = meter.read()
    assert found.value == pytest.approx(next(iter(result_rows(result)))["value"])
    assert found.interval is None


def test_a_metric_that_cannot_be_summed_up_yet_hides_nothing_else():
    class Odd(Accuracy):
        def reduce(self, name, values):
            raise RuntimeError("not yet")

    meter = RunMeter(Budget())
    meter.begin(result_of(Odd(), [100.0, 0.0]))
    meter.answered(Outcome(Sample("0", {}), "a", ()))
    assert (meter.read().done, meter.read().value) == (1, None)


def test_the_meter_counts_samples_tokens_cost_and_retries_of_the_running_task():
    budget, tries = Budget(prices={"model": (1.0, 2.0)}), Tries()
    meter = RunMeter(budget)
    meter.follow_tries(tries)
    meter.follow_tries(tries)
    request = Generate(Prompt("x"))
    budget.start("model", 2)
    budget.answered("model", request, Generated("y", usage=Usage(1000, 1000)))
    tries.retries = 5
    meter.begin(result_of(Accuracy(), ()))
    budget.answered("model", request, Generated("y", usage=Usage(10, 20)))
    tries.retries = 7
    meter.answered(Outcome(Sample("0", {}), "a", ()))
    meter.answered(Outcome(Sample("1", {}), "a", (), True))
    meter.answered(Outcome(Sample("2", {}), Failed("down", "x"), ()))
    found = meter.read()
    assert (found.done, found.recalled, found.failed, found.retried) == (3, 1, 1, 2)
    assert (found.prompt_tokens, found.completion_tokens) == (10, 20)
    assert found.cost_usd == pytest.approx(50e-6)
    assert RunMeter(Budget()).read().cost_usd is None


# ---- the file of a run ----


class Reader(Watcher):
    """Reads the file of the run folder while a run is under way."""

    def __init__(self, folder):
        self.folder, self.plans, self.states = folder, [], []

    def planned(self, tasks, meter, *, complete):
        self.plans.append(([*tasks], complete))

    def begin(self, task, model, total):
        self.states.append(read_progress(self.folder))


def quiz(name="quiz", size=4):
    samples = [Sample(f"{name}-{at}", {}, Option(0), ("a", "b"), position=at) for at in range(size)]
    return Task(name, samples, lambda sample, shots: Prompt(sample.id), first, (Accuracy(),))


def first(sample, prompt):
    (reply,) = yield from ask(Generate(prompt))
    return int(reply.text)


def test_a_run_knows_its_tasks_before_it_starts_and_stores_its_progress(tmp_path):
    folder, models = tmp_path / "run", [Fake(lambda r: Generated("0")) for _ in range(2)]
    for number, model in enumerate(models):
        model.name = model.fingerprint = f"m{number}"
    reader = Reader(folder)
    kshot.evaluate(models, [quiz("a"), quiz("b", 3)], out=folder, watcher=reader)
    ((planned, complete),) = reader.plans
    found = [(each.model, each.task, each.total) for each in planned]
    assert (found, complete) == ([("m0", "a", 4), ("m0", "b", 3), ("m1", "a", 4), ("m1", "b", 3)], True)
    spec = json.loads((folder / "spec.json").read_text())
    assert {state.started for state in reader.states} == {spec["sessions"][0]["started"]}
    assert not (folder / PROGRESS).exists()  # the run is done
    assert not list(folder.glob(".*"))


def test_a_run_that_stops_leaves_how_far_it_was_and_the_next_one_replaces_it(tmp_path):
    folder, asked = tmp_path / "run", []

    def breaks(request):
        asked.append(request)
        if len(asked) > 2:
            raise KeyboardInterrupt
        return Generated("0")

    with pytest.raises(KeyboardInterrupt):
        kshot.evaluate(Fake(breaks), [quiz("a", 4), quiz("b", 3)], out=folder)
    state = read_progress(folder)
    assert [(task.task, task.state, task.total) for task in state.tasks] == [("a", "running", 4), ("b", "waiting", 3)]
    assert (state.done, state.total, state.complete, state.left) == (2, 7, True, None)
    reader = Reader(folder)
    kshot.evaluate(Fake(lambda r: Generated("0")), [quiz("a", 4), quiz("b", 3)], out=folder, watcher=reader)
    assert not (folder / PROGRESS).exists()


def test_answers_of_the_journal_are_told_apart(tmp_path):
    folder, recalled = tmp_path / "run", []

    class Outcomes(Watcher):
        def answered(self, outcome):
            recalled.append(outcome.recalled)

    answers = iter([Generated("0"), Failed("busy", "x", retryable=True), Generated("0"), Generated("0")])
    kshot.evaluate(Fake(lambda r: next(answers)), quiz(), out=folder, watcher=Outcomes())
    assert recalled == [False] * 4
    recalled.clear()
    kshot.evaluate(Fake(lambda r: Generated("0")), quiz(), out=folder, watcher=Outcomes())
    assert sorted(recalled) == [False, True, True, True]


def test_what_cannot_be_written_does_not_end_a_run(tmp_path):
    folder = tmp_path / "run"
    (folder / PROGRESS).mkdir(parents=True)  # no file can take its place
    (folder / f".{PROGRESS}.draft").mkdir()
    (folder / "journal.jsonl").touch()
    result = kshot.evaluate(Fake(lambda r: Generated("0")), quiz(), out=folder)
    assert [row["value"] for row in result.results] == [100.0]


def test_a_link_of_a_stranger_is_replaced_and_not_followed(tmp_path):
    folder, victim = tmp_path / "run", tmp_path / "victim"
    victim.write_text("precious")
    folder.mkdir()
    (folder / PROGRESS).symlink_to(victim)
    (folder / f".{PROGRESS}.draft").symlink_to(victim)
    with FolderProgress(folder, STARTED) as found:
        found.planned([PlannedTask("a", "m", 3)], Dial(), complete=True)
        found.begin("a", "m", 3)
        found.finished([])
        assert read_progress(folder) is not None
    assert victim.read_text() == "precious"


def test_the_file_is_written_at_once_and_rarely_where_it_takes_long(tmp_path):
    clock = Clock()
    found = FolderProgress(tmp_path, STARTED, clock)
    found.planned([PlannedTask("a" * 10_000, "m", 3)], Dial(), complete=True)
    found.store()
    assert read_progress(tmp_path).tasks[0].task == "a" * 4096  # a longer name would be refused
    write = found._write
    found._write = lambda text: (setattr(clock, "now", clock.now + 0.5), write(text))
    found.begin("a" * 10_000, "m", 3)
    found.store()
    assert read_progress(tmp_path).tasks[0].state == "running"
    found.finished([])
    assert read_progress(tmp_path).tasks[0].state == "running"  # half a second is too much for each task
    clock.now += 60
    found.store()
    assert read_progress(tmp_path).tasks[0].state == "done"


def test_a_call_that_hangs_does_not_keep_a_run_from_ending(monkeypatch):
    monkeypatch.setattr("kshot.runs.progress._STOP_SECONDS", 0.01)
    entered, release = threading.Event(), threading.Event()

    def hangs():
        entered.set()
        release.wait()

    ticker = Ticker(0.001, hangs)
    ticker.start()
    assert entered.wait(60)
    ticker.stop()
    release.set()


def test_a_folder_that_is_gone_stays_gone(tmp_path):
    found = FolderProgress(tmp_path / "gone", STARTED)
    with found:
        found.store()
    assert not (tmp_path / "gone").exists()


def test_samples_of_later_tasks_that_are_answered_count_before_their_task_begins():
    found, clock, dial = tracker(PlannedTask("a", "m", 10), PlannedTask("b", "m", 30))
    found.begin("a", "m", 10)
    for second in range(1, 11):
        clock.now = 1000.0 + second
        dial.reading = MeterReading(done=1, ahead=2 * second, ahead_recalled=2)
        state = found.state()
    assert state.done == 21
    assert state.left == pytest.approx((40 - 21) / 2, rel=0.1)
    dial.reading = MeterReading(done=10, ahead=20, ahead_recalled=2)
    found.finished([])
    dial.reading = MeterReading(done=20)
    found.begin("b", "m", 30)
    assert found.state().done == 30


def test_the_meter_moves_samples_to_their_task_when_it_begins():
    meter = RunMeter(Budget())
    first, second = (TaskResult(Task(name, [], None, None, ()), "m") for name in "ab")
    outcomes = [Outcome(Sample(str(at), {}, Answers(("x",))), "x", (), at == 0) for at in range(3)]
    meter.begin(first)
    for outcome in outcomes:
        meter.answered_ahead(outcome)
    assert (meter.read().done, meter.read().ahead, meter.read().ahead_recalled) == (0, 3, 1)
    meter.begin(second, outcomes[:2])
    assert (meter.read().done, meter.read().recalled) == (2, 1)
    assert (meter.read().ahead, meter.read().ahead_recalled) == (1, 0)
