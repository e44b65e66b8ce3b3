"""Tasks as one stream: the next one is asked while the one before is open, and each begins and ends in its turn."""

import asyncio
from dataclasses import replace

import pytest

import kshot
from kshot.core.errors import DataError
from kshot.core.memo import MemoryMemo
from kshot.core.records import Answers, Generate, Generated, Prompt, Sample, ask
from kshot.core.task import Task, TaskResult
from kshot.core.watcher import Watcher
from kshot.metrics.exact import ExactMatch
from kshot.runs.task_run import TaskRun, asked_together, run_tasks
from tests.fake_server import FakeServer, completion


def method(sample, prompt):
    (reply,) = yield from ask(Generate(prompt))
    return reply.text


def task(name, size, **more):
    samples = [Sample(f"{name}{at}", {}, Answers((f"{name}{at}",))) for at in range(size)]
    return Task(name, samples, lambda sample, _: Prompt(sample.id), method, (ExactMatch(),), **more)


class Model:
    """Answers with the prompt. It answers nothing of a batch before it has a batch of this size, or can get no more."""

    answers = (Generate,)
    name = fingerprint = "model"

    def __init__(self, at_once=1):
        self.at_once, self.batches = at_once, []

    def serve(self, waiting):
        while batch := waiting.take(self.at_once):
            self.batches.append([request.prompt.text for request in batch])
            for request in batch:
                yield request, Generated(request.prompt.text)


def ran(tasks, model, events=None):
    """Run tasks as one stream; return the results, with what happened in ``events``."""
    events = [] if events is None else events

    def run(each):
        result = TaskResult(each, model.name)
        emit = lambda sample, _: events.append(("scored", sample.id))  # noqa: E731

        def begin(early):
            events.append(("begin", each.name))
            events.extend(("answered", outcome.item.id) for outcome in early)

        return TaskRun(result, emit, begin, lambda outcome: events.append(("answered", outcome.item.id)))

    results = []
    for done in run_tasks(map(run, tasks), {"model": model}, MemoryMemo()):
        events.append(("end", done.result.task.name))
        results.append(done.result)
    return results


def test_a_batch_holds_samples_of_several_tasks():
    model = Model(at_once=4)
    results = ran([task("a", 3), task("b", 0), task("c", 2), task("d", 1)], model)
    assert [(result.task.name, len(result.positions)) for result in results] == [("a", 3), ("b", 0), ("c", 2), ("d", 1)]
    assert model.batches == [["a0", "a1", "a2", "c0"], ["c1", "d0"]]
    assert all(
        list(result.values["exact_match"]) == [100.0] * len(result.positions) for result in results if result.positions
    )


def test_each_task_begins_and_ends_in_its_turn_with_its_own_samples():
    events = []
    ran([task("a", 3), task("b", 0), task("c", 2)], Model(at_once=5), events)
    of_c = [("answered", "c0"), ("answered", "c1"), ("scored", "c0"), ("scored", "c1")]
    expected = [("begin", "a"), *((kind, f"a{at}") for at in range(3) for kind in ("answered", "scored")), ("end", "a")]
    assert [event for event in events if event not in of_c] == [
        *expected,
        ("begin", "b"),
        ("end", "b"),
        ("begin", "c"),
        ("end", "c"),
    ]
    assert [event for event in events if event in of_c and event[0] == "scored"] == [("scored", "c0"), ("scored", "c1")]
    after = events[events.index(("begin", "c")) :]
    assert all(event in after for event in of_c), "what was answered early is told when the task begins"


def test_a_task_is_compiled_when_the_samples_of_those_before_are_started():
    compiled, model = [], Model(at_once=2)

    def tasks():
        for name in "abc":
            compiled.append((name, sum(map(len, model.batches))))
            yield task(name, 4)

    ran(tasks(), model)
    assert [name for name, _ in compiled] == list("abc")
    assert compiled[0][1] == 0
    assert compiled[-1][1] < 12, "not all was asked when the last task was compiled"


def test_tasks_that_need_all_answers_or_other_passages_stay_apart():
    passages = object()
    whole = task("whole", 2, finish=lambda answers: [f"{answer}" for answer in answers])
    tasks = [
        task("a", 1),
        task("b", 1),
        whole,
        task("c", 1),
        task("d", 1, corpus=passages),
        task("e", 1, corpus=passages),
    ]
    groups = [[each.name for _, each in group] for group in asked_together(enumerate(tasks))]
    assert groups == [["a", "b"], ["whole"], ["c"], ["d", "e"]]
    assert [[each.name for _, each in group] for group in asked_together(enumerate(tasks), apart=True)] == [
        [each.name] for each in tasks
    ]
    (result,) = ran([whole], Model())
    assert list(result.values["exact_match"]) == [100.0, 100.0]


def test_what_is_under_way_is_kept_when_a_sample_of_a_later_task_cannot_be_asked(tmp_path):
    """All that the server was asked is in the journal: the same command, mended, asks for the rest only."""

    def cannot(sample, _shots):
        if sample.id == "bad40":
            raise ValueError("no such column")
        return Prompt(sample.id)

    good, bad = task("good", 60), task("bad", 80)
    with FakeServer(lambda call: completion(call.prompt)) as server:
        spec, more = f"openai:model@{server.url}", {"out": tmp_path / "run", "max_concurrency": 8}
        what = "dataset bad, sample bad40: it cannot be asked: ValueError: no such column"
        with pytest.raises(DataError, match=what):
            kshot.evaluate(spec, [good, replace(bad, template=cannot)], **more)
        assert server.calls
        result = kshot.evaluate(spec, [good, bad], **more)
        asked = [call.prompt for call in server.calls if call.prompt in {s.id for t in (good, bad) for s in t.samples}]
    assert [row["value"] for row in result.results] == [100.0, 100.0]
    assert len(asked) == len(set(asked)) == 140


class Notes(Watcher):
    """Writes down which tasks begin and end, and whose samples are told in between."""

    def __init__(self):
        self.events = []

    def begin(self, task, model, total, /):
        self.events.append(f"begin {task} {total}")

    def scored(self, row, /):
        self.events.append(f"scored {row['id']}")

    def finished(self, rows, /):
        self.events.append(f"finished {rows[0]['task']} {rows[0]['n']}")


def test_watchers_see_one_task_after_the_other():
    watcher = Notes()
    kshot.evaluate(lambda prompt: prompt, [task("a", 2), task("b", 1)], watcher=watcher)
    assert watcher.events == [
        "begin a 2",
        "scored a0",
        "scored a1",
        "finished a 2",
        "begin b 1",
        "scored b0",
        "finished b 1",
    ]


def test_a_slow_sample_of_one_task_holds_up_no_other_task():
    """The server answers the first sample when it was asked for the last one of the last task."""
    last, tasks = asyncio.Event(), [task(name, 4) for name in "abcd"]

    async def answer(call):
        if call.prompt == "d3":
            last.set()
        if call.prompt == "a0":
            await last.wait()
        return completion(call.prompt)

    with FakeServer(answer) as server:
        result = kshot.evaluate(f"openai:model@{server.url}", tasks, max_concurrency=4)
    assert [row["value"] for row in result.results] == [100.0] * 4
