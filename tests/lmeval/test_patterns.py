import pytest

from kshot.core.errors import DataError
from kshot.core.records import Failed
from kshot.lmeval import pipelines
from kshot.lmeval.pipelines import FILTERED, WITHOUT, filtered_by_pattern, without_patterns


def test_a_filter_runs_in_the_confined_process():
    found = filtered_by_pattern("regex", {"regex_pattern": r"(\d+)"}, [["a 12", "b"], ["7"]], [{}, {}])
    assert found == [["12", "[invalid]"], ["7"]]


def test_only_the_choices_of_a_document_are_sent():
    docs = [{"choices": ["yes", "no"], "picture": object()}]
    options = {"regex_pattern": "(z)"}
    assert filtered_by_pattern("multi_choice_regex", options, [["no"]], docs) == [["(B)"]]


def test_texts_lose_what_patterns_match():
    assert without_patterns([","], [["1,000", "2"], []]) == [["1000", "2"], []]


def test_a_pattern_that_does_not_finish_fails_only_where_it_does_not(monkeypatch):
    monkeypatch.setattr(FILTERED, "seconds", 0.2)
    endless = {"regex_pattern": r"(x+x+)+y"}
    found = filtered_by_pattern("regex", endless, [["xxy"], ["x" * 40], ["-"]], [{}] * 3)
    assert (found[0], found[2]) == (["xx"], ["[invalid]"])
    assert isinstance(found[1], Failed)
    assert "(x+x+)+y" in found[1].message


def test_too_many_responses_that_do_not_finish_refuse_the_task(monkeypatch):
    monkeypatch.setattr(WITHOUT, "seconds", 0.1)
    monkeypatch.setattr(pipelines, "MAX_SLOW", 1)
    with pytest.raises(DataError, match=r"does not finish within 0.1 s on more than 1 responses"):
        without_patterns(["(x+x+)+y"], [["x" * 40]] * 3)


def test_a_pattern_that_cannot_be_read_is_named():
    with pytest.raises(DataError, match=r"regex_pattern='\('.*unterminated"):
        filtered_by_pattern("regex", {"regex_pattern": "("}, [["a"]], [{}])


def test_an_unknown_option_is_an_error():
    with pytest.raises(DataError, match="regex_patern"):
        filtered_by_pattern("regex", {"regex_patern": "a"}, [["a"]], [{}])
