"""Full-text search: words, beginnings, phrases, scripts without spaces; no query is misread."""

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

import kshot
from kshot.viewer.opened_index import sample_query
from kshot.viewer.sample_index import match_of
from tests.viewer.made_runs import ids, opened, page, sample, write_run

PLANETS = Path(__file__).parents[2] / "examples" / "planets.py"


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    judge = [{"prompt": [{"role": "user", "content": "Rate this."}], "response": "Verdict: splendid"}]
    rows = [
        sample("prompt", 0.0, prompt="The quick brown fox; the brown quick dog"),
        sample(
            "messages", 0.0, prompt=[{"role": "system", "content": "Be terse."}, {"role": "user", "content": "Café?"}]
        ),
        sample("reply", 0.0, response=["太阳系最大的行星是木星。", "지구는 태양계의 행성"], reasoning="Gedankengänge"),
        sample("options", 0.0, options=["Mercury", "Venus"], answer=1, target=[["a quote of evidence"]]),
        sample("judged", 0.0, judge=judge, answer=12.5),
        sample("failed", None, prompt="GPT模型 и ΣΊΣΥΦΟΣ", failed="timeout: gave_up after 3"),
    ]
    index = opened(write_run(tmp_path_factory.mktemp("texts"), rows))
    yield index
    index.close()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("quick", ["prompt"]),
        ("QUICK fox", ["prompt"]),
        ("quick cat", []),
        ("qui", ["prompt"]),  # the last word may go on
        ("qui fox", []),  # an earlier one may not
        ('"brown fox"', ["prompt"]),
        ('"fox brown"', []),
        ('"brown fo"', []),
        ('"quick brown" d', ["prompt"]),
        ("cafe", ["messages"]),
        ("terse", ["messages"]),
        ("user", []),  # roles are no text
        ('"1"', []),  # nor is the number of an option
        ("12.5", ["judged"]),
        ("最大", ["reply"]),
        ("木星", ["reply"]),
        ("大行", []),
        ("系 木星", ["reply"]),
        ("태양", ["reply"]),
        ("gedankengange", ["reply"]),
        ("venus", ["options"]),
        ("evidence", ["options"]),
        ("splendid", ["judged"]),
        ("gave_up", ["failed"]),
        ("gpt模型", ["failed"]),
        ("σίσυφος", ["failed"]),
        ("fox +", ["prompt"]),
        ("+ - *", []),
        ('"', []),
    ],
)
def test_samples_are_found_by_their_words(texts, text, found):
    assert ids(texts, q=text) == found


def test_a_search_is_one_condition_of_several(texts):
    assert ids(texts, q="the", verdict="failed") == []
    assert ids(texts, q="what is", sort="id", reverse="1") == ["reply", "options", "judged"]


def test_a_sample_is_found_by_the_answer_that_options_name_with_their_letter(texts):
    assert page(texts, q="mercury")["matching"] == 1


STRANGE = st.text(st.sampled_from("ab\"'*()^:+-{}~ \t\0\ud800é木.") | st.characters(), max_size=20)


@settings(max_examples=200)
@given(
    STRANGE | st.sampled_from(["a OR b", "NEAR(a b)", "text:a", "a AND", "NOT a", "a*b", '"a', "^a", "{text}: a", "-a"])
)
def test_no_query_is_misread(text):
    match = match_of(text)
    memory = sqlite3.connect(":memory:")
    memory.execute("CREATE VIRTUAL TABLE words USING fts5(text, content='', tokenize='unicode61 remove_diacritics 2')")
    memory.execute("INSERT INTO words (rowid, text) VALUES (1, 'or near and not text other')")
    if match:
        memory.execute("SELECT rowid FROM words WHERE words MATCH ?", (match,)).fetchall()
    else:
        assert not any(map(str.isalnum, text))
    memory.close()


def test_words_of_the_query_language_are_words(texts):
    assert ids(texts, q="quick OR nothing") == []
    assert ids(texts, q="quick NOT brown") == []


def test_the_first_search_says_that_words_are_being_indexed(tmp_path, monkeypatch):
    import threading

    from kshot.viewer import sample_index

    going_on, build = threading.Event(), sample_index.build_words
    monkeypatch.setattr(sample_index, "build_words", lambda *given: (given[2](0.3), going_on.wait(), build(*given))[2])
    monkeypatch.setattr(sample_index, "_PATIENCE_SECONDS", 0.0)
    index = opened(write_run(tmp_path / "run", [sample("a", 0.0)]))
    found = index.page(sample_query({"q": "what"}))
    assert (found["state"], found["rows"]) == ("searching", [])
    assert ids(index) == ["a"]  # what needs no words does not wait
    going_on.set()
    assert ids(index, q="what") == ["a"]
    assert (tmp_path / "run" / "samples.words.sqlite").is_file()


@pytest.mark.parametrize("examples_as", ["turns", "text"])
def test_examples_above_a_question_are_not_searched(tmp_path, examples_as):
    settings = {"num_shots": 2, "system_prompt": "Be brief.", "examples_as": examples_as, "report": False}
    kshot.evaluate("embedded", f"{PLANETS}:PlanetNames", out=tmp_path / "run", **settings)
    index = opened(tmp_path / "run")
    try:
        assert len(ids(index, q="which")) == 8
        assert ids(index, q="phobos moons") == ["5"]
        assert ids(index, q="volcano") == []  # it is in an example of every prompt
    finally:
        index.close()
