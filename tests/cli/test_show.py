"""``kshot show``: the figures of a finished run again."""

import json
from pathlib import Path

import pytest

from tests.commands import CAPITALS, kshot


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
    assert [row["value"] for row in as_json] == values[-1:]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--worst", "0"], "--worst is 0; it must be 1 or more"),
        (["--best", "-3"], "--best is -3; it must be 1 or more"),
        (["--by", "subset"], "this run has no figures by subset. It has figures by category."),
        (["--metric", "EM"], "no figure by category has the metric 'EM'. Metrics: AC_MRR@1"),
    ],
)
def test_what_cannot_be_shown_is_one_message(run, capsys, arguments, said):
    done = kshot(capsys, "show", "run", *arguments)
    assert done.code == 2
    assert said in done.err
    assert done.out == ""
