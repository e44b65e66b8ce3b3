"""``kshot report``: where the file is, what is said of it, and what is refused."""

from pathlib import Path

import pytest

from tests.commands import kshot
from tests.finished_runs import Item, finished, task


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, best in (("old", 5), ("new", 8)):
        finished(folder / name, task("quiz", {str(at): Item(100 if at < best else 0) for at in range(10)}))
    return folder


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_one_run_is_written_into_its_folder(runs, here, capsys):
    (runs / "old" / "report.html").unlink()
    done = kshot(capsys, "report", str(runs / "old"))
    assert done.code == 0
    assert done.out == f"{runs / 'old' / 'report.html'}\n"
    assert done.err.endswith(" MB, 10 samples\n")
    assert (runs / "old" / "report.html").is_file()
    assert not list(here.iterdir())


def test_several_runs_are_written_here_or_where_the_user_says(runs, here, capsys):
    both = [str(runs / name) for name in ("old", "new")]
    done = kshot(capsys, "report", *both)
    assert (done.code, done.out) == (0, "report.html\n")
    text = Path("report.html").read_text("utf-8")
    assert "new" in text
    assert "+30.00" in text
    done = kshot(capsys, "report", *both, "--out", "deep/er/both.html")
    assert (done.code, done.out) == (0, "deep/er/both.html\n")


def test_a_file_that_is_no_report_is_not_replaced(runs, here, capsys):
    Path("mine.html").write_text("mine")
    done = kshot(capsys, "report", str(runs / "old"), "--out", "mine.html")
    assert done.code == 2
    assert "mine.html: this file is not a report of kshot" in done.err
    done = kshot(capsys, "report", str(runs / "old"), "--out", str(runs / "new" / "summary.json"))
    assert done.code == 2
    assert "this is a file of a run" in done.err


@pytest.mark.parametrize("out", ["", "/dev/null/report.html", f"{'x' * 300}.html"])
def test_a_place_that_cannot_be_written_is_one_message(runs, here, capsys, out):
    done = kshot(capsys, "report", str(runs / "old"), "--out", out)
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    assert "Traceback" not in done.err


def test_a_run_that_has_not_come_to_its_end_has_none(here, capsys):
    finished(here / "run", task("quiz", {"a": Item(100)}))
    (here / "run" / "summary.json").unlink()
    done = kshot(capsys, "report", "run")
    assert done.code == 2
    assert "it has no figures yet" in done.err


def test_a_run_whose_samples_are_gone_has_the_rest(here, capsys):
    finished(here / "run", task("quiz", {"a": Item(100)}))
    (here / "run" / "samples.jsonl").unlink()
    done = kshot(capsys, "report", "run")
    assert done.code == 0
    assert done.err.endswith(" MB, 0 samples\n")
    assert 'id="samples"' not in Path("run/report.html").read_text("utf-8")


def test_damaged_samples_are_named(here, capsys):
    finished(here / "run", task("quiz", {"a": Item(100)}))
    with (here / "run" / "samples.jsonl").open("a") as file:
        file.write("no json\n")
    done = kshot(capsys, "report", "run")
    assert done.code == 2
    assert "samples.jsonl:2: this line is damaged" in done.err


def test_run_names_its_report_last(here, capsys):
    from tests.commands import CAPITALS

    Path("capitals.py").write_text(CAPITALS)
    Path("recorded.jsonl").write_text('{"prompt": "The capital of France0 is", "response": " Paris."}\n')
    command = ("run", "-m", "replay:recorded.jsonl", "-d", "capitals.py:Cities", "--out", "run")
    assert kshot(capsys, *command).out.splitlines()[-1] == "report: run/report.html"
    Path("run/report.html").unlink()
    assert kshot(capsys, *command, "--no-report").out.splitlines()[-1] == "run folder: run"
    Path("run/report.html").write_text("somebody's own")
    done = kshot(capsys, *command)
    assert "report.html was not written" in done.err
    assert done.out.splitlines()[-1] == "run folder: run"
    assert Path("run/report.html").read_text() == "somebody's own"
