"""BFCL's conversations: plain cases without any function, others with a small package in the place of bfcl_eval."""

import json

import pytest

from kshot.configs.evaluators import bfcl_calls
from kshot.configs.evaluators.bfcl_calls import Scene, call_results, executable, right_turns
from kshot.core.errors import DataError
from tests.configs.bfcl_package import small_package
from tests.configs.scored import figures

EVALUATOR = {"type": "ais_bench.benchmark.datasets.BFCLMultiTurnEvaluator", "category": "multi_turn_base"}
ROW = {
    "id": "multi_turn_base_0",
    "involved_classes": '["TicketAPI"]',
    "initial_config": '{"TicketAPI": {"tickets": []}}',
}
SCENE = Scene(("TicketAPI",), {"TicketAPI": {"tickets": ["first"]}})


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    with small_package(tmp_path_factory.mktemp("packages")):
        yield


@pytest.fixture
def no_package(monkeypatch):
    monkeypatch.setattr(bfcl_calls, "find_spec", lambda _: None)


@pytest.mark.parametrize(
    ("reply", "calls"),
    [
        ("[f(a=1), g(b='x')]", ["f(a=1)", "g(b='x')"]),
        ("f(a=g(k=1), b={'c': 1, 'd': {'e': {}}})", ["f(a=g(k=1), b={'c': 1, 'd': e()})"]),
        ("Done.", []),
        ("f(a={})", []),
        ([{"f": '{"a": [1], "b": null}'}], ["f(a=[1],b=None)"]),
        ({"f": {"a": {}}}, ["f(a={})"]),
        ([], []),
        ([{"f": "{"}], []),
        (None, []),
    ],
)
def test_calls_of_replies_are_written_as_they_are_executed(reply, calls):
    assert executable(reply) == calls


@pytest.mark.parametrize(
    ("answer", "truth", "right"),
    [
        ([["add(name='a')"], ["[count()]"]], [["add(name = 'a')"], ["count()"]], True),
        ([["add(name='a')", "Done."], ["Nothing."]], [["add(name='a')"], []], True),
        ("add(name='a')", [["add(name='a')"]], True),
        ([["add(name='a')"]], [["add(name='a')"], ["count()"]], False),
        ([["add(name='a')"], ["I cannot."]], [["add(name='a')"], ["count()"]], False),
        (None, [["count()"]], False),
    ],
)
def test_plain_conversations_are_judged_without_the_package(no_package, answer, truth, right):
    assert right_turns(ROW, answer, truth) is right


@pytest.mark.parametrize(
    ("answer", "truth", "right"),
    [
        ([["add(priority=1, name='a')"]], [["add('a')"]], True),
        ([["add(name='a')"], ["add(name='b')"]], [["add('a')"], ["add(name='b', priority=2)"]], False),
        ([["[add(name='a'), count()]"]], [["add('a')"]], True),  # it may ask for more
        ([["add(name='a')"]], [["add('a')", "count()"]], False),
        ([["count()", "add(name='a')"], ["add(name='b')"]], [["add('a')"], ["add('b')", "count()"]], False),
        ([["add(name='a')", "count()"], ["add(name='b')"]], [["add('a')"], ["add('b')"]], True),
        ([["add(name='a')"], ["add(name='b')"]], [["add('a')"], []], True),  # the last state is not looked at
        ([["add(name='a')"], ["add(name='b')"], ["count()"]], [["add('a')"], [], ["count()"]], False),
        ([["add(title='a')", "add(name='a')"]], [["add('a')"]], True),
        ([["add(name='a')", "unknown(name='a')"]], [["add('a')"]], True),
        ([["wait()"]], [["add('a')"]], False),
    ],
)
def test_calls_do_what_the_right_ones_do(package, answer, truth, right):
    assert right_turns(ROW, answer, truth) is right


def test_calls_return_what_the_functions_return(package):
    assert call_results(SCENE, [["count()"]]) == ["1"]
    assert call_results(SCENE, [["add(name='x')"], ["count()", "add('y')", "add()", "__import__('os')"]]) == [
        "2",
        '{"id": 3}',
        "Error during execution: TicketAPI.add() missing 1 required positional argument: 'name'",
        "Error during execution: name '__import__' is not defined",
    ]
    assert call_results(Scene(("TicketAPI",), {}, long=True), [["count()"]]) == ["1"]
    assert call_results(SCENE, [["wait()"]]) == ["Error during execution: the call takes too long"]
    assert call_results(SCENE, [["count()"]]) == ["1"]  # by another process


def test_classes_that_cannot_be_had(package):
    with pytest.raises(DataError, match=r"cannot be set up: .*math_api.*pip install"):
        call_results(Scene(("MathAPI",), {}), [["mean([1])"]])
    with pytest.raises(DataError, match=r"involved_classes are \['Bank'\]"):
        call_results(Scene(("Bank",), {}), [["count()"]])


def test_figures_of_conversations(package):
    predictions = [[["add(priority=1, name='a')"]], [["No."]], [["add(name='b')"]]]
    found = figures(EVALUATOR, predictions, ["[[\"add('a')\"]]"] * 3, rows=[ROW] * 3, framework="ais_bench")
    assert found == {"accuracy": 1 / 3, "correct_count": 1, "total_count": 3}


def test_the_package_is_named_before_anything_is_asked(no_package):
    with pytest.raises(DataError, match=r"bfcl_eval.*pip install --no-deps bfcl_eval"):
        figures(EVALUATOR, [["No."]], [json.dumps([["count()"]])], rows=[ROW], framework="ais_bench")
    other = {**ROW, "involved_classes": "[]"}  # no function of such a row can be called, with the package or without
    found = figures(EVALUATOR, [[["No."]]], [json.dumps([["count()"]])], rows=[other], framework="ais_bench")
    assert found["accuracy"] == 0


def test_the_truth_is_turns_of_calls():
    with pytest.raises(DataError, match="a list of turns"):
        right_turns(ROW, [["count()"]], ["count()"])
