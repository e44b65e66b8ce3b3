"""chrF and TER against sacrebleu, and the law that their statistics add up."""

from __future__ import annotations

import pytest
import sacrebleu
from hypothesis import given, strategies as st

from kshot.core.errors import DataError
from kshot.metrics import Chrf, Ter
from kshot.statistics.intervals import interval
from tests.measures import measure

SENTENCE = st.lists(st.sampled_from(["the", "Cat", "sat,", "on", "a", "mat.", "今日", "3.5", "été", "(x)"]), max_size=9)
SENTENCE = SENTENCE.map(" ".join)
ROWS = st.lists(st.tuples(SENTENCE, SENTENCE, SENTENCE), min_size=1, max_size=5)


@given(ROWS, st.sampled_from([{}, {"word_order": 2}, {"word_order": 1, "beta": 3}, {"char_order": 3}]))
def test_chrf_as_sacrebleu_with_two_references(rows, options):
    predictions, streams = [row[0] for row in rows], [[row[1] for row in rows], [row[2] for row in rows]]
    metric = Chrf(**options)
    expected = sacrebleu.CHRF(**options).corpus_score(predictions, streams)
    assert metric(predictions, [list(row[1:]) for row in rows]) == {metric.name: expected.score}
    assert metric.name.partition(":")[0] == expected.name


@given(ROWS, st.sampled_from([{}, {"normalized": True}, {"no_punct": True, "case_sensitive": True}]))
def test_ter_as_sacrebleu_with_two_references(rows, options):
    predictions, streams = [row[0] for row in rows], [[row[1] for row in rows], [row[2] for row in rows]]
    expected = sacrebleu.TER(**options).corpus_score(predictions, streams).score
    assert Ter(**options)(predictions, [list(row[1:]) for row in rows])["TER"] == pytest.approx(expected, rel=1e-12)


def test_ter_with_asian_support():
    rows = [("今日は晴れ。", "明日は晴れ。")]
    options = {"normalized": True, "asian_support": True}
    expected = sacrebleu.TER(**options).corpus_score([rows[0][0]], [[rows[0][1]]]).score
    assert Ter(**options)([rows[0][0]], [rows[0][1]]) == {"TER": expected}
    assert expected not in {0.0, 100.0}


@pytest.mark.parametrize("metric", [Chrf(), Chrf(2), Ter()], ids=lambda metric: metric.name)
@given(rows=st.lists(st.tuples(SENTENCE, SENTENCE), min_size=2, max_size=6), data=st.data())
def test_the_statistics_add_up(metric, rows, data):
    values = [metric.rate(p, r)[metric.name] for p, r in rows]
    cut = data.draw(st.integers(1, len(values) - 1))
    parts = [tuple(map(sum, zip(*part, strict=True))) for part in (values[:cut], values[cut:])]
    assert measure(metric).aggregate(parts) == pytest.approx(measure(metric).aggregate(values), rel=1e-12)


@given(SENTENCE, SENTENCE)
def test_a_copy_is_perfect_and_an_edit_costs(prediction, reference):
    assert Ter()([reference], [reference])["TER"] == 0
    if reference:
        assert Chrf()([reference], [reference])["chrF2"] == 100
    assert 0 <= Chrf()([prediction], [reference])["chrF2"] <= 100
    assert Ter()([prediction], [reference])["TER"] >= 0


def test_ter_is_better_when_lower_and_has_no_upper_bound():
    assert not measure(Ter()).higher_is_better
    assert measure(Chrf()).higher_is_better
    assert Ter()(["a b c d"], ["x"]) == {"TER": 400.0}


def test_intervals_hold_the_figure():
    rows = [("the cat sat", "the cat sat"), ("a dog", "the dog ran"), ("x y z", "x y"), ("", "one two")]
    for metric in (Chrf(), Ter()):
        values = [metric.rate(p, r)[metric.name] for p, r in rows]
        low, high = interval(values, measure(metric).aggregate)
        assert low < measure(metric).aggregate(values) < high


@pytest.mark.parametrize("metric", [Chrf(), Ter()], ids=lambda metric: metric.name)
def test_a_reference_that_is_no_text(metric):
    for wrong in (3, [], [1], None):
        with pytest.raises(DataError, match=f"{metric.name} got"):
            metric(["x"], [wrong])
