"""Run folders that version 0.1 wrote before the journal and ``spec.json`` got their present form."""

import json
import shutil
from pathlib import Path

import pytest

from kshot.core import engine
from kshot.runs.folder import RunFolder, read_spec
from tests.commands import kshot

ROOT = Path(__file__).parents[2]
EARLY = ROOT / "tests" / "data" / "runs_0_1"
COMMANDS = {
    "planets": ["-d", "examples/planets.py:Planets", "-d", "examples/planets.py:PlanetNames", "-m", "embedded", "-k", "2"],
    "seeds": [
        *("-d", "examples/planets.py:Planets", "-m", "embedded", "-k", "1"),
        *("--retriever", "random", "--retriever-seeds", "0..2"),
    ],
    "search": [
        *("-d", "handbook", "-m", "fts5", "-m", "bm25", "--limit", "4"),
        *("--rewrite", "embedded", "--max-tokens", "8"),
    ],
    "rag": [
        *("-d", "handbook", "-m", "embedded", "--method", "rag", "--limit", "3"),
        *("--read", "1", "--chunker", "sentence:40/0"),
    ],
}  # fmt: skip


@pytest.fixture(params=COMMANDS)
def early(request, tmp_path, monkeypatch):
    """A copy of an early folder, in a process that may ask no model."""
    if request.param in {"search", "rag"}:
        pytest.importorskip("bm25s")
        pytest.importorskip("llama_index.core")

    def refuse(backend, queue):
        raise AssertionError(f"{backend.name} was asked")

    monkeypatch.setattr(engine, "responses_of", refuse)
    monkeypatch.setenv("KSHOT_CACHE", str(tmp_path / "cache"))
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(EARLY / request.param, tmp_path / "run")
    return request.param


def figures(path):
    """The rows of a summary, without the rows and fields that were added since; scores have other intervals now."""
    added = {
        "kind",
        "category",
        "detail",
        "average",
        "higher_is_better",
        "bounds",
        "binary",
        "token_budget",
        "aggregate",
        "rule",
        "within",
    }
    return [
        {name: value for name, value in row.items() if name not in (added | {"ci95"} if "benchmark" in row else added)}
        for row in json.loads((Path(path) / "summary.json").read_text())["results"]
        if not row["metric"].startswith("acc_") and row["metric"] != "acc"
    ]


def samples(path):
    """The rows of the samples, without the fields that were added since."""
    rows = [json.loads(line) for line in (Path(path) / "samples.jsonl").read_text().splitlines()]
    for row in rows:
        row["scores"] = {name: value for name, value in row["scores"].items() if not name.startswith("acc")}
    added = {"answers", "rule", "stop_reason", "question", "evidence"}
    return [{name: value for name, value in row.items() if name not in added} for row in rows]


def assert_unchanged(name):
    assert Path("run/journal.jsonl").read_bytes() == (EARLY / name / "journal.jsonl").read_bytes()
    assert samples("run") == samples(EARLY / name)
    assert figures("run") == figures(EARLY / name)


def test_it_resumes_without_a_request(early, capsys):
    done = kshot(capsys, "run", *COMMANDS[early], "--out", "run")
    assert done.code == 0, done.err
    assert_unchanged(early)


def test_it_is_scored_without_a_request(early, capsys):
    Path("run/summary.json").unlink()
    done = kshot(capsys, "score", "run", "--trust", "examples/planets.py")  # these folders have no digest of it
    assert done.code == 0, done.err
    assert_unchanged(early)


def test_roles_of_early_folders_become_fields():
    assert [(each["role"], each["name"]) for each in read_spec(EARLY / "search")["models"]] == [
        ("search_engine", "fts5"),
        ("rewriter", "embedded"),
        ("search_engine", "bm25"),
    ]
    assert [(each["role"], each["name"]) for each in read_spec(EARLY / "rag")["models"]] == [
        ("model", "embedded"),
        ("corpus", "fts5"),
    ]


def test_early_folders_get_what_their_names_tell_of_the_models(tmp_path):
    fingerprints = {"openai:m@http://host/v1": "a", "judge anthropic:n": "b", "replay:runs/x": "c", "hf:models/y": "d"}
    fingerprints["engine replay:lists.json"] = "e"
    (tmp_path / "spec.json").write_text(json.dumps({"identity": {}, "fingerprints": fingerprints}))
    marks = {each["name"]: set(each) - {"role", "name", "fingerprint"} for each in read_spec(tmp_path)["models"]}
    assert marks == {
        "openai:m@http://host/v1": {"server"},
        "anthropic:n": {"server"},
        "replay:runs/x": {"searches"},
        "hf:models/y": set(),
        "replay:lists.json": set(),
    }


def test_a_resumed_folder_learns_that_a_model_is_behind_a_server(tmp_path):
    with RunFolder(tmp_path / "run", {}) as folder:
        folder.note_model("model", "openai:m", "print")
        folder.note_model("model", "openai:m", "print", server=True)
        assert folder.spec["models"] == [{"role": "model", "name": "openai:m", "fingerprint": "print", "server": True}]


@pytest.mark.parametrize("models", [None, [], "x", 5, True, {"planets": 3}])
@pytest.mark.parametrize("key", ["fingerprints", "models"])
def test_a_damaged_list_of_models_loses_nothing(key, models, tmp_path, capsys):
    shutil.copytree(EARLY / "planets", tmp_path / "run")
    spec = json.loads((tmp_path / "run" / "spec.json").read_text())
    spec.pop("fingerprints")
    (tmp_path / "run" / "spec.json").write_text(json.dumps(spec | {key: models}))
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    done = kshot(capsys, "score", tmp_path / "run")
    assert done.code == 2
    assert "spec.json" in done.err
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before
