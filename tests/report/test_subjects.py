"""A subject is a module and a line: the terminal and pages show it."""

import sys
from types import ModuleType

from kshot.report import subjects
from kshot.report.figures import field_cell
from kshot.report.view import TableView, numbers, words
from kshot.runs.record import RunRecord
from tests.commands import kshot as command
from tests.finished_runs import Item, finished, task


def failures(record, places):
    """Yield one table: how many samples of each task failed."""
    rows = [[row["task"], field_cell(row, "failed", source=places(row))] for row in record.results]
    yield TableView([*words("task"), *numbers("failed")], rows, "Failed samples")


def test_a_module_and_a_line_show_a_subject_on_the_terminal_and_on_pages(tmp_path, monkeypatch, capsys):
    module = ModuleType("own_subject")
    module.OWN = subjects.Subject("own", lambda views: f"Own ({len(views)})", failures, lambda _: ["Nobody failed."])
    monkeypatch.setitem(sys.modules, "own_subject", module)
    monkeypatch.setattr(subjects, "SUBJECTS", (*subjects.SUBJECTS, "own_subject:OWN"))
    run = finished(tmp_path / "run", task("quiz", {"a": Item(100.0), "b": Item(None)}))
    page = (run / "report.html").read_text(encoding="utf-8")
    assert '<h2 id="own-title">Own (1)</h2>' in page
    assert 'data-row="run/results/0"><data value="1" data-field="failed">1</data>' in page
    shown = command(capsys, "show", run).out
    assert "Failed samples\ntask  failed\nquiz       1\n" in shown
    for told in (page, shown):
        assert "Nobody failed." in told


def test_a_run_without_its_views_has_no_section():
    assert all(not list(subject.views(RunRecord([], []), lambda _: None)) for subject in subjects.every_subject())
