"""An error in a logger never reaches the run."""

import json
import sys
import threading
from pathlib import Path

import pytest

import kshot
from kshot.core.errors import UsageError
from kshot.core.watcher import Watcher
from kshot.loggers import run_logger
from kshot.loggers.making import GuardedLogger
from kshot.loggers.run_logger import RunLogger

PLANETS = f"{Path(__file__).parents[2]}/examples/planets.py:PlanetNames"
EVENTS = ("started", "begin", "answered", "scored", "finished", "ended", "closed", "note", "step")


class Faulty(Watcher):
    """Raises an error at one event, and remembers the others."""

    def __init__(self, event, error):
        self.seen = []
        for name in EVENTS:
            setattr(self, name, lambda *_, name=name: self.at(name, event, error))

    def at(self, name, event, error):
        self.seen.append(name)
        if name == event:
            raise error


class Noted(Watcher):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


def evaluated(log, **options):
    watcher = Noted()
    result = kshot.evaluate(lambda _: "Mars", PLANETS, limit=3, log=log, watcher=watcher, **options)
    return result, watcher.notes


@pytest.mark.parametrize("error", [ConnectionError("no network"), SystemExit(1), RecursionError("deep")])
@pytest.mark.parametrize("event", ["started", "begin", "answered", "scored", "finished", "ended", "closed"])
def test_an_error_is_one_note_and_the_run_goes_on(event, error, tmp_path):
    faulty = Faulty(event, error)
    result, notes = evaluated(faulty, out=tmp_path / "run")
    then = "the last of it may not be logged" if event == "closed" else "logging stops, the run goes on"
    said = f"Faulty: {type(error).__name__}: {error}; {then}"
    assert notes == [said] == result.notes
    assert [row["n"] for row in result.results] == [3]
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["notes"] == []  # the run is as any other
    after = faulty.seen[faulty.seen.index(event) + 1 :]
    assert after == ([] if event == "closed" else ["closed"])  # what is open is closed, and nothing else is told


def test_what_the_run_waits_for_is_shown():
    steps = []

    class Slow(Watcher):
        def started(self, settings, path):
            steps.append("started")

        def closed(self, state, error):
            steps.append("closed")
            raise ConnectionError("the server is gone")

    class Steps(Watcher):
        def step(self, *step):
            steps.append(step)

    kshot.evaluate(lambda _: "Mars", PLANETS, limit=1, log=Slow(), watcher=Steps())
    begin, end = ("waiting for Slow", 0, 1), ("waiting for Slow", 1, 1)
    assert steps == [begin, "started", end, begin, "closed", end]


def test_other_loggers_go_on():
    good = Faulty(None, None)
    result, _ = evaluated([Faulty("scored", OSError("disk full")), good])
    assert good.seen.count("scored") == 3
    assert good.seen[-2:] == ["ended", "closed"]
    assert len(result.notes) == 1


def test_an_error_that_holds_a_key_or_a_page_is_cut():
    _, (note,) = evaluated(Faulty("begin", OSError("https://me:hunter2-abc@host " + "x\n" * 5000)))
    assert "hunter2-abc" not in note
    assert len(note) < 400
    assert "\n" not in note


def test_what_a_logger_says_of_its_set_up_stops_the_run_before_it_asks_anything(tmp_path):
    asked = []
    with pytest.raises(UsageError, match="no account"):
        kshot.evaluate(asked.append, PLANETS, out=tmp_path / "run", log=Faulty("started", UsageError("no account")))
    assert asked == []


def test_ctrl_c_in_a_logger_is_no_error_of_it():
    with pytest.raises(KeyboardInterrupt):
        evaluated(Faulty("scored", KeyboardInterrupt()))


class InMemory(RunLogger):
    """Keeps what a tool would get."""

    def __init__(self, **common):
        super().__init__(**common)
        self.figures, self.files, self.state, self.texts = [], {}, None, {}

    def open_run(self, name, config, tags):
        sys.stdout.write("a tool prints")
        self.opened = (name, config, tags)

    def log_figures(self, figures):
        self.figures.append(dict(figures))

    def log_table(self, columns, rows):
        self.table = (columns, rows)

    def attach(self, files):
        self.files = dict(files)

    def close_run(self, state, texts):
        self.state, self.texts = state, dict(texts)


def test_every_figure_is_logged_once(capsys):
    logger = InMemory()
    result, _ = evaluated(logger)
    names = [name for each in logger.figures for name in each]
    assert len(names) == len(set(names))
    assert {result.results[0]["value"], 3, 0} <= {value for each in logger.figures for value in each.values()}
    assert (logger.state, logger.files, capsys.readouterr().out) == ("done", {}, "")


def test_a_run_without_a_folder_is_named_after_what_it_does():
    logger = InMemory()
    evaluated(logger)
    assert logger.opened[0].endswith("planets.py:PlanetNames evaluated.<locals>.<lambda>")


def test_running_figures_come_now_and_then(monkeypatch):
    monkeypatch.setattr(run_logger, "SECONDS_BETWEEN_RUNNING_FIGURES", 0.0)
    often, seldom = InMemory(), InMemory()
    evaluated(often)
    done = [each["planet_names/samples_done"] for each in often.figures if "planet_names/samples_done" in each]
    assert done
    assert done == sorted(done)
    assert done[-1] == 3
    monkeypatch.setattr(run_logger, "SECONDS_BETWEEN_RUNNING_FIGURES", 3600.0)
    evaluated(seldom)
    assert not any("planet_names/samples_done" in each for each in seldom.figures)


def test_a_failed_run_has_its_error_and_no_summary_of_an_earlier_one(tmp_path):
    def failing(_):
        raise ValueError("broken: sk-abcdefghij0123456789")

    evaluated(InMemory(), out=tmp_path / "run")
    (tmp_path / "run" / "journal.jsonl").unlink()
    logger = InMemory()
    with pytest.raises(Exception, match="broken"):
        kshot.evaluate(failing, PLANETS, out=tmp_path / "other", log=logger)
    assert (logger.state, list(logger.files)) == ("failed", ["spec.json"])
    assert "broken" in logger.texts["error"]
    assert "abcdefghij0123456789" not in logger.texts["error"]


def test_a_limit_stops_a_run(tmp_path):
    logger = InMemory()
    with pytest.raises(kshot.LimitReached):
        evaluated(logger, out=tmp_path / "run", max_requests=1)
    assert logger.state == "stopped"


def test_a_file_that_is_a_link_to_elsewhere_is_not_sent(tmp_path):
    private = tmp_path / "private"
    private.write_text("mine")

    class Linking(InMemory):
        def ended(self, results, usage):
            super().ended(results, usage)
            (tmp_path / "run" / "summary.json").unlink()
            (tmp_path / "run" / "summary.json").symlink_to(private)

    logger = Linking()
    evaluated(logger, out=tmp_path / "run")
    assert list(logger.files) == ["spec.json"]


def test_what_loggers_print_goes_to_stderr(capsys):
    """Two may print at once, in several threads: stdout is put back when the last one is done."""
    both = threading.Barrier(2, timeout=60)

    class Prints(Watcher):
        def note(self, text):
            both.wait()
            print(text)  # noqa: T201 - a logger of a user
            both.wait()

    threads = [threading.Thread(target=GuardedLogger(Prints(), "prints").note, args=[text]) for text in "ab"]
    stdout = sys.stdout
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sys.stdout is stdout
    out, err = capsys.readouterr()
    assert (out, sorted(err.split())) == ("", ["a", "b"])
