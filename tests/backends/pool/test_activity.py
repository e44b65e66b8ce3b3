"""What the user sees of workers while a run is under way."""

import kshot
from kshot.backends.pool.dispatcher import WorkerState
from kshot.core.watcher import MeterReading
from kshot.report.progress import progress_lines
from kshot.runs.progress import ProgressState, TaskProgress
from tests.backends.pool.pooled import write


def test_the_meter_tells_what_the_workers_do(tmp_path, monkeypatch):
    monkeypatch.chdir(write(tmp_path, monkeypatch))
    readings = []

    class Reads(kshot.Watcher):
        def planned(self, tasks, meter, *, complete):
            self.meter = meter

        def scored(self, row):
            readings.append(self.meter.read().workers)

    (tmp_path / "killed").unlink(missing_ok=True)
    kshot.evaluate("world.py:DiesOnce", "capitals.py:Cities", dataset_path="40", workers=2, watcher=Reads())
    assert all(text.startswith("2 workers: ") for text in readings)
    assert readings[-1].endswith(", 1 died")
    kshot.evaluate("world.py:Noting", "capitals.py:Cities", dataset_path="4", watcher=Reads())
    assert readings[-4:] == [""] * 4, "a plain run has no workers"


def test_the_screen_shows_the_line():
    task = TaskProgress(
        "cities", "m", 40, state="running", reading=MeterReading(done=7, workers="2 workers: 3/s, idle")
    )
    state = ProgressState("2026-11-18T00:00:00+00:00", complete=True, tasks=[task])
    assert any("2 workers: 3/s, idle" in line.plain for line in progress_lines(state, 80))
    assert ProgressState.from_json(state.as_json()).tasks[0].reading.workers == "2 workers: 3/s, idle"
    old = state.as_json()
    del old["tasks"][0]["reading"]["workers"]
    assert ProgressState.from_json(old).tasks[0].reading.workers == ""


def test_a_worker_gets_as_much_as_it_does_in_a_few_seconds():
    worker = WorkerState(0)
    assert worker.activity() == "starting"
    worker.opened(0.0)
    assert worker.activity() == "idle"
    assert worker.chunk_size(1000, 1) == 512, "nobody steals from a single worker"
    assert worker.chunk_size(1000, 2) == 64
    assert worker.chunk_size(10, 2) == 5
    worker.send(range(20), alone=False)
    for second in range(1, 11):
        worker.sent.popitem()
        worker.answered(float(second * 2))
    assert worker.activity() == "0.5/s"
    assert worker.chunk_size(1000, 2) == 8
    assert worker.chunk_size(1, 2) == 1
