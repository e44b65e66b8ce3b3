"""Evaluators that look for the answer which a reply states."""

import json

import pytest

from kshot.configs.evaluators.stated import CodeOutput, Loyalty, NearestOption
from kshot.core.errors import DataError
from tests.configs.scored import figures

ROW = {"A": "river", "B": "a stream", "C": "the sea", "D": None}


@pytest.mark.parametrize(
    ("reply", "option"),
    [
        (" B\n", "B"),
        ("答案是C", "C"),
        ("It flows into the Sea.", "C"),
        ("A river, or a stream?", "A"),  # by likeness, as both are in it
        ("stream", "B"),
        ("", "A"),
    ],
)
def test_the_option_that_is_stated_or_most_alike(reply, option):
    assert NearestOption("ABCD").chosen(reply, ROW) == option


def test_figures_of_options():
    wanted = {"type": "opencompass.datasets.custom.OptionSimAccEvaluator", "options": ["A", "B", "C", "D"]}
    assert figures(wanted, ["C", "stream", "?"], ["C", "B", "C"], rows=[ROW] * 3) == {
        "accuracy": pytest.approx(200 / 3)
    }
    with pytest.raises(DataError, match="no column 'A'"):
        figures(wanted, ["?"], ["C"])
    with pytest.raises(DataError, match="single capital letters"):
        NearestOption(["a"])


@pytest.mark.parametrize(
    ("reply", "wanted", "right"),
    [
        ("So the final output will be [1, 2]", "[1, 2]", True),
        ("The printed value is 3.0", "3", False),  # "The value" remains beside it
        ("3.0", "3", True),
        ("[[1, 2], [3, 4]]", "[[1 2] [3 4]]", True),
        ("I say: the final output is 5 6", "5", False),
    ],
)
def test_the_output_of_code(reply, wanted, right):
    assert CodeOutput().same(reply, wanted) is right


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        ("True. [fact: False]", True),
        ("It is (true) or false", False),  # a word of its own goes first
        ("Untrue!", True),
        ("[fact: true]", False),
        ("", False),
    ],
)
def test_loyalty_to_the_novel(reply, right):
    assert Loyalty().same(reply, "True [fact: False]") is right


def choice(answer, category, **more):
    letters = json.dumps(dict.fromkeys("ABC", "text"))
    return {"type": "multiple-choice", "choices": letters, "answer": answer, "category": category, **more}


def test_figures_of_mmmu():
    wanted = {"type": "ais_bench.benchmark.datasets.MMMUEvaluator"}
    gold = [
        choice("B", "Art", split="dev"),
        choice("B", "Bio", split="dev", subfield="Cells"),
        choice("C", "Art", split="dev"),
        {"type": "open", "answer": "Twelve", "subject": "Art", "split": "dev"},
        "12",
    ]
    replies = ["I think.\nAnswer: B.", "ANSWER: D", "It must be C<|im_end|>", "ANSWER: twelve ", "12 "]
    found = figures(wanted, replies, gold, framework="ais_bench")
    assert list(found.items()) == [
        ("[validation]: Overall", 100),
        ("[validation]: Unknown", 100),
        ("[dev]: Overall", 75),
        ("[dev]: Art", 100),
        ("[dev]: Bio", 0),
        ("[dev]: Cells", 0),
    ]


def test_nothing_is_compared_for_custom_images():
    assert figures({"type": "MMCustomEvaluator"}, ["x"], ["y"], framework="ais_bench") == {"accuracy": 1}


def test_turns_of_mtbench():
    wanted = {"type": "ais_bench.benchmark.datasets.MTBenchEvaluator"}
    predictions = [["A", "x"], ["said"], ["other"]]
    found = figures(wanted, predictions, [["laughter"], ["said"], ["said"]], framework="ais_bench")
    assert found == {"accuracy": pytest.approx(100 / 3)}
