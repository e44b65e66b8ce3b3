"""Figures of which many samples failed are marked wherever they are shown, and a legend says why."""

import csv
import json
import re

import pytest

import kshot
from kshot.core.watcher import MeterReading
from kshot.loggers.run_logger import FigureNames, figures_of
from kshot.report.gates import step_summary
from kshot.viewer.catalog import Catalog
from tests.commands import kshot as command
from tests.failing_runs import evaluated

LOST = "‡ an average without towns:easy: more than half of the samples failed"
SOME = "† more than 5 % of the samples, or of those of a part (towns:mid), failed"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    evaluated({"easy": 16, "mid": 2}, right=("hard",), out=folder / "failed", fsync="never")
    evaluated({}, out=folder / "whole", fsync="never")
    evaluated({"easy": 1}, right=("easy", "hard"), out=folder / "nearly", fsync="never")
    evaluated({"easy": 16, "mid": 2}, right=("hard",), out=folder / "swept", num_shots=[0, 1, 2], fsync="never")
    evaluated({"easy": 16}, others=({},), right=("hard",), out=folder / "two", fsync="never")
    return folder


def shown(capsys, *arguments):
    done = command(capsys, *arguments)
    return done.out + done.err


@pytest.mark.parametrize(
    ("arguments", "figures"),
    [
        (("show", "failed"), ("50.00‡", "0.00†")),
        (("show", "failed", "--by", "subset"), ("0.00†",)),
        (("show", "swept"), ("50.00‡",)),
        (("show", "two"), ("50.00‡", "towns[Macro Average]‡")),
        (("runs", "."), ("EM 50.0‡",)),
        (("runs", "failed"), ("EM 50.0‡",)),
        (("compare", "whole", "failed"), ("50.00‡", "towns[Macro Average]‡")),
        (("gate", "failed", "--fail-under", "EM=99", "--fail-if-worse", "whole"), ("50.00‡",)),
        (("export", "failed", "whole", "--to", "markdown"), ("50.0‡", "0.0†")),
        (("export", "failed", "whole", "--to", "markdown", "--what", "comparisons"), ("‡",)),
        (("export", "failed", "whole", "--to", "latex"), (r"\ddag{}", r"\dag{}")),
    ],
)
def test_screens_and_texts_mark_figures(runs, monkeypatch, capsys, arguments, figures):
    monkeypatch.chdir(runs)
    told = shown(capsys, *arguments)
    flat = " ".join(told.split())
    for each in figures:
        assert each in told, told
    if arguments[0] != "export":
        assert "towns:easy" in flat.partition("‡ an average without")[2] or "--by" in arguments, told
    assert "more than 5 % of the samples" in flat.replace("\\%", "%") or arguments[1] == "two", told


@pytest.mark.parametrize("arguments", [("show", "nearly"), ("compare", "whole", "nearly"), ("show", "whole")])
def test_figures_of_few_failures_have_no_mark(runs, monkeypatch, capsys, arguments):
    monkeypatch.chdir(runs)
    assert not re.search("[†‡]", shown(capsys, *arguments))


def test_files_mark_figures(runs, monkeypatch, capsys):
    monkeypatch.chdir(runs)
    gates = (
        "--fail-under",
        "EM=99",
        "--fail-if-worse",
        "whole",
        "--junit",
        "junit.xml",
        "--step-summary",
        "summary.md",
    )
    command(capsys, "gate", "failed", *gates)
    junit = (runs / "junit.xml").read_text()
    assert (
        "towns[Macro Average] EM on fake‡: without towns:easy, of which more than half of the samples failed" in junit
    )
    summary = (runs / "summary.md").read_text()
    assert "50.00‡" in summary
    assert "more than half of the samples failed" in summary
    kshot.export("failed", to="hf", dataset_id="a/b", out="hub")
    (entry,) = (runs / "hub").rglob("*.yaml")
    assert "without towns:easy, of which more than half of the samples failed" in entry.read_text()
    kshot.export("failed", to="lmeval", out="lmeval")
    (path,) = (runs / "lmeval").rglob("results_*.json")
    results = json.loads(path.read_text())
    named = [found["alias"] for found in results["results"].values()]
    assert named == ["towns:easy†", "towns:mid†", "towns:hard", "towns[Macro Average]‡"]
    assert any("without towns:easy, of which more than half" in note for note in results["config"]["notes"])
    assert results["group_subtasks"] == {"towns[Macro Average]": ["towns:mid", "towns:hard", "towns:easy"]}
    kshot.export("failed", to="csv", out="figures.csv")
    rows = list(csv.DictReader((runs / "figures.csv").open()))
    assert [row["left_out"] for row in rows if row["average"]] == ['["towns:easy"]']


def test_results_in_python_mark_figures(runs):
    failed = kshot.load(runs / "failed")
    assert "EM 50‡" in repr(failed)
    page = failed._repr_html_()
    assert "50.00‡" in page
    assert LOST in page
    assert "50.00‡" in step_summary(failed, [])
    page = kshot.compare(runs / "whole", runs / "failed")._repr_html_()
    assert "50.0‡" in page
    assert LOST in page


@pytest.mark.parametrize(
    ("folders", "figures"),
    [
        (("failed",), ("50.00‡", "0.00†")),
        (("swept",), ("50.00‡",)),
        (("two",), ("50.00‡",)),
        (("whole", "failed"), ("50.00‡", "+50.00‡")),
    ],
)
def test_pages_mark_figures(runs, tmp_path, capsys, folders, figures):
    command(capsys, "report", *(str(runs / each) for each in folders), "--out", str(tmp_path / "page.html"))
    page = re.sub(r"<script.*?</script>", "", (tmp_path / "page.html").read_text(), flags=re.DOTALL)
    for each in figures:
        assert f">{each}<" in page, each
    assert "‡ an average without towns:easy" in page
    assert "more than half of the samples failed" in page


def test_the_list_of_the_viewer_marks_figures(runs):
    lines = {line.key: line.line["headline"] for line in Catalog([runs]).runs()}
    assert (lines["failed"]["mark"], lines["whole"]["mark"]) == ("‡", "")
    assert lines["failed"]["marked"].startswith("without towns:easy, of which more than half of the samples failed")


def test_running_figures_are_marked():
    assert MeterReading(done=20, failed=2, scored=18, value=50.0).mark == "†"
    assert MeterReading(done=20, failed=1, scored=19, value=50.0).mark == ""


def test_loggers_get_the_number_of_parts(runs):
    rows = [row for row in kshot.load(runs / "failed").results if "average" in row]
    found = figures_of(rows, FigureNames(), by_model=False)
    counts = {name.partition("EM_")[2]: value for name, value in found.items()}
    assert (counts["left_out"], counts["partly_failed"]) == (1, 1)


def test_json_names_the_parts(runs, monkeypatch, capsys):
    monkeypatch.chdir(runs)
    (listed,) = (each for each in json.loads(command(capsys, "runs", ".", "--json").out) if each["run"] == "failed")
    assert listed["headline"]["left_out"] == ["towns:easy"]
