"""Queries of links: what they mean, and what is said of those that mean nothing."""

import pytest

from kshot.core.errors import UsageError
from kshot.viewer.opened_index import SampleQuery, sample_query, whole_number


def test_an_empty_query_wants_all_samples_in_the_order_of_the_run():
    empty = dict.fromkeys(
        ("verdict", "task", "model", "category", "answer", "q", "metric", "sort", "reverse", "flip"), ""
    )
    assert sample_query({}) == sample_query(empty) == SampleQuery()


def test_every_part_is_read():
    given = {"verdict": "right, failed", "task": "a", "model": "b", "category": "c", "answer": "d", "q": " words "}
    more = {"metric": "F1", "sort": "score", "reverse": "1", "flip": "won", "other": "key", "offset": "3"}
    wanted = SampleQuery(frozenset({"right", "failed"}), "a", "b", "c", "d", "words", "F1", "score", True, "won")
    assert sample_query(given | more) == wanted


def test_verdicts_are_those_that_pages_count():
    assert sample_query({"verdict": "wrong"}).verdicts == {"wrong"}
    assert sample_query({"verdict": "partly, wrong"}).verdicts == {"partly", "wrong"}


def test_the_headline_is_no_metric_of_its_own():
    assert sample_query({"metric": "headline"}).metric is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"verdict": "wrong,bad"}, "verdict is 'bad'. It may be: right, partly, wrong, failed, unrated."),
        ({"sort": "size"}, "sort is 'size'. It may be: run, score, id, task, category, answer."),
        ({"reverse": "2"}, "reverse is '2'. It may be: 0 or 1."),
        ({"flip": "both"}, "flip is 'both'. It may be: won, lost, flipped."),
        ({"q": "x" * 10_001}, "'q' has 10,001 characters, above the limit of 10,000"),
    ],
)
def test_a_value_that_means_nothing_is_named_with_those_that_do(given, said):
    with pytest.raises(UsageError) as caught:
        sample_query(given)
    assert str(caught.value) == said


def test_whole_numbers_have_a_default_and_a_limit():
    assert [whole_number("limit", text, default=50, most=200) for text in ("", "0", "7", "999")] == [50, 0, 7, 200]


@pytest.mark.parametrize("text", ["-1", "1.5", "x", "１", "9" * 19, "1e3", " 1"])
def test_what_is_no_whole_number_is_said(text):
    with pytest.raises(UsageError, match=r"offset is .* not a whole number"):
        whole_number("offset", text, default=0, most=10)
