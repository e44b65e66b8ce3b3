"""``kshot show``: the figures of a finished run again."""

import json
from pathlib import Path

import pytest

from tests.commands import CAPITALS, kshot
from tests.compared_runs import make_runs
from tests.screens import assert_screen


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("capitals.py").write_text(CAPITALS)
    done = kshot(capsys, "run", "-d", "handbook", "-m", "fts5", "--limit", "40", "--out", "run")
    assert done.code == 0, done.err
    return done


def test_it_prints_what_the_run_printed(run, capsys):
    assert kshot(capsys, "show", "run").out == run.out


def test_as_json_it_is_the_same_as_the_run_gives(run, capsys):
    shown = json.loads(kshot(capsys, "show", "run", "--json").out)
    stored = json.loads(Path("run/summary.json").read_text())
    assert shown["results"] == stored["results"]
    assert shown["run"] == "run"


def test_the_worst_categories_come_with_their_figures(run, capsys):
    rows = [row for row in json.loads(Path("run/summary.json").read_text())["results"] if "category" in row]
    values = sorted(row["value"] for row in rows if row["metric"] == "AC_MRR@10")
    shown = kshot(capsys, "show", "run", "--worst", "2")
    assert [line.split()[3] for line in shown.out.splitlines()[1:3]] == [f"{value:.3f}" for value in values[:2]]
    assert f"the 2 worst of {len(values)} figures" in shown.out
    as_json = json.loads(kshot(capsys, "show", "run", "--best", "1", "--json").out)
    assert as_json["by"] == "category"
    assert [row["value"] for row in as_json["rows"]] == values[-1:]


def test_the_docs_show_what_it_prints(run, capsys):
    page = (Path(__file__).parents[2] / "docs" / "looking.md").read_text(encoding="utf-8")
    assert f"```text\n{kshot(capsys, 'show', 'run', '--worst', '2').out}```" in page


def test_a_metric_alone_leaves_the_other_figures_out(run, capsys):
    shown = json.loads(kshot(capsys, "show", "run", "--metric", "AC_Recall@10", "--json").out)
    assert {row["metric"] for row in shown["results"]} == {"AC_Recall@10"}
    assert {"category" in row for row in shown["results"]} == {True, False}
    text = kshot(capsys, "show", "run", "--metric", "AC_Recall@10").out
    assert "AC_Recall@10" in text
    assert "AC_MRR@10" not in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--worst", "0"], "--worst is 0; it must be 1 or more"),
        (["--best", "-3"], "--best is -3; it must be 1 or more"),
        (["--by", "subset"], "this run has no figures by subset. It has figures by category."),
        (["--metric", "EM"], "this run has no metric 'EM'. It has: AC_MRR@1"),
        (["--metric", "EM", "--worst", "1"], "no figure by category has the metric 'EM'. Metrics: AC_MRR@1"),
    ],
)
def test_what_cannot_be_shown_is_one_message(run, capsys, arguments, said):
    done = kshot(capsys, "show", "run", *arguments)
    assert done.code == 2
    assert said in done.err
    assert done.out == ""


# ---- screens ----

CLERK = "shop.py:Clerk,fails=4"
RUNS = {
    "prices": (CLERK, "shop.py:Prices", {"dataset_path": "120"}),
    "clerks": ([CLERK, "shop.py:Clerk,seed=bob"], "shop.py:Graded", {"dataset_path": "60"}),
    "exams": (CLERK, "shop.py:Exams:anatomy,astronomy,college_biology,marketing,nutrition,sociology,virology", {}),
    "tokens": ("embedded", "lookup:UR,UL", {"length": (10, 40), "samples": 8, "variant": "sep|small|bare"}),
    "draws": (CLERK, "shop.py:Prices", {"dataset_path": "30", "num_shots": 1, "retriever_seeds": "0..1"}),
    "one": ("embedded", "lookup:UR", {"length": (10,), "samples": 3, "variant": "sep|small|bare"}),
    "asleep": ("shop.py:Clerk,fails=100", "shop.py:Prices", {"dataset_path": "12"}),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("show")
    make_runs(folder, **RUNS)
    return folder


@pytest.fixture
def show(runs, monkeypatch, capsys):
    monkeypatch.chdir(runs)
    return lambda *arguments: kshot(capsys, "show", *arguments)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("whole", ("prices",)),
        ("worst", ("prices", "--worst", "5")),
        ("models", ("clerks", "--best", "4", "--metric", "Distance")),
        ("subsets", ("exams", "--worst", "5")),
        ("tasks", ("tokens", "--worst", "3")),
        ("draws", ("draws", "--by", "task")),
        ("asleep", ("asleep", "--by", "category")),
    ],
)
def test_screens(name, arguments, width, show, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    done = show(*arguments)
    assert done.code == 0
    assert_screen(f"show-{name}-{width}", done.out)


def test_a_run_without_parts_shows_its_tasks_if_there_are_several(show):
    found = json.loads(show("tokens", "--worst", "2", "--json").out)
    assert (found["by"], len(found["rows"])) == ("task", 2)
    values = [row["value"] for row in json.loads(show("tokens", "--json", "--metric", "Accuracy").out)["results"]]
    assert found["rows"][0]["value"] == min(values)
    done = show("one", "--worst", "2")
    assert (done.code, done.out) == (2, "")
    assert "no figures by category or subset, and only one task" in done.err
    assert json.loads(show("one", "--by", "task", "--json").out)["by"] == "task"


def test_a_detail_can_be_shown_alone(show):
    details = [row["metric"] for row in json.loads(show("tokens", "--json").out)["results"] if row.get("detail")]
    assert details
    text = show("tokens", "--metric", details[0]).out
    assert details[0] in text
