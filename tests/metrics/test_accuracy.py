from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from kshot.core.records import Answers, Gold, Option, Sample
from kshot.metrics import Accuracy
from tests.measures import names


def test_names():
    assert names(Accuracy()) == ("Accuracy",)
    assert names(Accuracy("Norm")) == ("Accuracy:Norm",)
    assert Accuracy()([1], [1]) == {"Accuracy": 100.0}


@pytest.mark.parametrize(
    ("prediction", "reference", "value"),
    [
        (1, 1, 100),
        (1, 2, 0),
        ("a", "a", 100),
        ("a", ["b", "a"], 100),
        ("a", ["ab"], 0),
        (-1, 1, 0),
        (" Paris\n", "Paris", 100),
        (-1, -1, 100),
        ("", "", 100),
    ],
)
def test_right_and_wrong(prediction, reference, value):
    assert Accuracy().values([prediction], [reference]) == {"Accuracy": [value]}


@pytest.mark.parametrize(
    ("target", "answer", "value"),
    [(Option(2), 2, 100), (Option(2), -1, 0), (Answers(("x", "y")), "y", 100), (Gold(7), 7, 100)],
)
def test_targets(target, answer, value):
    assert Accuracy().score(Sample("s", {}, target), answer) == {"Accuracy": value}


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 3)), min_size=1))
def test_it_is_the_share_of_equals(pairs):
    predictions, references = zip(*pairs, strict=True)
    figure = Accuracy()(predictions, references)["Accuracy"]
    assert figure == pytest.approx(100 * sum(p == r for p, r in pairs) / len(pairs))


def test_a_repr_shows_the_settings():
    assert repr(Accuracy("Norm")) == "Accuracy(name='Accuracy:Norm')"
