"""The three loggers with the real tools, each in its local mode: whole runs in a process, read back in another."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.test_keys import spellings

ROOT = Path(__file__).parents[2]
SECRET = "plain-Wk9Qe3Ty5Ui7"
LOGS = ["wandb,mode=offline", "mlflow,tracking_uri=file:mlruns", "trackio"]
DRIVER = """
import os
import shutil
import sys
import kshot
from kshot.cli import main

secret, *logs = sys.argv[1:]
flags = [part for log in logs for part in ("--log", log)]
tables = [part for log in logs for part in ("--log", log + ",samples=yes,name=with samples")]
names = ["-d", "planets.py:PlanetNames", "--limit", "2", "--json", "-m", "embedded"]
both = ["-m", "mars.py:mars", "--judge", "embedded"]


class Stopping(kshot.Watcher):
    def scored(self, row):
        raise KeyboardInterrupt


class Removing(kshot.Watcher):
    # it takes the store away while the run goes on
    def begin(self, task, model, total):
        shutil.rmtree("taken")


assert main(["run", *names, "--out", "runs/unlogged", "--log", "wandb"]) == 2  # there is no key
assert main(["run", *names, "--out", "runs/unlogged", "--log", "mlflow,tracking_uri=nonsense://x"]) == 2
assert main(["run", *names, *both, "--out", "whole", *tables]) == 0
away = ["-m", "openai:m,api_key_env=OTHER_KEY", "--base-url", "http://127.0.0.1:9/v1", "--patience", "0"]
kept = ["--header", f"X-Auth={secret}", "--request-option", f"extra.api_key={secret}"]
assert main(["run", "-d", "planets.py:PlanetNames", *away, *kept, "--out", "failed", *flags]) == 2
try:
    models = ["embedded", "mars.py:mars"]
    kshot.evaluate(
        models, "planets.py:PlanetNames", limit=2, judge="embedded", out="whole", log=logs, watcher=Stopping()
    )
except KeyboardInterrupt:
    print("stopped", file=sys.stderr)
gone = kshot.evaluate(
    "embedded", "planets.py:PlanetNames", limit=1, out="gone", log="mlflow,tracking_uri=file:taken", watcher=Removing()
)
print("notes:", gone.notes, [row["n"] for row in gone.results], file=sys.stderr)
kshot.score("gone", trust=["planets.py"], log="mlflow")  # the folder mlruns here: mlflow-skinny opens no database
os.environ["MLFLOW_TRACKING_URI"] = "sqlite:///none.db"
assert main(["run", *names, "--out", "runs/unlogged", "--log", "mlflow"]) == 2
"""


def process(folder, *command):
    own = {name: value for name, value in os.environ.items() if not name.startswith(("WANDB", "MLFLOW", "TRACKIO"))}
    own |= {
        "HOME": str(folder / "home"),
        "OTHER_KEY": SECRET,
        "WANDB_ERROR_REPORTING": "false",
        "PYTHONPATH": str(ROOT),
    }
    own |= {"TRACKIO_DIR": str(folder / "trackio"), "KSHOT_CACHE": str(folder / "cache")}
    command = [sys.executable, *map(str, command)]
    return subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """The folder, what the process printed, and what each tool has stored, run by run."""
    folder = tmp_path_factory.mktemp("logged")
    (folder / "home").mkdir()
    (folder / "planets.py").write_text((ROOT / "examples" / "planets.py").read_text())
    (folder / "mars.py").write_text("def mars(prompt):\n    return 'Mars'\n")
    done = process(folder, "-c", DRIVER, SECRET, *LOGS)
    assert done.returncode == 0, done.stderr
    read = process(folder, Path(__file__).with_name("read_back.py"), folder, folder / "mlruns")
    assert read.returncode == 0, read.stderr
    return folder, done, json.loads(read.stdout)


pytestmark = pytest.mark.needs("wandb", "mlflow-skinny", "trackio")
TOOLS = ("wandb", "mlflow", "trackio")


def expected(folder):
    """Return the figures of the finished run as its folder has them."""
    found = {}
    for row in json.loads((folder / "whole" / "summary.json").read_text())["results"]:
        name = f"{row['model']}/planet_names/{row['metric']}"
        found[name] = row["value"]
        if not row.get("detail"):
            found[f"{name}_ci95_low"], found[f"{name}_ci95_high"] = row["ci95"]
            found[f"{name}_n"], found[f"{name}_failed"] = row["n"], row["failed"]
    return found


def figures(run):
    return {name: value for name, value in run["figures"].items() if "planet_names/" in name}


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_has_the_figures_of_the_run(tool, logged):
    """Each model has figures of its own."""
    folder, _, found = logged
    assert figures(found[tool][0]) == pytest.approx(expected(folder))
    assert {name.partition("/")[0] for name in expected(folder)} == {"embedded", "mars.py:mars"}
    assert figures(found[tool][2]) == {}  # it was stopped before a task was done


def test_a_run_that_is_scored_again_has_the_same_figures(logged):
    folder, _, found = logged
    again = found["mlflow"][3]
    (row,) = json.loads((folder / "gone" / "summary.json").read_text())["results"]
    assert (again["name"], again["figures"]["planet_names/EM"]) == ("gone", row["value"])
    assert "continued" in again["tags"]


def config(run):
    """Return the settings; MLflow has texts."""
    read = {name: json.loads(value) if name in {"models", "datasets", "limit", "continued"} and isinstance(value, str) else value
            for name, value in run["config"].items()}  # fmt: skip
    return {name: read[name] for name in ("models", "datasets", "limit", "continued", "run_folder")}


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_has_the_settings_and_knows_a_run_that_continues(tool, logged):
    runs = logged[2][tool]
    models, datasets = ["embedded", "mars.py:mars"], ["planets.py:PlanetNames"]
    same = {"models": models, "datasets": datasets, "limit": 2, "run_folder": "whole"}
    assert [config(run) for run in (runs[0], runs[2])] == [same | {"continued": each} for each in (False, True)]
    assert [run["name"] for run in runs[:3]] == ["with samples", "failed", "whole"]
    assert "num_shots" not in runs[0]["config"]  # it is at its default


def test_a_tool_knows_how_each_run_ended(logged):
    found = logged[2]
    assert [run["state"] for run in found["mlflow"]] == ["FINISHED", "FAILED", "KILLED", "FINISHED"]
    assert [run["exit"] for run in found["wandb"]] == [0, 1, 130]
    assert [run["summary"]["state"] for run in found["wandb"]] == ["done", "failed", "stopped"]
    texts = [run["figures"]["state"]["_value"] for run in found["trackio"]]
    assert [text.splitlines()[0] for text in texts] == [f"state: {run['summary']['state']}" for run in found["wandb"]]
    assert "127.0.0.1:9" in found["wandb"][1]["summary"]["error"]
    assert "127.0.0.1:9" in found["mlflow"][1]["tags"]["error"]


def test_runs_that_continue_are_tagged(logged):
    found = logged[2]
    assert [run["tags"] for run in found["wandb"]] == [["kshot"], ["kshot"], ["kshot", "continued"]]
    assert ["continued" in run["tags"] for run in found["mlflow"][:3]] == [False, False, True]


def test_the_files_of_the_run_go_with_it_and_samples_only_where_they_are_wanted(logged):
    folder, _, found = logged
    assert found["mlflow"][0]["files"]["summary.json"] == (folder / "whole" / "summary.json").read_text()
    assert sorted(found["mlflow"][0]["files"]) == ["samples.json", "spec.json", "summary.json"]
    assert [name for name in found["wandb"][0]["files"] if ".table" not in name] == ["spec.json", "summary.json"]
    assert json.loads(found["mlflow"][0]["files"]["spec.json"])["sessions"][-1]["state"] == "done"
    # The folder has the summary of the session before, which is not that of the one that was stopped.
    assert sorted(found["mlflow"][2]["files"]) == ["spec.json"] == found["wandb"][2]["files"]
    assert [len(run["files"]["output"]) for run in found["trackio"]] == [1, 1, 1]
    table = json.loads(found["mlflow"][0]["files"]["samples.json"])
    assert table == found["wandb"][0]["table"]
    assert [list(row.values()) for row in found["trackio"][0]["figures"]["samples"]["_value"]] == table["data"]
    samples = [json.loads(line) for line in (folder / "whole" / "samples.jsonl").read_text().splitlines()]
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert [(row["id"], row["prompt"], row["EM"]) for row in rows] == [
        (row["id"], row["prompt"], row["scores"]["EM"]) for row in samples
    ]
    assert found["wandb"][2]["table"] is None
    assert "samples" not in found["trackio"][2]["figures"]


NOTE = "--judge has no effect: no metric of this run asks a judge"


def test_the_notes_of_a_run_go_with_it(logged):
    found = {tool: logged[2][tool][0] for tool in TOOLS}
    assert found["wandb"]["notes"] == NOTE == found["mlflow"]["tags"]["mlflow.note.content"]
    assert found["trackio"]["figures"]["state"]["_value"] == f"state: done\n\n{NOTE}"


def test_the_tools_print_nothing(logged):
    """Stdout has the JSON of the one run that was done, and nothing else; stderr what kshot says."""
    _, done, _ = logged
    assert json.loads(done.stdout)["notes"] == [NOTE]
    said = [
        line
        for line in done.stderr.splitlines()
        if any(tool in line.lower() for tool in TOOLS) and not line.startswith("notes:")
    ]
    assert [line.partition(": ")[0] for line in said] == ["kshot"] * 3, done.stderr


def test_a_tool_that_is_not_set_up_is_told_before_anything_is_asked(logged):
    folder, done, _ = logged
    assert "kshot: wandb: No API key configured" in done.stderr
    assert "--log wandb,mode=offline" in done.stderr
    assert "kshot: mlflow,tracking_uri=nonsense://x: it cannot be opened" in done.stderr
    assert "tracking_uri=file:mlruns" in done.stderr
    assert "kshot: mlflow,tracking_uri=sqlite:///none.db: it cannot be opened" in done.stderr  # that of a variable
    assert not (folder / "runs").exists()


def test_a_tool_that_fails_while_the_run_goes_on_is_a_note(logged):
    folder, done, _ = logged
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("notes:")]
    assert "mlflow: " in said
    assert said.endswith('; logging stops, the run goes on"] [1]')
    assert (folder / "gone" / "summary.json").exists()


def test_no_key_is_left_in_what_the_tools_store(logged):
    """Kshot's own folder has the request option as it was given: it says which answers are the same."""
    folder, done, _ = logged
    left = {
        str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.parent.name != "failed"
    }
    left |= {"stdout": done.stdout.encode(), "stderr": done.stderr.encode()}
    assert any("offline-run" in name for name in left)
    for name, content in left.items():
        for spelling in spellings(SECRET):
            assert spelling.encode() not in content, name
