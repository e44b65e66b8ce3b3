from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import pytest

from kshot.core.errors import DataError
from kshot.core.metric import MEAN, Measure, Metric as AnyMetric, Observation
from kshot.core.records import Absent, Gold, Sample
from kshot.metrics import METRICS, Metric, make_metric
from kshot.statistics import mean


class Length(Metric):
    name = "Length"

    def rate(self, prediction, reference, /):
        return 100.0 * (len(prediction) == reference)


def test_a_metric_of_ones_own():
    assert isinstance(Length(), AnyMetric)
    assert Length()(["ab", "c"], [2, 2]) == {"Length": 50.0}
    assert Length().values(["ab", "c"], [2, 2]) == {"Length": [100.0, 0.0]}
    assert Length().score(Sample("s", {}, Gold(2)), "ab") == {"Length": 100.0}


def test_a_metric_without_rate():
    with pytest.raises(NotImplementedError, match="must define rate"):
        Metric()(["x"], ["x"])


def test_mean():
    assert mean([1.0, 2.0]) == 1.5
    assert math.isnan(mean([]))
    with pytest.raises(DataError, match="reduce"):
        mean([(1.0, 2.0)])


def test_the_defaults_of_a_metric_of_ones_own():
    assert Length().measures == (Measure("Length"),)


@pytest.mark.parametrize(
    ("spec", "bounds", "higher_is_better"),
    [
        ("Accuracy", (0, 100), True),
        ("Em", (0, 100), True),
        ("F1", (0, 100), True),
        ("Bleu", (0, 100), True),
        ("Rouge", (0, 100), True),
        ("PassAtK", (0, 100), True),
        ("Perplexity", (0, math.inf), False),
        ("Greedy", (0, 100), True),
        *((name, (0, 100), True) for name in ("ExactMatch", "SquadEm", "SquadF1", "Chrf", "RougeLsum")),
        ("Ter", (0, math.inf), False),
        ("GPTEval", (1, 10), True),
        ("GPTEval,pairwise=yes", (0, 100), True),
    ],
)
def test_every_built_in_metric_states_its_scale(spec, bounds, higher_is_better):
    metric = make_metric(spec)
    assert {(each.bounds, each.higher_is_better) for each in metric.measures} == {(bounds, higher_is_better)}


def test_the_built_in_metrics_are_all_checked_above():
    assert {entry.name for entry in METRICS.entries() if entry.origin == "kshot"} == {
        *("Accuracy", "Em", "ExactMatch", "F1", "SquadEm", "SquadF1", "Bleu", "Chrf", "Ter", "Rouge", "RougeLsum"),
        *("Perplexity", "Greedy", "PassAtK", "GPTEval"),
    }


def test_heavy_packages_are_not_imported():
    heavy = ("sacrebleu", "nltk", "rouge_score", "torch")
    code = f"import sys, kshot.metrics; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_attributes_that_older_metrics_have():
    class Older(Metric):
        names, details, token_budgeted = ("Sum", "part"), ("part",), ("Sum",)
        rule, grouped, bounds, binary = "acc", True, (0.0, 1.0), True

        @property
        def aggregates(self):
            return {"Sum": "share"}

        def reduce(self, name, values):
            return 7.0

    one, other = Older().measures
    alike = {"bounds": (0.0, 1.0), "binary": True, "rule": "acc", "grouped": True}
    assert replace(one, aggregate=MEAN) == Measure("Sum", **alike, token_budget=True)
    assert replace(other, aggregate=MEAN) == Measure("part", **alike, detail=True)
    assert (one.aggregate.key, one.aggregate([(1.0, 2.0)]), other.aggregate.key) == ("share", 7.0, "mean")


def test_observations_have_an_order_by_what_they_contain():
    one, again, other = Observation(("a", [1])), Observation(("a", [1])), Observation(("a", [2]))
    assert (one == again, one == other, one < other or other < one) == (True, False, True)
    assert min(other, Observation(Absent("nothing")), one).content == Absent("nothing")
