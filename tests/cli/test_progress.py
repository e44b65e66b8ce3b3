"""Progress on stderr: a screen that a terminal redraws, and a line every half minute elsewhere."""

import io
import re
import sys
import threading
from contextlib import redirect_stderr

import pytest

from kshot.cli.progress import LINE_SECONDS, Progress
from kshot.core.watcher import MeterReading, PlannedTask
from tests.terminal import on_terminal


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Dial:
    def __init__(self, **reading):
        self.reading = MeterReading(**reading)

    def read(self):
        return self.reading


def a_terminal(monkeypatch, columns=80, lines=24):
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    for name, value in {"TERM": "xterm", "COLUMNS": str(columns), "LINES": str(lines)}.items():
        monkeypatch.setenv(name, value)
    return shown


def test_a_terminal_shows_the_whole_run_and_keeps_none_of_it(monkeypatch):
    terminal = a_terminal(monkeypatch)
    with Progress() as progress:
        progress.planned([PlannedTask("quiz[a]", "hf:model", 2)], Dial(done=1, failed=1), complete=True)
        progress.begin("quiz[a]", "hf:model", 2)
        progress.note("a note")
        progress._live.refresh()
    text = terminal.getvalue()
    assert "1 of 2" in text
    assert "quiz[a]" in text
    assert "1 failed" in text
    assert "note: a note" in text
    *_, last = text.split("\x1b[?25h")  # the cursor is shown again
    assert "quiz" not in last
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1


def test_a_run_that_is_stopped_leaves_one_line_and_a_sane_terminal(monkeypatch):
    terminal = a_terminal(monkeypatch)
    before = sys.stdout

    def stopped():
        with Progress() as progress:
            progress.planned([PlannedTask("quiz", "hf:model", 4)], Dial(done=3), complete=True)
            progress.begin("quiz", "hf:model", 4)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    *_, last = terminal.getvalue().split("\x1b[?25h")
    assert "3 of 4" in last
    assert "left" not in last
    assert "hf:model" not in last
    assert (sys.stdout, sys.stderr) == (before, terminal)
    assert not [thread for thread in threading.enumerate() if thread.name == "kshot progress"]


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_57_subsets_fit_on_one_screen(monkeypatch, columns):
    a_terminal(monkeypatch, columns, lines=12)
    with Progress() as progress:
        planned = [PlannedTask(f"mmlu:{at}", model, 10, "mmlu") for model in ("m", "n", "o") for at in range(57)]
        progress.planned(planned, Dial(done=10), complete=True)
        for task in planned[:70]:
            progress.begin(task.task, task.model, 10)
            progress.finished([])
        progress.begin("mmlu:13", "n", 10)
        lines = progress._live.console.render_lines(progress._live.get_renderable(), pad=False)
    drawn = ["".join(segment.text for segment in line) for line in lines]
    assert len(drawn) < 12
    assert max(map(len, drawn)) <= columns
    assert "  mmlu  57 of 57 subsets done" in drawn
    assert "  mmlu  13 of 57 subsets done" in drawn
    assert drawn[-1] == "o  waits"


def test_elsewhere_a_line_comes_every_half_minute(capsys):
    clock = Clock()
    progress = Progress(clock)
    dial = Dial(done=3, metric="Accuracy", scored=3, value=66.66, failed=1)
    progress.planned([PlannedTask("quiz", "m", 6)], dial, complete=True)
    progress.begin("quiz", "m", 6)
    progress.note("a note")
    for second in range(95):
        clock.now = float(second)
        progress.tick()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "kshot: a note"
    assert lines[1] == "kshot: 3 of 6 (50.0 %) · 6.0/min · 30 s left · quiz Accuracy 66.7 · 1 failed"
    assert len(lines) == 4  # after 30, 60 and 90 seconds
    assert LINE_SECONDS == 30


def test_a_short_run_without_a_terminal_is_silent(capsys):
    with Progress() as progress:
        progress.begin("quiz", "hf:model", None)
        progress.note("a note")
    assert capsys.readouterr().err == "kshot: a note\n"


def test_a_long_start_is_not_silent(capsys):
    clock = Clock()
    progress = Progress(clock)
    progress.step("opening hf:/models/large", 0, 1)
    clock.now = 31.0
    progress.tick()
    assert capsys.readouterr().err == ("kshot: preparing · 31 s so far · opening hf:/models/large\n")


def test_a_dumb_terminal_gets_lines_too(monkeypatch):
    shown, clock = Terminal(), Clock()
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setenv("TERM", "dumb")
    progress = Progress(clock)
    with progress:
        clock.now = 31.0
        progress.tick()
    assert shown.getvalue().startswith("kshot: preparing")
    assert "\x1b" not in shown.getvalue()


def test_a_reader_who_is_gone_does_not_end_the_run(monkeypatch):
    tried = []

    class Gone(io.StringIO):
        def write(self, text):
            tried.append(text)
            raise BrokenPipeError

    clock = Clock()
    monkeypatch.setattr("sys.stderr", Gone())
    progress = Progress(clock)
    for now in (31.0, 62.0):
        clock.now = now
        progress.tick()
    assert tried


def test_a_real_run_on_a_terminal(tmp_path):
    out = tmp_path / "run"
    code, text = on_terminal("run", "-d", "lookup", "--length", "10", "--samples", "20", "--out", out, columns=80)
    assert code == 0
    before, while_it_runs, after = re.split(r"\x1b\[\?25[lh]", text)
    assert not before
    assert "of 120" in while_it_runs  # the size of the run is known before it starts
    assert "Accuracy 100.0 [83.9, 100.0]" in while_it_runs
    assert "run folder" in after
    assert "of 120" not in after
    assert not (out / "progress.json").exists()


def test_a_line_that_is_due_while_a_logger_is_called_is_not_lost(capsys):
    """A tool is called with stderr put aside; lines come from another thread."""
    clock = Clock()
    with Progress(clock) as progress, redirect_stderr(io.StringIO()):
        progress.planned([PlannedTask("quiz", "m", 10)], Dial(done=4), complete=True)
        progress.begin("quiz", "m", 10)
        clock.now = LINE_SECONDS
        progress.tick()
        progress.note("a note")
    assert capsys.readouterr().err.splitlines() == [
        "kshot: 4 of 10 (40.0 %) · 8.0/min · 45 s left · quiz",
        "kshot: a note",
    ]


def test_samples_of_later_tasks_are_told_and_counted_as_done(monkeypatch):
    a_terminal(monkeypatch)
    with Progress() as progress:
        planned = [PlannedTask("quiz:a", "m", 4), PlannedTask("quiz:b", "m", 6)]
        progress.planned(planned, Dial(done=2, ahead=3), complete=True)
        progress.begin("quiz:a", "m", 4)
        lines = progress._live.console.render_lines(progress._live.get_renderable(), pad=False)
    drawn = ["".join(segment.text for segment in line) for line in lines]
    assert "50.0 %  5 of 10" in drawn[0]
    assert "quiz:a  2 of 4 · 3 of later tasks" in "\n".join(drawn)
