"""Scoring a run again from its journal: the same models meet the same datasets, and every file stays as it was."""

from pathlib import Path

import pytest

from kshot.runs.folder import read_spec
from tests.commands import kshot

FILES = ("samples.jsonl", "summary.json", "journal.jsonl")
SMALL = ("--limit", "3", "--length", "10")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KSHOT_CACHE", str(tmp_path / "cache"))


def contents(run):
    return {name: Path(run, name).read_bytes() for name in FILES}


def test_a_mixed_run_keeps_language_models_and_search_engines_apart(capsys):
    command = ("run", "-d", "lookup:UR", "-d", "handbook", "-m", "embedded", "-m", "fts5", *SMALL)
    assert kshot(capsys, *command, "--out", "run").code == 0
    before = contents("run")
    done = kshot(capsys, "score", "run")
    assert done.code == 0, done.err
    assert contents("run") == before


def test_a_replayed_journal_that_answers_searches_too_meets_both_kinds_of_dataset(capsys):
    kshot(capsys, "run", "-d", "lookup:UR", "-m", "embedded", *SMALL, "--out", "language")
    kshot(capsys, "run", "-d", "handbook", "-m", "fts5", *SMALL, "--out", "search")
    Path("both.jsonl").write_text("".join(Path(run, "journal.jsonl").read_text() for run in ("language", "search")))
    done = kshot(
        capsys, "run", "-d", "lookup:UR", "-d", "handbook", "-m", "replay:both.jsonl", *SMALL, "--out", "replayed"
    )
    assert done.code == 0, done.err
    (noted,) = read_spec("replayed")["models"]
    assert (noted["role"], noted["searches"]) == ("model", True)
    before = contents("replayed")
    assert b'"handbook' in before["samples.jsonl"]
    assert b'"lookup:UR' in before["samples.jsonl"]
    done = kshot(capsys, "score", "replayed")
    assert done.code == 0, done.err
    assert contents("replayed") == before
