from __future__ import annotations

import math
import subprocess
import sys

import pytest

from kshot.core.errors import DataError
from kshot.core.records import Gold, Sample
from kshot.core.task import Scorer
from kshot.metrics import METRICS, Metric, describe, mean


class Length(Metric):
    name = "Length"

    def rate(self, prediction, reference, /):
        return 100.0 * (len(prediction) == reference)


def test_a_metric_of_ones_own():
    assert isinstance(Length(), Scorer)
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


def test_the_registry():
    assert set(METRICS) == {"Accuracy", "Em", "F1", "Bleu", "Rouge", "Perplexity", "PassAtK", "GPTEval"}
    assert all(isinstance(metric(), Scorer) for metric in METRICS.values())
    assert all(len(line) > 20 for line in describe().values())


def test_heavy_packages_are_not_imported():
    heavy = ("sacrebleu", "nltk", "rouge_score", "torch")
    code = f"import sys, kshot.metrics; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
