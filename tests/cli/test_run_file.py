"""``kshot run suite.toml``: a whole evaluation from a file, killed and resumed, and errors that name its lines."""

import json
import os
import re
import signal
from pathlib import Path

import pytest

from tests.commands import CAPITALS, kshot, kshot_process

MODELS = """
from kshot import Generate, Generated, Likelihood, Loglik, Scored

class Steady:
    answers = (Generate, Loglik)

    def __init__(self, favourite: int = 0):
        self.favourite = favourite
        self.name = self.fingerprint = f"steady {favourite}"

    def serve(self, queue):
        for request in queue:
            with open("asked.log", "a") as log:
                log.write(f"{self.favourite} {request}\\n".replace("\\n", " ")[:-1] + "\\n")
            if isinstance(request, Generate):
                yield request, Generated(("Paris", "Rome")[self.favourite])
            else:
                yield request, Scored(tuple(Likelihood(-float(i != self.favourite), 1) for i, _ in enumerate(request.continuations)))
"""
SUITE = """
out = "runs/suite"

[[models]]
name = "models.py:Steady"

[[models]]
name = "models.py:Steady"
favourite = 1

[[datasets]]
name = "capitals.py:Capitals"
dataset_path = "10"
num_shots = [0, 1, 2]

[[datasets]]
name = "capitals.py:Cities"
limit = 3

[[datasets]]
name = "lookup:UR"

[settings]
length = [10]
samples = 2

[gates]
fail_under = { Accuracy = 10, EM = 1 }
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    project = tmp_path / "project"
    project.mkdir()
    for name, text in (("models.py", MODELS), ("capitals.py", CAPITALS), ("suite.toml", SUITE)):
        (project / name).write_text(text)
    monkeypatch.chdir(project)
    return project


def figures(path):
    return json.loads((path / "summary.json").read_text())["results"]


def test_a_suite_is_killed_continued_and_the_same_as_one_that_ran_through(folder, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    calm = kshot_process("run", "../project/suite.toml", "--out", "calm", cwd=elsewhere)
    assert calm.code == 3, calm.err  # token lookup asks for letters, and both models name cities
    asked = (folder / "asked.log").read_text().splitlines()
    assert len(asked) == len(set(asked))

    killed = kshot_process(
        "run", "suite.toml", cwd=folder, env={**os.environ, "KSHOT_KILL_POINT": "journal.written 40"}
    )
    assert killed.code == -signal.SIGKILL
    final = kshot_process("run", "../project/suite.toml", cwd=elsewhere)
    assert final.code == calm.code, final.err
    assert str(folder / "runs" / "suite") in final.out  # a reader elsewhere finds it
    again = (folder / "asked.log").read_text().splitlines()[len(asked) :]
    assert sorted(again) == sorted(asked)  # each request once, whether before or after the kill
    for name in ("samples.jsonl", "summary.json"):
        assert (folder / "runs/suite" / name).read_bytes() == (elsewhere / "calm" / name).read_bytes()
    tasks = {row["task"] for row in figures(folder / "runs/suite")}
    assert {f"capitals,dataset_path=10,num_shots={k}" for k in (0, 1, 2)} < tasks
    report = (folder / "runs/suite/report.html").read_text()
    (curve,) = re.findall(r'<figure[^>]* id="sweeps-1">.*?</figure>', report, re.DOTALL)
    assert "capitals,dataset_path=10 · Accuracy (acc_token) by number of examples" in curve
    assert [curve.count(part) for part in ('<svg role="img"', "<table")] == [2, 1]  # for desks, for phones, in numbers
    assert all(name in curve for name in ("steady 0", "steady 1"))


def test_the_command_line_goes_before_the_file(folder, capsys):
    done = kshot(capsys, "run", "suite.toml", "-m", "models.py:Steady,favourite=1", "-d", "capitals.py:Capitals", "-k", "0",
                 "--fail-under", "Accuracy=0", "--limit", "4", "--out", "other", "--json")  # fmt: skip
    assert done.code == 0, done.err
    rows = [row for row in json.loads(done.out)["results"] if row["metric"] == "Accuracy"]
    assert [(row["task"], row["model"], row["n"]) for row in rows] == [("capitals", "steady 1,favourite=1", 4)]
    assert Path("other/summary.json").exists()


def test_a_command_saves_itself_and_the_file_continues_its_run(folder, capsys):
    command = ["run", "-m", "models.py:Steady", "-d", "capitals.py:Capitals", "-d", "capitals.py:Cities"]
    command += ["--dataset-path", "3", "--dataset-path", "4", "-k", "0,1", "--save-run-file", "suites/small.toml"]
    first = kshot(capsys, *command)
    assert first.code == 0, first.err
    asked = (folder / "asked.log").read_text()
    second = kshot(capsys, "run", "suites/small.toml")
    assert second.code == 0, second.err
    assert (folder / "asked.log").read_text() == asked  # nothing is asked twice: it is the same run
    last = lambda text: [line for line in text.splitlines() if line.startswith("run folder:")]  # noqa: E731
    assert last(first.out) == last(second.out)
    sizes = {row["task"]: row["n"] for row in figures(next(Path("runs").iterdir()))}
    assert sizes["capitals,dataset_path=3,num_shots=1"] == 3
    assert sizes["cities,dataset_path=4,num_shots=0"] == 4
    assert kshot(capsys, *command).code == 0  # the same command may save itself again
    changed = kshot(capsys, *command, "--limit", "1")
    assert (changed.code, "small.toml: there is a file already" in changed.err) == (2, True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("Capitals", "Capitols"), "suite.toml:11: capitals.py: there is no dataset 'Capitols'"),
        (("favourite = 1", "favorite = 1"), "suite.toml:7: models.py:Steady,favorite=1: there is no option 'favorite'"),
        (("favourite = 1", "favourite = 'x'"), "suite.toml:7: models.py:Steady,favourite=x: the option 'favourite'"),
        (("EM = 1", "EMM = 1"), "suite.toml:28: --fail-under: the run has no figure 'EMM'"),
        (("length = [10]", "judge_scale = '1-5'"), "suite.toml:24: --judge-scale needs a judge"),
        (("length = [10]", "metric = 'nothing'"), "suite.toml:24: there is no metric 'nothing'"),
        (("[gates]", "[gates]\njunit = 'x.json'"), "suite.toml:28: --junit 'x.json' does not end in .xml"),
        (("[gates]", "[gates]\nfail_if_worse = 'nothing'"), "suite.toml:28: nothing: this is not a run folder"),
        (("length = [10]", "retriever = ['random', 'bm52']"), "suite.toml:24: there is no retriever 'bm52'"),
        (("favourite = 1", "api_key = 'hunter22'"), "suite.toml:7: models.py:Steady,api_key=***: there is no option"),
        (('out = "runs/suite"', 'log = ["nowhere"]'), "suite.toml:2: there is no logger 'nowhere'"),
        (('name = "lookup:UR"', 'name = "lookup:XX"'), "suite.toml:20: there is no lookup task"),
    ],
)
def test_what_shows_before_the_run_names_the_line(change, said, folder, capsys):
    Path("suite.toml").write_text(SUITE.replace(*change))
    done = kshot(capsys, "run", "suite.toml")
    assert (done.code, done.out) == (2, "")
    assert said in done.err, done.err
    assert not Path("asked.log").exists()


def test_what_the_command_line_gives_is_not_blamed_on_the_file(folder, capsys):
    done = kshot(capsys, "run", "suite.toml", "-m", "embeded")
    assert done.code == 2
    assert "suite.toml" not in done.err
    done = kshot(capsys, "run", "suite.toml", "--fail-under", "Nothing=1")
    assert done.code == 2
    assert "suite.toml" not in done.err


@pytest.mark.parametrize("dataset", ["gone.csv", "gone.py:Gone", "gone"])
def test_preview_names_the_line_of_a_dataset(dataset, folder, capsys):
    Path("gone.toml").write_text(f'models = ["embedded"]\ndatasets = ["{dataset}"]\n')
    done = kshot(capsys, "preview", "gone.toml")
    assert done.code == 2
    assert re.match(r"kshot: gone\.toml:2: .*gone", done.err)


def test_a_zero_byte_in_the_name_of_a_run_folder(folder, capsys):
    Path("zero.toml").write_text('out = "a\\u0000b"\nmodels = ["embedded"]\ndatasets = ["lookup:UR"]\n')
    done = kshot(capsys, "run", "zero.toml")
    assert (done.code, "--out has a zero byte" in done.err) == (2, True)


def test_preview_shows_the_prompts_of_a_run_file(folder, capsys):
    done = kshot(capsys, "preview", "suite.toml", "--limit", "1", "--json")
    assert done.code == 0, done.err
    assert {"capitals,dataset_path=10,num_shots=2", "cities,limit=3"} <= {
        json.loads(line)["task"] for line in done.out.splitlines()
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a.toml", "b.toml"], "2 run files are named: a.toml, b.toml"),
        (["none.toml"], "none.toml: it cannot be read"),
        (["-d", "x", "-d", "y", "--dataset-path", "a", "--dataset-path", "b", "--dataset-path", "c"], "is given 3 times, and -d 2 times"),
        (["-d", "x,dataset_path=a", "-d", "y", "--dataset-path", "a", "--dataset-path", "b"], "the dataset has two paths"),
        (["-d", "lookup", "--save-run-file", "x.json"], "does not end in .toml"),
        (["-d", "lookup", "-m", "openai:m", "--header", "Authorization=Bearer 123456", "--save-run-file", "x.toml"], "--header holds what may be a key"),
        (["-d", "lookup", "-m", "openai:m@https://me:secret@host/v1", "--save-run-file", "x.toml"], "--model holds what may be a key"),
    ],
)  # fmt: skip
def test_what_cannot_be(arguments, said, folder, capsys):
    done = kshot(capsys, "run", *arguments)
    assert done.code == 2
    assert said in done.err
    assert not Path("x.toml").exists()


def test_paths_of_the_command_line_start_where_it_was_called(folder, tmp_path, monkeypatch, capsys):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    Path("mine.py").write_text(MODELS.replace("Steady", "Mine"))
    done = kshot(capsys, "run", "../project/suite.toml", "-m", "mine.py:Mine", "--limit", "1", "--out", "here",
                 "--fail-under", "EM=0", "--junit", "gates.xml", "--save-run-file", "again.toml")  # fmt: skip
    assert done.code == 0, done.err
    assert Path.cwd() == elsewhere
    assert {path.name for path in elsewhere.iterdir()} == {"mine.py", "here", "gates.xml", "again.toml"}
    assert 'folder = "../project"' in Path("again.toml").read_text()
    assert kshot(capsys, "run", "again.toml").code == 0


def test_a_sweep_without_effect_names_its_line(folder, capsys):
    suite = 'models = ["models.py:Steady"]\ndatasets = ["capitals.py:Cities"]\n[settings]\nseed = 1\nranking_type = ["ppl", "prob"]\n'
    Path("sweep.toml").write_text(suite)
    done = kshot(capsys, "run", "sweep.toml")
    assert done.code == 2
    assert done.err.startswith(
        "kshot: sweep.toml:5: --ranking-type has several values (ppl, prob), and it has no effect"
    )
