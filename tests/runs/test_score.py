"""Scoring a run again from its journal: the same models meet the same datasets, and every file stays as it was."""

import re
from pathlib import Path

import pytest

from kshot.api import evaluate
from kshot.datasets.source import DatasetSource
from kshot.runs.folder import read_spec
from kshot.runs.watchers import SilentWatcher
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


PLANETS = f"{Path(__file__).parents[2] / 'examples' / 'planets.py'}:Planets"


@pytest.mark.parametrize(
    "choice",
    [
        (),
        ("--retriever-seeds", "0..2"),
        ("--retriever", "bm25"),
        ("--retriever", "random", "--retriever-seeds", "0..2"),
        ("--ranking-type", "auto", "--retriever-seeds", "0..1"),
    ],
    ids=" ".join,
)
def test_examples_that_were_cut_to_the_token_budget(choice, capsys):
    command = ("run", "-m", "embedded", "-d", PLANETS, "-k", "3", "--max-example-tokens", "70", *choice, "--out", "run")
    assert kshot(capsys, *command).code == 0
    before, facts = contents("run"), read_spec("run")["tasks"]["embedded"].values()
    if "--retriever" in choice:
        assert any(each["kept"] for each in facts)
        assert "samples show fewer examples than were chosen for them" in str(before)
    else:
        assert all(0 < each["shots"] < 3 for each in facts)
    for _ in range(2):
        done = kshot(capsys, "score", "run")
        assert done.code == 0, done.err
        assert contents("run") == before
    assert kshot(capsys, *command).code == 0
    assert contents("run") == before


def test_a_run_that_was_killed_is_scored_with_what_it_has(capsys):
    command = ("run", "-m", "embedded", "-d", PLANETS, "-k", "3", "--max-example-tokens", "70", "--out", "run")
    assert kshot(capsys, *command).code == 0
    facts = read_spec("run")["tasks"]
    first_half = Path("run", "journal.jsonl").read_text().splitlines(keepends=True)[:5]
    Path("run", "journal.jsonl").write_text("".join(first_half))
    for name in ("samples.jsonl", "summary.json"):
        Path("run", name).unlink()
    done = kshot(capsys, "score", "run")
    assert done.code == 0
    assert "3 failed (not_asked" in done.err
    assert read_spec("run")["tasks"] == facts


def test_figures_are_never_overwritten_with_nothing(capsys):
    """Neither those of all datasets nor those of one; and when the dataset is as it was, it is scored as before."""
    planets, whole = Path("planets.py"), Path(PLANETS.rpartition(":")[0]).read_text()
    planets.write_text(whole)
    budget = ("-k", "3", "--max-example-tokens", "70")
    both = ("-d", "planets.py:Planets", "-d", "planets.py:PlanetNames")
    assert kshot(capsys, "run", "-m", "embedded", *both, *budget, "--out", "run").code == 0
    before, facts = contents("run"), read_spec("run")["tasks"]
    for changed in (
        whole.replace("Which planet", "What planet"),
        whole.replace(r"{question}\nAnswer:", r"{question}\nReply:"),
        whole.replace("is the largest", "is the biggest"),
    ):
        assert changed != whole
        planets.write_text(changed)
        done = kshot(capsys, "score", "run", "-d", "planets.py:Planets", "--trust", "planets.py")
        assert done.code == 2
        assert "run: the journal holds no answer to " in done.err
        assert re.search(
            "(1 sample of .* that has|s of .* that have) been scored before; nothing was changed", done.err
        )
        assert contents("run") == before
        assert read_spec("run")["tasks"] == facts
    planets.write_text(whole)
    assert kshot(capsys, "score", "run").code == 0
    assert contents("run") == before


def test_a_run_with_a_retriever_that_breaks_off_is_scored_with_what_it_has(capsys):
    class Interrupts(SilentWatcher):
        count = 0

        def answered(self, outcome):
            self.count += 1
            if self.count == 5:
                raise KeyboardInterrupt

    options = dict(num_shots=3, max_example_tokens=70, retriever="bm25", out="run")
    with pytest.raises(KeyboardInterrupt):
        evaluate("embedded", PLANETS, watcher=Interrupts(), **options)
    done = kshot(capsys, "score", "run")
    assert done.code == 0, done.err
    assert "failed (not_asked" in done.err


def test_data_that_have_changed_since_the_run_are_noted(capsys):
    Path("rows.py").write_text(
        "from kshot import Em, GenerationDataset\n\n\nclass Rows(GenerationDataset):\n    instruction = '{q}='\n"
        "    metrics = [Em()]\n    load_args = ('rows.jsonl',)\n    evaluation_set = 'test'\n\n"
        "    def format_instance(self, row):\n        return {'q': row['q'], 'target': row['a']}\n"
    )
    Path("rows.jsonl").write_text('{"q": "1", "a": "1"}\n{"q": "2", "a": "2"}\n')
    assert kshot(capsys, "run", "-m", "embedded", "-d", "rows.py:Rows", "--out", "run").code == 0
    assert "its data have changed" not in kshot(capsys, "score", "run").err
    Path("rows.jsonl").write_text('{"q": "1", "a": "1"}\n{"q": "2", "a": "3"}\n')
    for _ in range(2):
        done = kshot(capsys, "score", "run")
        assert (done.code, "rows: its data have changed since this run began" in done.err) == (0, True)


def test_what_runs_beside_kshot_for_a_dataset_ends_also_when_scoring_fails(capsys, monkeypatch):
    assert kshot(capsys, "run", "-d", PLANETS, "-m", "embedded", "--limit", "3", "--out", "run").code == 0
    journal = Path("run/journal.jsonl")
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:-1]))
    closed = []
    monkeypatch.setattr(DatasetSource, "close", lambda source: closed.append(source.text))
    done = kshot(capsys, "score", "run")
    assert "holds no answer to 1 sample" in done.err
    assert closed == [PLANETS]
