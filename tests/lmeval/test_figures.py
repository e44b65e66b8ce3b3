"""Figures of task files: scales, missing values, sums, and aggregations by functions."""

import math
import re

import pytest

from kshot.core.errors import DataError
from kshot.core.metric import Measure
from kshot.core.records import AskFailed, Sample
from kshot.lmeval.figures import NO_VALUE, FigureSpec, MeanFigure, UnlistedFigures, WholeFigure, figure_of
from kshot.statistics.intervals import interval
from tests.lmeval.tasks import task
from tests.measures import measure, names

SAMPLE = Sample("0", {})


def scored(figure, values):
    """Return the values of documents as a run keeps them."""
    figure.fit(values)
    return [figure.score(SAMPLE, value)[figure.measure.name] for value in values]


def made(tmp_path, aggregation, metric="m", **more):
    with task(tmp_path, {}) as file:
        return figure_of(file.config, file._functions, FigureSpec(metric, metric, aggregation, **more))


def figure(tmp_path, aggregation, values, **more):
    found = made(tmp_path, aggregation, **more)
    return measure(found).aggregate(scored(found, values))


def test_values_of_a_function_are_shares_only_if_all_of_them_can_be():
    known = MeanFigure(Measure("acc"), share=None)
    assert scored(known, [1, 0.5]) == [100.0, 50.0]
    assert (known.scale, known.measure.bounds) == (100.0, (0.0, 100.0))
    assert scored(known, [88.0, 0.5]) == [88.0, 0.5]
    assert (known.scale, known.measure.bounds) == (1.0, None)


@pytest.mark.parametrize(
    ("metric", "values", "binary"), [("acc", [1, 0.0], True), ("acc", [1, 0.5], False), ("f1", [1.0, 0.0], False)]
)
def test_only_what_is_right_or_wrong_is_binary(tmp_path, metric, values, binary):
    found = made(tmp_path, "mean", metric, by_function=True)
    scored(found, values)
    assert (found.measure.binary, found.measure.bounds) == (binary, (0.0, 100.0))


def test_documents_without_a_value_take_no_part():
    some = MeanFigure(Measure("m"), share=False)
    values = scored(some, [3.0, NO_VALUE, 5.0])
    assert some.measure.aggregate(values) == 4.0
    assert some.measure.aggregate([values[1]]) is None
    assert some.measure.aggregate.key == ""
    none = MeanFigure(Measure("m"), share=False)
    assert scored(none, [NO_VALUE]) == [NO_VALUE]


def test_a_value_that_is_not_finite_fails_its_sample(tmp_path):
    found = made(tmp_path, "mean")
    with pytest.raises(AskFailed, match="m is nan"):
        found.score(SAMPLE, math.nan)
    assert figure(tmp_path, "nanmean", [1.0, math.nan, 2.0]) == 1.5


@pytest.mark.parametrize("value", [[1], "x", None, 10**400])
def test_a_document_whose_value_is_no_number_fails(tmp_path, value):
    with pytest.raises(AskFailed, match=re.escape(f"m is {value!r:.80}")):
        figure(tmp_path, "mean", [1.0, value])


@pytest.mark.parametrize(
    ("aggregation", "values", "expected"),
    [
        ("perplexity", [-1.0, -3.0], math.exp(2)),
        ("weighted_perplexity", [(-4.0, 1), (-2.0, 2)], math.exp(2)),
        ("bits_per_byte", [(-4.0, 1), (-2.0, 2)], 2 / math.log(2)),
        ("f1", [(1, 1), (1, 0), (0, 1)], 50.0),
        ("matthews_corrcoef", [(1, 1), (0, 0)], 100.0),
        ("brier_score", [(0, [0.5, 0.5]), (1, [0.0, 1.0])], 0.25),
        ("median", [3, 1, 2], 2.0),
        ("bleu", [("the cat sat on the mat", "the cat sat on the mat")], 100.0),
        ("chrf", [(["x", "a cat"], ["a cat"])], 100.0),
        ("chrf++", [("a cat", "a cat")], 100.0),
        ("ter", [("a cat", "a dog")], 50.0),
    ],
)
def test_figures_by_aggregation(tmp_path, aggregation, values, expected):
    assert figure(tmp_path, aggregation, values) == pytest.approx(expected)


def test_labels_that_are_not_0_or_1_have_no_binary_f1(tmp_path):
    with pytest.raises(DataError, match="needs the labels 0 and 1"):
        figure(tmp_path, "f1", [(2, 1)])


def test_an_unknown_aggregation_is_refused_at_once(tmp_path):
    with pytest.raises(DataError, match="there is no aggregation 'avg'"):
        made(tmp_path, "avg")


def test_resamples_of_a_function_are_computed_together():
    asked = []

    def compute(groups):
        asked.append(len(groups))
        return [float(len({each.content for each in group})) for group in groups]

    whole = WholeFigure(Measure("kinds"), compute, ahead=True)
    values = scored(whole, ["a", "b", "c", "a", "d"])
    assert whole.measure.aggregate(values) == 4
    low, high = interval(values, whole.measure.aggregate)
    assert 1 <= low < high <= 4
    assert len(asked) == 2  # to fit, and all resamples


def test_names_that_a_function_gives_are_known_after_fitting():
    unlisted = UnlistedFigures(lambda name: MeanFigure(Measure(name), share=False))
    assert names(unlisted) == ()
    unlisted.fit([{"size": 4}, {"size": 2, "night": 3}])
    assert names(unlisted) == ("size", "night")
    found = [unlisted.score(SAMPLE, each) for each in ({"size": 4}, {"size": 2, "night": 3})]
    assert measure(unlisted, "size").aggregate([each["size"] for each in found]) == 3
    assert measure(unlisted, "night").aggregate([each["night"] for each in found]) == 3


def test_a_task_may_not_measure_any_number_of_figures():
    def unlisted():
        return UnlistedFigures(lambda name: MeanFigure(Measure(name), share=False))

    most = {f"m{number}": 1.0 for number in range(1000)}
    found = unlisted()
    found.fit([most, {"m0": 2.0}])
    assert len(found.measures) == 1000
    with pytest.raises(DataError, match="the task measures 1,001 figures, and a task may have 1,000"):
        unlisted().fit([most, {"one more": 1.0}])
