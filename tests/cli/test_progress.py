"""The progress bar on a terminal, and its absence elsewhere."""

import io

from kshot.cli.progress import Progress
from kshot.core.records import Failed, Outcome, Sample


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


def test_every_task_keeps_its_count_and_a_burst_is_drawn_without_another_answer(monkeypatch):
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    with Progress() as progress:
        for name, total in (("one", 5), ("two", 3)):
            progress.begin(name, "openai:model@http://127.0.0.1:9100/v1", total)
            for i in range(total):
                progress.answered(Outcome(Sample(str(i), {}), "yes", ()))
        list(progress._bar.get_renderables())
        assert [(int(task.completed), task.total) for task in progress._bar.tasks] == [(5, 5), (3, 3)]
    assert "5/5" in shown.getvalue()  # on 80 columns, whatever the model is called
    assert "3/3" in shown.getvalue()


def test_long_names_of_models_stay_apart(monkeypatch):
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    with Progress() as progress:
        for folder in ("x", "y"):
            progress.begin("a_rather_long_task", f"hf:/home/me/models/that/are/deep/{folder}/ckpt", 1)
        labels = [task.description for task in progress._bar.tasks]
    assert [label[-7:] for label in labels] == ["/x/ckpt", "/y/ckpt"]
    assert {len(label) for label in labels} == {max(progress._bar.console.width - 50, 20)}
