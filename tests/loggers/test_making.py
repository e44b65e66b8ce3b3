"""Naming loggers: what is wrong with one is told before anything is asked."""

import json
from pathlib import Path

import pytest

import kshot
from kshot.core.errors import MissingExtra, UsageError
from kshot.core.specs import options_of
from kshot.loggers import LOGGERS, make_logger, named_loggers
from tests.commands import kshot as command
from tests.lacking import lack

PLANETS = f"{Path(__file__).parents[2]}/examples/planets.py:PlanetNames"
LINES = '''
from kshot import Watcher


class Lines(Watcher):
    """Writes a line for each task."""

    def __init__(self, file: str = "lines.txt", *, upper: bool = False) -> None:
        self.file, self.case = file, str.upper if upper else str

    def finished(self, rows):
        with open(self.file, "a") as file:
            for row in rows:
                file.write(self.case(f"{row['task']} {row['metric']} {row['n']}") + "\\n")


class NoLogger:
    pass
'''


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines.py").write_text(LINES)
    return tmp_path


def run(capsys, *log):
    return command(capsys, "run", "-d", PLANETS, "-m", "embedded", "--limit", "2", "--out", "run", *log)


def test_a_logger_of_a_file_gets_its_options(here, capsys):
    done = run(
        capsys,
        "--log",
        "lines.py:Lines,upper=yes",
        "--log",
        "lines.py,file=other.txt",
        "--log",
        "lines.py,file=other.txt",
    )
    assert done.code == 0, done.err
    assert (here / "lines.txt").read_text() == "PLANET_NAMES EM 2\n"
    assert (here / "other.txt").read_text() == "planet_names EM 2\n"  # named twice, made once


def test_a_logger_is_no_part_of_what_identifies_a_run(here, capsys):
    assert run(capsys, "--log", "lines.py:Lines").code == 0
    spec = json.loads((here / "run" / "spec.json").read_text())
    assert "log" not in {**spec["identity"], **spec["options"]}
    assert run(capsys).code == 0  # the same run continues
    (here / "lines.py").unlink()
    done = command(capsys, "score", "run")  # and logs nothing that it is not told to
    assert done.code == 0, done.err
    assert (here / "lines.txt").read_text() == "planet_names EM 2\n"


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("wandbb", "there is no logger 'wandbb'. Did you mean 'wandb'? See kshot list loggers"),
        ("wandb,projekt=x", "wandb,projekt=x: there is no option 'projekt'. It knows: project, entity"),
        ("wandb,mode=loud", "mode is 'loud'; it must be one of online, offline, disabled"),
        ("trackio,samples=perhaps", "the option 'samples' is 'perhaps'; it must be yes or no"),
        ("mlflow,tracking_uri=http://me:hunter2-abc@h,x=1", "there is no option 'x'"),
        ("lines.py:NoLogger", "it is no logger"),
        ("gone.py:Lines", "gone.py"),
    ],
)
def test_what_is_wrong_is_told_before_the_run_has_a_folder(log, message, here, capsys):
    done = run(capsys, "--log", log)
    assert done.code == 2
    assert message in done.err
    assert "hunter2-abc" not in done.err
    assert not (here / "run").exists()


def test_missing_packages_are_named_with_those_of_models(here, capsys, monkeypatch):
    lack(monkeypatch, "wandb", "trackio", "torch")
    done = command(
        capsys,
        "run",
        "-d",
        PLANETS,
        "-m",
        "hf:model",
        "--log",
        "wandb,mode=offline",
        "--log",
        "trackio",
        "--out",
        "run",
    )
    assert done.code == 2
    assert "pip install 'kshot[hf,wandb,trackio]'" in done.err
    with pytest.raises(MissingExtra, match=r"kshot\[wandb\]"):
        kshot.score("run", log="wandb")


@pytest.mark.parametrize("log", [5, [None], [["wandb"]], {"wandb"}, object()])
def test_what_is_no_logger_is_refused(log):
    with pytest.raises(UsageError, match="which is no logger"):
        named_loggers(log)


@pytest.mark.parametrize("watcher", [5, [None], print])
def test_what_is_no_watcher_is_refused(watcher):
    with pytest.raises(UsageError, match=r"inherits kshot\.Watcher"):
        kshot.evaluate("embedded", PLANETS, limit=1, watcher=watcher)


def test_the_list_shows_the_options_of_each(capsys):
    done = command(capsys, "list", "loggers")
    assert [line.split()[0] for line in done.out.splitlines()] == ["wandb", "mlflow", "trackio"]
    for entry in LOGGERS.entries():
        assert set(options_of(entry.load())) == set(entry.text.partition("(")[2].rstrip(").").split(", "))


def test_an_object_can_be_a_logger():
    class Mine(kshot.Watcher):
        pass

    mine = Mine()
    assert named_loggers([mine, "trackio", mine, "trackio"]) == [mine, "trackio"]
    assert make_logger(mine).notes == []
