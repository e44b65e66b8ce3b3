"""Calibration of option probabilities: what counts as a sample, which bin it falls into, and what is said of it."""

import math

import pytest

from kshot.report.page.calibration_section import calibration_section
from kshot.report.page.packed_samples import Calibration, confidence_of, read_run_samples
from kshot.report.page.page_run import PageRun
from kshot.runs.record import RunRecord
from tests.report.page.page_reading import figures, numbers, text_of


def measured(*logprobs, target=0, **more):
    options = [
        {"text": f" {name}", "logprob": each, "tokens": 1} for name, each in zip("abcdef", logprobs, strict=False)
    ]
    row = {"task": "t", "model": "m", "id": "1", "prompt": "q", "response": options, "target": target}
    return {**row, "answer": 0, "scores": {"Accuracy": 100.0}, **more}


def test_the_confidence_is_the_softmax_of_the_likeliest_option():
    found, right = confidence_of(measured(math.log(0.2), math.log(0.6), math.log(0.2), target=1))
    assert found == pytest.approx(0.6)
    assert right
    assert confidence_of(measured(-700.0, -701.0, target=1)) == (pytest.approx(1 / (1 + math.exp(-1))), False)


def test_of_equally_likely_options_the_first_counts():
    assert confidence_of(measured(-1.0, -1.0, target=0)) == (0.5, True)
    assert confidence_of(measured(-1.0, -1.0, target=1)) == (0.5, False)


def test_several_options_may_be_right():
    assert confidence_of(measured(-1.0, -9.0, -9.0, target=[2, 0]))[1]


@pytest.mark.parametrize(
    "row",
    [
        measured(-1.0, -2.0, failed="timeout"),
        measured(-1.0),
        measured(-1.0, -2.0, target="a"),
        measured(-1.0, -2.0, target=None),
        measured(-1.0, math.nan),
        measured(-math.inf, -math.inf),
        {"response": ["a reply", "another"], "target": 0},
        {"response": [{"id": "passage", "score": 1.0}, {"id": "other", "score": 0.5}], "target": 0},
        {"response": "a reply", "target": 0},
        {},
    ],
)
def test_samples_without_probabilities_are_not_counted(row):
    assert confidence_of(row) is None


def test_an_impossible_option_has_the_probability_0():
    assert confidence_of(measured(-1.0, -math.inf)) == (1.0, True)


def test_an_edge_belongs_to_the_bin_below_it():
    found = Calibration()
    for confidence in (0.5, 0.1 + 0.2, 0.3, 1.0):
        found.add(confidence, right=True)
    assert [each.samples for each in found.bins] == [0, 0, 1, 1, 1, 0, 0, 0, 0, 1]  # 0.1 + 0.2 is above 0.3


def test_the_section_says_the_error_and_shows_the_bins():
    figure = {"task": "t", "model": "m", "metric": "Accuracy", "value": 50.0, "n": 2, "failed": 0, "ci95": None}
    samples = [measured(math.log(0.75), math.log(0.25), target=at) for at in (0, 0, 0, 1)]
    run = PageRun("k", "k", RunRecord([figure], [], _samples=[*samples, measured(-1.0, failed="no")]))
    section = calibration_section([run], {"k": read_run_samples(run)})
    (chart,) = figures(section.html)
    assert (
        "ECE 0.0 %: the likeliest option is right in 75.0 % of 4 samples, at a mean probability of 75.0 %"
        in text_of(chart)
    )
    assert {each.written for each in numbers(section.html)} == {"0.750", "4"}
    assert calibration_section([run], {}) is None
