"""The progress bar on a terminal, and its absence elsewhere."""

import io

from kshot.cli.progress import Progress
from kshot.engine import Outcome
from kshot.records import Failed, Sample


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_samples_and_failures_are_counted(monkeypatch):
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    with Progress() as progress:
        progress.begin("quiz[a]", "hf:model", 2)
        progress.answered(Outcome(Sample("0", {}), "yes", ()))
        progress.answered(Outcome(Sample("1", {}), Failed("down", "x"), ()))
        progress.note("a note")
    text = shown.getvalue()
    assert "quiz[a] · hf:model" in text
    assert "2/2" in text
    assert "1 failed" in text
    assert "note: a note" in text


def test_elsewhere_only_notes_are_printed(capsys):
    with Progress() as progress:
        progress.begin("quiz", "hf:model", None)
        progress.answered(Outcome(Sample("0", {}), "yes", ()))
        progress.note("a note")
    assert capsys.readouterr().err == "kshot: a note\n"
