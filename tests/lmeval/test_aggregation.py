import math

import pytest

from kshot.core.errors import DataError
from kshot.lmeval.figures import AGGREGATIONS, aggregated


def figure(name, values):
    return aggregated(name, "m", values, "task.yaml")


def test_means_and_medians():
    assert figure("mean", [1, 0, True, 0.5]) == 0.625
    assert figure("median", [3, 1, 2, 9]) == 3  # the upper middle
    assert figure("nanmean", [1.0, math.nan, 2.0]) == 1.5
    assert math.isnan(figure("nanmean", [math.nan]))


def test_perplexities_are_of_sums():
    assert figure("perplexity", [-1.0, -3.0]) == pytest.approx(math.exp(2))
    assert figure("weighted_perplexity", [(-4.0, 1), (-2.0, 2)]) == pytest.approx(math.exp(2))
    assert figure("bits_per_byte", [(-4.0, 1), (-2.0, 2)]) == pytest.approx(2 / math.log(2))
    assert figure("perplexity", [-1e6]) == math.inf


def test_f1_is_of_the_label_1():
    assert figure("f1", [(1, 1), (1, 0), (0, 1), (0, 0)]) == 0.5
    assert figure("f1", [(0, 0)]) == 0.0
    with pytest.raises(DataError, match=r"task.yaml.*binary F1 needs the labels 0 and 1"):
        figure("f1", [(0, 1), (2, 1)])


def test_matthews_takes_any_labels():
    assert figure("matthews_corrcoef", [(1, 1), (0, 0), (1, 1)]) == pytest.approx(1.0)
    assert figure("matthews_corrcoef", [("a", "b"), ("b", "a")]) == pytest.approx(-1.0)
    assert figure("matthews_corrcoef", [(1, 1), (0, 1)]) == 0.0


def test_brier_counts_every_option():
    assert figure("brier_score", [(0, [0.5, 0.5]), (1, [0.0, 1.0])]) == pytest.approx(0.25)


def test_translations_take_one_reference_or_several():
    pair = ("the cat sat on the mat", "the cat sat on the mat")
    assert figure("bleu", [pair]) == pytest.approx(100)
    assert figure("chrf", [(["x", pair[0]], pair[1])]) == pytest.approx(100)
    assert figure("chrf++", [(pair[0], [pair[1]])]) == pytest.approx(100)
    assert figure("ter", [pair]) == 0
    with pytest.raises(DataError, match="must be one text"):
        figure("bleu", [("a", ["b", "c"])])


def test_bypass_measures_nothing():
    assert figure("bypass", [None]) == 999


def test_values_that_do_not_suit_are_an_error_that_shows_one():
    with pytest.raises(DataError, match=r"values of m cannot be summed up by mean.*the first value is \[1, 2\]"):
        figure("mean", [[1, 2]])


def test_an_unknown_aggregation_is_named():
    with pytest.raises(DataError, match="there is no aggregation 'avg'") as raised:
        figure("avg", [1])
    assert all(name in raised.value.hint for name in AGGREGATIONS)
