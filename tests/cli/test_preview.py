"""What ``kshot preview`` says of each request: baselines, windows, and where passages are searched."""

import json
from pathlib import Path

import pytest

from tests.commands import kshot
from tests.passages.books import small_book

TASKS = '''
from kshot import GenerationDataset, MultipleChoiceDataset, Perplexity


class Planets(MultipleChoiceDataset):
    instruction = "{question}\\nAnswer:"
    evaluation_set = "test"

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        self.evaluation_data, self.example_data = [{}], []

    def format_instance(self, row):
        return dict(question="Which is nearest?", options=["Mercury", "Venus"], target_idx=0)


class Filled(MultipleChoiceDataset):
    """The same target after each context: no baseline."""

    instruction, evaluation_set = "{source}", "test"

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        self.evaluation_data, self.example_data = [{}], []

    def format_instance(self, row):
        return dict(source=["Ann fell because Ann", "Ann fell because Bo"], target="slipped.", source_idx=0)


class Pages(GenerationDataset):
    metrics, rolling, evaluation_set = [Perplexity()], True, "test"

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        self.evaluation_data, self.example_data = [{"target": "A long page."}], []

    def format_instance(self, row):
        return row
'''


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KSHOT_CACHE", str(tmp_path / "cache"))
    Path("tasks.py").write_text(TASKS)


def shown(capsys, *options):
    done = kshot(capsys, "preview", *options)
    assert done.code == 0, done.err
    return done.out.splitlines()


def requests(capsys, *options):
    return json.loads("\n".join(shown(capsys, *options, "--json")))["requests"]


def test_a_baseline_is_labelled(capsys):
    options = ("-d", "tasks.py:Planets", "--accuracy", "acc_mutual_info")
    lines = shown(capsys, *options)
    measured = ["  ↳ likelihood of ' Mercury'", "  ↳ likelihood of ' Venus'"]
    at = next(index for index, line in enumerate(lines) if line.startswith("  after the baseline prompt:"))
    assert lines[at - 2 : at] == measured
    assert lines[-2:] == measured
    assert "" not in lines
    own, baseline = requests(capsys, *options)
    assert "baseline" not in own
    assert baseline["baseline"] is True
    assert "after the baseline" not in "".join(shown(capsys, "-d", "tasks.py:Planets"))


def test_the_same_target_after_several_contexts_is_no_baseline(capsys):
    lines = shown(capsys, "-d", "tasks.py:Filled")
    assert lines.count("  ↳ likelihood of ' slipped.'") == 2
    assert "after the baseline" not in "".join(lines)


def test_a_document_is_scored_in_windows(capsys):
    assert shown(capsys, "-d", "tasks.py:Pages")[1:] == [
        "  ↳ likelihood of 'A long page.', in windows of the model's length"
    ]
    (request,) = requests(capsys, "-d", "tasks.py:Pages", "--rolling-start", "none")
    assert request["rolling"] == "none"


def test_where_passages_are_searched(capsys, tmp_path):
    small_book(tmp_path / "book")
    options = ("-d", "passages", "--data", "book", "--chunker", "headings:50,tokenizer=words", "--limit", "1")
    assert "passages in all documents" in shown(capsys, *options)[-1]
    assert "passages within the question's chapter, 1" in shown(capsys, *options, "--within", "chapter")[-1]
