"""What a user sees of long documents and of prompts that do not fit: options, files, notes."""

import json
import math
from pathlib import Path

import pytest

from tests.commands import kshot
from tests.tiny_models import CORPUS

pytest.importorskip("torch")

DOCUMENTS = [" ".join(CORPUS), CORPUS[0], CORPUS[1] * 3]
CLASS = """
from kshot import GenerationDataset, Perplexity


class Pages(GenerationDataset):
    metrics = [Perplexity()]
    rolling = True
    evaluation_set = "test"

    def format_instance(self, instance):
        return {"target": instance["page"]}


class Questions(GenerationDataset):
    instruction = "{page}"
    metrics = ["em"]
    evaluation_set = "test"
    extra_model_args = {"max_tokens": 8}

    def format_instance(self, instance):
        return {"page": instance["page"], "target": "x"}
"""


@pytest.fixture(autouse=True)
def user(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("pages.py").write_text(CLASS)
    Path("pages").mkdir()
    rows = "".join(json.dumps({"page": text}) + "\n" for text in DOCUMENTS)
    Path("pages/test.jsonl").write_text(rows, encoding="utf-8")


def read(folder):
    samples = [json.loads(line) for line in Path(folder, "samples.jsonl").read_text().splitlines()]
    summary = json.loads(Path(folder, "summary.json").read_text())
    return samples, {row["metric"]: row for row in summary["results"]}, summary["notes"]


def test_documents_longer_than_the_window(capsys, tiny_llama):
    command = ["run", "-d", "pages.py:Pages", "--dataset-path", "pages", "-m", f"hf:{tiny_llama},max_length=64"]
    done = kshot(capsys, *command, "--out", "run")
    assert done.code == 0, done.err
    samples, figures, _ = read("run")
    nll = sum(row["answer"]["nll"] for row in samples)
    size = sum(len(text.encode()) for text in DOCUMENTS)
    assert figures["bits_per_byte"]["value"] == pytest.approx(nll / size / math.log(2))
    words = sum(len(text.split()) for text in DOCUMENTS)
    assert figures["word_perplexity"]["value"] == pytest.approx(math.exp(nll / words))
    assert [row["answer"]["greedy"] for row in samples] == [False] * 3
    other = kshot(capsys, *command, "--rolling-start", "none", "--out", "other")
    assert other.code == 0, other.err
    tokens = [row["answer"]["tokens"] for row in samples]
    assert [row["answer"]["tokens"] for row in read("other")[0]] == [count - 1 for count in tokens]


def test_prompts_that_do_not_fit_fail_or_are_cut_and_counted(capsys, tiny_llama):
    command = ["run", "-d", "pages.py:Questions", "--dataset-path", "pages", "-m", f"hf:{tiny_llama}"]
    done = kshot(capsys, *command, "--max-length", "64", "--out", "refused")
    samples, figures, _ = read("refused")
    failed = [row for row in samples if "failed" in row]
    assert figures["EM"]["failed"] == len(failed) == 2
    assert failed[0]["failed"].startswith("too_long: ")
    done = kshot(capsys, *command, "--max-length", "64", "--truncate", "left", "--out", "cut")
    assert done.code == 0, done.err
    samples, figures, notes = read("cut")
    assert ["cut_tokens" in row for row in samples] == [True, False, True]
    assert (figures["EM"]["failed"], figures["EM"]["cut_prompts"]) == (0, 2)
    (note,) = [note for note in notes if "cut from the left" in note]
    assert note.endswith("prompts that did not fit into the context window were cut from the left: 2")
    assert "cut from the left: 2" in done.err + done.out


def test_replies_that_the_window_cuts_are_counted(capsys, tiny_llama):
    done = kshot(
        capsys,
        *("run", "-d", "pages.py:Questions", "--dataset-path", "pages", "-m", f"hf:{tiny_llama}"),
        *("--max-length", "64", "--max-tokens", "60", "--limit", "2", "--out", "run"),
    )
    assert done.code == 0, done.err
    samples, figures, notes = read("run")
    assert samples[1]["stop_reason"] == "window"
    assert figures["EM"]["cut_replies"] == 1
    assert any("because the context window was full: 1" in note for note in notes)


def test_a_model_that_cannot_cut_prompts_refuses(capsys):
    Path("model.py").write_text("def model(prompt):\n    return 'x'\n")
    done = kshot(
        capsys,
        *("run", "-d", "pages.py:Questions", "--dataset-path", "pages", "-m", "model.py:model", "--truncate", "left"),
    )
    assert done.code == 2
    assert "it does not cut prompts" in done.err
    assert "Traceback" not in done.err
