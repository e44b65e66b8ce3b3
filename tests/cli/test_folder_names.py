"""The folder of a command without --out: named by what differs from the defaults, and found under its earlier name too."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from kshot.cli.parser import options_of, parser
from kshot.cli.run import default_folder
from kshot.core.options import Options, option
from kshot.settings import Settings, settings_from
from tests.commands import kshot

ROOT = Path(__file__).parents[2]
EARLIER = ROOT / "tests" / "data" / "runs_every_option"
PLANETS = "examples/planets.py:Planets"

# Names that kshot gave when they depended on every option: computed by its code at commit c6d6677.
EARLIER_NAMES = {
    "runs/handbook-fts5-0173ded2": (["fts5"], ["handbook"], []),
    "runs/Planets-embedded-55e711dc": (["embedded"], [PLANETS], ["-k", "1"]),
    "runs/Planets-embedded-aef3c102": (
        ["embedded"],
        [PLANETS, "examples/planets.py:PlanetNames,num_shots=2"],
        ["--metric", "em,f1", "--cleanup", "first-capital"],
    ),
    "runs/lookup-embedded-38d6ba38": (
        ["embedded"],
        ["lookup", "handbook"],
        [
            *("--length", "10,20,40,80,120", "--samples", "50"),
            *("--variant", "sep|small|bare", "--variant", "sep|small|simple_rule"),
        ],
    ),
    "runs/UR-UL-embedded-ac5c665e": (
        ["embedded"],
        ["lookup:UR,UL"],
        ["--length", "10,20", "--variant", "sep|small|bare", "--shots", "3", "--seed", "7"],
    ),
    "runs/ARC-Easy-model-1a3266ff": (
        ["openai:some/model"],
        ["arc:ARC-Easy"],
        [
            *("--base-url", "http://localhost:8000/v1", "--model-type", "chat", "--temperature", "0.5"),
            *("--stop", "\\n", "--max-concurrency", "4", "--price-in", "2"),
        ],
    ),
    "runs/eval_all.py-config-afae37ec": (
        ["config"],
        ["configs/eval_all.py"],
        ["--data", "qa=rows.jsonl", "--data", "b=c", "--limit", "5"],
    ),
    "runs/fastbook-fts5-52269d1c": (
        ["fts5", "bm25,k1=1.2"],
        ["fastbook"],
        ["--method", "search", "--measures", "AC_MRR@10,nDCG@10", "--chunker", "sentence:40/0"],
    ),
    "runs/handbook-tiny-64eaebd2": (
        ["hf:models/tiny"],
        ["handbook"],
        ["--method", "rag", "--read", "2", "--dtype", "float16", "--trust-remote-code", "--engine-option", "a=1"],
    ),
}


@dataclass(frozen=True, kw_only=True)
class Lens(Options):
    brightness: int = option(3, "an option that came later", kind=int)


@dataclass(frozen=True, kw_only=True)
class LaterSettings(Lens, Settings):
    """The settings of a later kshot: there is one more option."""


@dataclass(frozen=True, kw_only=True)
class ReorderedSettings(*reversed(Settings.__bases__), Lens):
    """The same, and the options stand in another order."""


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def given(arguments, cls=Settings):
    return cls(**settings_from(options_of(parser().parse_args(["run", *arguments]))).values())


@pytest.mark.parametrize("name", EARLIER_NAMES)
@pytest.mark.parametrize("cls", [Settings, LaterSettings, ReorderedSettings])
def test_a_folder_with_an_earlier_name_is_found(name, cls):
    models, datasets, arguments = EARLIER_NAMES[name]
    settings = given(arguments, cls)
    fresh = default_folder(models, datasets, settings)
    assert fresh.rpartition("-")[0] == name.rpartition("-")[0]
    assert fresh != name
    Path(name).mkdir(parents=True)
    assert default_folder(models, datasets, settings) == name
    Path(fresh).mkdir()
    assert default_folder(models, datasets, settings) == fresh


@pytest.mark.parametrize("name", EARLIER_NAMES)
def test_a_new_option_renames_no_folder(name):
    models, datasets, arguments = EARLIER_NAMES[name]
    names = {
        default_folder(models, datasets, given(arguments, cls)) for cls in (Settings, LaterSettings, ReorderedSettings)
    }
    assert len(names) == 1


def test_a_new_option_that_is_set_gives_another_folder():
    plain, bright = LaterSettings(num_shots=1), LaterSettings(num_shots=1, brightness=4)
    Path("runs/Planets-embedded-55e711dc").mkdir(parents=True)  # the folder of -k 1 without the new option
    assert default_folder(["embedded"], [PLANETS], plain) == "runs/Planets-embedded-55e711dc"
    other = default_folder(["embedded"], [PLANETS], bright)
    assert other != "runs/Planets-embedded-55e711dc"
    Path("runs/Planets-embedded-55e711dc").rmdir()
    assert other != default_folder(["embedded"], [PLANETS], plain)


def test_only_what_changes_a_result_is_in_the_name():
    plain = default_folder(["embedded"], ["lookup"], Settings())
    assert default_folder(["embedded"], ["lookup"], Settings(batch_size=2, timeout=5.0, num_shots=0)) == plain
    others = [
        default_folder(["embedded"], ["lookup"], Settings(num_shots=1)),
        default_folder(["embedded"], ["lookup"], Settings(shots=1)),
        default_folder(["embedded"], ["lookup", "handbook"], Settings()),
        default_folder(["embedded", "fts5"], ["lookup"], Settings()),
    ]
    assert len({plain, *others}) == 5


@pytest.fixture
def _earlier_run():
    """A run of ``-k 1 --limit 3`` that kshot wrote at commit c6d6677, under the name that it gave it."""
    shutil.copytree(ROOT / "examples", "examples")
    shutil.copytree(EARLIER, "runs")


def accuracies(summary):
    rows = json.loads(summary)["results"]
    return [(row["task"], row["model"], row["value"], row["n"]) for row in rows if row["metric"] == "Accuracy"]


@pytest.mark.usefixtures("_earlier_run")
def test_the_same_command_continues_an_earlier_run_without_a_request(capsys):
    (folder,) = Path("runs").iterdir()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    done = kshot(capsys, "run", "-d", PLANETS, "-m", "embedded", "-k", "1", "--limit", "3")
    assert done.code == 0, done.err
    assert f"run folder: {folder}" in done.out
    assert list(Path("runs").iterdir()) == [folder]
    assert (folder / "journal.jsonl").read_bytes() == before["journal.jsonl"]  # all is in it: no model was asked
    assert accuracies((folder / "summary.json").read_bytes()) == accuracies(before["summary.json"])


@pytest.mark.usefixtures("_earlier_run")
def test_an_earlier_run_is_scored(capsys):
    (folder,) = Path("runs").iterdir()
    before = (folder / "summary.json").read_bytes()
    (folder / "summary.json").unlink()
    assert kshot(capsys, "score", folder, "-d", PLANETS).code == 0
    assert accuracies((folder / "summary.json").read_bytes()) == accuracies(before)


@pytest.mark.usefixtures("_earlier_run")
def test_other_settings_are_still_refused_in_an_earlier_run(capsys):
    (folder,) = Path("runs").iterdir()
    done = kshot(capsys, "run", "-d", PLANETS, "-m", "embedded", "--seed", "5", "--out", folder)
    assert done.code == 2
    for change in ("num_shots was 1, is 0 (default)", "limit was 3, is not set", "seed was 2023 (default), is 5"):
        assert change in done.err


def test_settings_of_a_dataset_are_not_in_the_name_but_in_its_digest(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = "rows/quiz.csv,question=Q,options=A+B,answer=key"
    named = default_folder(["embedded"], [table], Settings())
    assert named.startswith("runs/quiz.csv-embedded-")
    assert default_folder(["embedded"], ["rows/quiz.csv"], Settings()) != named
    assert default_folder(["embedded"], ["quiz.py:Quiz,dataset_path=a/b.csv"], Settings()).startswith(
        "runs/Quiz-embedded-"
    )
    earlier = named.replace("quiz.csv-", "quiz.csv-question-Q-options-A-B-answer-key-")
    Path(earlier).mkdir(parents=True)
    assert default_folder(["embedded"], [table], Settings()) == earlier
