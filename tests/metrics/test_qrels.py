"""Measures against graded ids: values that can be worked out by hand, and what is refused."""

from __future__ import annotations

import math
import sys

import pytest

from kshot.core.errors import DataError, MissingExtra, UsageError
from kshot.core.metric import Metric as AnyMetric
from kshot.core.records import Evidence, Graded, Sample
from kshot.metrics import ranking
from kshot.metrics.ranking import Relevance
from tests.measures import measure, names

NAMES = ("nDCG@3", "AP", "P@5", "R@2", "RR@1", "RR@2", "RR")
GOLD = Graded({"a": 2, "b": 1, "c": 0, "d": 1, "e": -1})


def rated(answer, names=NAMES, target=GOLD):
    return Relevance(names).score(Sample("q", {}, target), answer)


def test_it_is_a_scorer():
    metric = Relevance()
    assert isinstance(metric, AnyMetric)
    assert names(metric) == ("nDCG@10",)
    assert measure(metric).bounds == (0.0, 1.0)
    assert repr(Relevance(["MAP", "MRR@10"])) == "Relevance(AP, RR@10)"


def test_by_hand():
    assert rated(["c", "b", "a", "x"]) == pytest.approx(
        {
            "nDCG@3": (1 / math.log2(3) + 2 / math.log2(4)) / (2 + 1 / math.log2(3) + 1 / math.log2(4)),
            "AP": (1 / 2 + 2 / 3) / 3,
            "P@5": 2 / 5,
            "R@2": 1 / 3,
            "RR@1": 0.0,
            "RR@2": 0.5,
            "RR": 0.5,
        }
    )


def test_the_order_counts_whatever_the_ids():
    """trec_eval puts equal scores in the order of the ids; there must be none."""
    for answer in (["z", "b"], ["0", "b"], ["-0", "b"], ["1", "b"]):
        assert rated(answer, ["RR"]) == {"RR": 0.5}
    far = [f"x{i}" for i in range(5000)]
    assert rated([*far, "a"], ["RR"]) == {"RR": pytest.approx(1 / 5001)}


def test_nothing_found_and_nothing_to_find_are_0_and_count():
    nought = dict.fromkeys(NAMES, 0.0)
    assert rated([]) == nought
    assert rated(["x"]) == nought
    assert rated(["a"], target=Graded({})) == nought
    assert rated(["a"], target=Graded({"a": 0})) == nought
    assert rated(["e"]) == nought
    assert rated(["e"], target=Graded({"e": -1})) == nought  # given this, pytrec-eval alone never ends


def test_outside_a_run():
    assert Relevance(["RR"])([["x", "a"], []], [{"a": 1}, {"a": 1}]) == {"RR": 0.25}


def test_what_is_refused():
    for wrong in ("abc", [1, 2], None):
        with pytest.raises(DataError, match="list of ids"):
            rated(wrong)
    with pytest.raises(DataError, match="'a' is in the ranking twice"):
        rated(["a", "b", "a"])
    with pytest.raises(DataError, match="no graded ids"):
        rated(["a"], target=Evidence((("a",),)))
    with pytest.raises(DataError, match="map ids to grades"):
        Relevance().rate(["a"], ["a"])
    with pytest.raises(UsageError, match="quoted evidence"):
        Relevance(["AC_MRR@10"])


def test_a_missing_package_names_its_extra(monkeypatch):
    for module in ("ir_measures", "pytrec_eval"):
        monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    ranking._evaluator.cache_clear()
    metric = Relevance()  # a preview needs no more
    with pytest.raises(MissingExtra, match=r"packages 'ir-measures' and 'pytrec-eval-terrier'.*kshot\[passages\]"):
        metric.rate(["a"], {"a": 1})


def test_one_evaluator_serves_all_questions_of_the_same_grades():
    metric, answer = Relevance(), [f"d{i}" for i in range(100)]
    ranking._evaluator.cache_clear()
    for n in range(200):
        metric.score(Sample(str(n), {}, Graded({f"d{n}": 1, f"d{n + 1}": 2})), answer)
    assert ranking._evaluator.cache_info().misses == 1
