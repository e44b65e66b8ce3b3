"""``kshot run`` and ``kshot preview`` with several values of an option."""

import json
import re
from pathlib import Path

import pytest

from tests.commands import kshot

PLANETS = f"{Path(__file__).parents[2] / 'examples' / 'planets.py'}:Planets"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run over numbers of examples and retrievers."""
    from kshot import evaluate

    folder = tmp_path_factory.mktemp("sweep") / "run"
    evaluate("embedded", PLANETS, num_shots=[0, 1, 2], retriever=["random", "bm25"], out=folder)
    return folder


def test_a_command_sweeps_and_prints_the_curve_and_one_table(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    arguments = ("-m", "embedded", "-d", PLANETS, "-k", "0,2", "--retriever", "random,bm25,k1=1.2", "--no-report")
    done = kshot(capsys, "run", *arguments, "--out", tmp_path / "run")
    assert done.code == 0
    assert "planets · Accuracy (acc_token) by number of examples, n = 8" in done.out
    assert "● random" in done.out
    assert re.search(r"^ *k +random +bm25,k1=1.2$", done.out, re.MULTILINE)
    assert not re.search(r"^task ", done.out, re.MULTILINE)  # the table of single tasks would repeat it
    again = kshot(capsys, "run", *arguments, "--out", tmp_path / "run", "--json")
    rows = json.loads(again.out)["results"]
    points = [row["sweep"] for row in rows if row["metric"] == "Accuracy"]
    assert points == [{"num_shots": 0}, *({"num_shots": 2, "retriever": each} for each in ("random", "bm25,k1=1.2"))]


def test_show_gate_and_samples_name_a_value(run, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    assert "planets · Accuracy (acc_token) by number of examples" in kshot(capsys, "show", run).out
    name = "planets,num_shots=2,retriever=bm25"
    assert kshot(capsys, "gate", run, "--fail-under", f"{name}:Accuracy=0").code == 0
    failed = kshot(capsys, "gate", run, "--fail-under", f"{name}:Accuracy=101")
    assert (failed.code, name in failed.out) == (3, True)
    samples = kshot(capsys, "samples", run, "--task", name, "--json")
    assert {json.loads(line)["task"] for line in samples.out.splitlines()} == {name}


def test_the_report_begins_with_the_curve(run):
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "The few-shot curve" in page
    assert 'class="curve"' in page


def test_a_preview_says_once_what_is_the_same_for_every_value(tmp_path, capsys):
    (tmp_path / "quiz.csv").write_text("Q,o,key\ncapital?,Rome|Paris,B\nsum?,1|2,A\n")
    flags = ("--question", "Q", "--options", "o", "--answer", "key", "-k", "0,1")
    done = kshot(capsys, "preview", "-d", str(tmp_path / "quiz.csv"), *flags)
    assert (done.code, done.out.count("quiz,num_shots=")) == (0, 4)
    assert len(done.err.splitlines()) == len(set(done.err.splitlines())) == 2


def test_a_preview_shows_every_value(capsys):
    done = kshot(capsys, "preview", "-d", PLANETS, "-k", "0,2", "--limit", "1", "--json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["task"] for row in rows] == ["planets,num_shots=0", "planets,num_shots=2"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("-k", "0,x"), "argument -k/--num-shots: invalid int value: '0,x'"),
        (("--ranking-type", "ppl,best"), "--ranking-type is 'best'; it must be one of"),
        (("--temperature", "0,hot"), "argument --temperature: invalid float value: '0,hot'"),
        (("--temperature", "0,1"), "--temperature has several values (0, 1), and it has no effect on"),
        (("-k", "1,2", "--retriever", "random,nothing"), "nothing"),
    ],
)
def test_what_cannot_be_swept(arguments, told, capsys):
    done = kshot(capsys, "run", "-m", "embedded", "-d", PLANETS, *arguments)
    assert done.code == 2
    assert told in done.err
    assert "Traceback" not in done.err
