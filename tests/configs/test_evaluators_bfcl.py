"""BFCL's evaluators: calls that are right, calls that are not, and replies that call nothing."""

import json

import pytest

from kshot.configs.evaluators.bfcl import java_value, javascript_value, right_calls
from kshot.configs.evaluators.bfcl_calls import NoCallsError, calls_of
from kshot.core.errors import DataError
from tests.configs.scored import figures, run_entry, scored_entry

SINGLE = {"type": "ais_bench.benchmark.datasets.BFCLSingleTurnEvaluator", "category": "simple"}
RELEVANCE = {"type": "ais_bench.benchmark.datasets.BFCLRelevanceEvaluator", "category": "live_relevance"}


def function(name, required=(), **parameters):
    return {"name": name, "parameters": {"type": "dict", "properties": parameters, "required": list(required)}}


TEXT, WHOLE, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "float"}
WEATHER = function("weather.now", ["city"], city=TEXT, days=WHOLE)
WANTED = [{"weather.now": {"city": ["New York, NY", "NYC"], "days": [3, ""]}}]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("[f(a=1), g.h(b=[2, 'x'])]", [{"f": {"a": 1}}, {"g.h": {"b": [2, "x"]}}]),
        ("```\nf(a={'k': (1, 2)}, b=-2.5)\n```", [{"f": {"a": {"k": (1, 2)}, "b": -2.5}}]),
        (
            "f(a=x, b=y[0], c=g(1), d=h(k=1), e=2*3, g=...)",
            [{"f": {"a": "x", "b": "y[0]", "c": "g(1)", "d": {"h": {"k": 1}}, "e": 6, "g": "..."}}],
        ),
        ("f(1, a=True)", [{"f": {"a": True}}]),
        ([{"f": '{"a": [1]}'}, {"g": "{}"}], [{"f": {"a": [1]}}, {"g": {}}]),
        ([], []),
    ],
)
def test_calls_are_read_from_text_and_lists(text, calls):
    assert calls_of(text) == calls


@pytest.mark.parametrize(
    "reply",
    [
        *("", "I cannot do that.", "3", "[f(a=1), 2]", "f(a=1", "f(a=x.y)", "f(a={1})", "f(a=-x)", "f(a=9**9**9)"),
        *("f(a=open('/etc/passwd').read() + '')", "f(a=" + "(" * 500 + ")", [{"f": {"a": 1}}], ["f"], [{}], None, 3),
    ],
)
def test_replies_without_calls(reply):
    with pytest.raises(NoCallsError):
        calls_of(reply)


@pytest.mark.parametrize(
    ("arguments", "right"),
    [
        ({"city": "new york NY", "days": 3}, True),
        ({"city": "N.Y.C"}, True),
        ({"city": "NYC", "days": 3.0}, False),
        ({"city": "NYC", "days": True}, False),
        ({"city": "NYC", "days": 4}, False),
        ({"city": "Boston"}, False),
        ({"days": 3}, False),
        ({"city": "NYC", "unit": "C"}, False),
    ],
)
def test_arguments_have_types_and_values(arguments, right):
    assert right_calls([WEATHER], [{"weather_now": arguments}], WANTED, "simple") is right
    assert not right_calls([WEATHER], [{"weather.now": arguments}], WANTED, "simple")


@pytest.mark.parametrize(
    ("parameter", "answers", "rights", "wrongs"),
    [
        (NUMBER, [2.0], [2, 2.0], ["2", True, 3]),
        (WHOLE, ["x"], ["x"], [1, "X"]),  # a variable is compared as it is written
        ({"type": "boolean"}, [True], [True], [1, "true", False]),
        ({"type": "array", "items": TEXT}, [["A b", "c"]], [["ab", "C"]], [["c", "ab"], ("ab", "c"), ["ab", 1], "ab"]),
        ({"type": "tuple", "items": NUMBER}, [[1.0, 2.0]], [(1.0, 2.0)], [(1, 2), [1.0]]),
        (
            {"type": "dict"},
            [{"k": ["A.", "b"], "l": [1, ""]}],
            [{"k": "a"}, {"k": "B", "l": 1}],
            [{}, {"k": "c"}, {"k": "a", "m": 1}, "k"],
        ),
        (
            {"type": "array", "items": {"type": "dict"}},
            [[{"k": [1]}, {"k": [2]}]],
            [[{"k": 1}, {"k": 2}]],
            [[{"k": 2}, {"k": 1}], [{"k": 1}], [1, 2]],
        ),
    ],
)
def test_types_of_arguments(parameter, answers, rights, wrongs):
    described = function("f", a=parameter)
    given = {value: [{"f": {"a": each}} for each in values] for value, values in ((True, rights), (False, wrongs))}
    for right, calls in given.items():
        for call in calls:
            assert right_calls([described], [call], [{"f": {"a": answers}}], "simple") is right, call


def test_categories_say_how_many_calls_there_are():
    functions = [function("f", a=WHOLE), function("g", a=WHOLE)]
    answers = [{"g": {"a": [1]}}, {"f": {"a": [1]}}, {"g": {"a": [2]}}]
    calls = [{"f": {"a": 1}}, {"g": {"a": 2}}, {"g": {"a": 1}}]
    assert right_calls(functions, calls, answers, "live_parallel_multiple")
    assert not right_calls(functions, [calls[0], calls[1], calls[1]], answers, "parallel")
    assert not right_calls(functions, calls[1:], answers, "parallel")
    assert right_calls(functions, calls[2:], answers[:1], "live_multiple")
    assert not right_calls(functions, calls[2:], answers[:1], "simple")  # the first function is the one
    assert not right_calls(functions, calls, answers[:1], "multiple")


@pytest.mark.parametrize(
    ("text", "kind", "inner", "value"),
    [
        ("12", "integer", "", 12),
        ("12", "long", "", "12"),
        ("12L", "long", "", 12),
        ("1.5f", "float", "", 1.5),
        ("1.5", "float", "", "1.5"),
        ("2e3", "double", "", 2000.0),
        ("true", "boolean", "", True),
        ("'c'", "char", "", "'c'"),
        ("new int[]{1, 2}", "Array", "integer", [1, 2]),
        ("{1, 2}", "Array", "integer", "{1, 2}"),
        ('new ArrayList<>(Arrays.asList("a", "b"))', "ArrayList", "String", ["a", "b"]),
        ("new ArrayList<Long>() {{ add(1L); add(2); }}", "ArrayList", "long", [1, "2"]),
        ("new ArrayList<>()", "ArrayList", "long", []),
        ('new HashMap<String, Object>() {{ put("k", "v"); put("n", 3L); }}', "HashMap", "", {"k": "v", "n": 3}),
        ("new HashMap<>()", "HashMap", "", {}),
    ],
)
def test_values_of_java(text, kind, inner, value):
    assert java_value(text, kind, inner) == value


@pytest.mark.parametrize(
    ("text", "kind", "inner", "value"),
    [
        ("'a'", "String", "", "a"),
        ("-3", "integer", "", -3),
        ("3.5", "float", "", 3.5),
        ("5n", "Bigint", "", 5),
        ("false", "Boolean", "", False),
        ("[1, 'two', true, x]", "array", "", [1, "two", True, "x"]),
        ("new Array(1n, 2n)", "array", "Bigint", [1, 2]),
        ("[ [1, 2], [3, 'x'] ]", "array", "array", [[1, 2], [3, "x"]]),
        ("[[1], [2]", "array", "", ["[1"]),  # the last bracket is missing: the first row is taken for all
        ("{'k': 1, l: 'a, b', m: [1, 2]}", "dict", "", {"k": 1, "l": "a, b", "m": [1, 2]}),
        ("{}", "dict", "", {}),
        ("nothing", "dict", "", "nothing"),
    ],
)
def test_values_of_javascript(text, kind, inner, value):
    assert javascript_value(text, kind, inner) == value


def test_an_array_of_arrays_that_does_not_end_is_read_at_once():
    assert javascript_value("[" + "[1]," * 3000, "array") == ["[1"]


def test_arguments_of_other_languages_are_text():
    functions = [function("f", a={"type": "long"}, b={"type": "ArrayList", "items": {"type": "String"}})]
    wanted = [{"f": {"a": [5], "b": [["x"], ""]}}]
    assert right_calls(functions, [{"f": {"a": "5L"}}], wanted, "java")
    assert right_calls(functions, [{"f": {"a": "5L", "b": 'new ArrayList<>(Arrays.asList("X"))'}}], wanted, "java")
    assert not right_calls(functions, [{"f": {"a": 5}}], wanted, "java")
    assert right_calls([function("f", a={"type": "Bigint"})], [{"f": {"a": "5n"}}], wanted, "javascript")


def rows(*ids):
    return [{"id": each, "function": json.dumps([WEATHER])} for each in ids]


def test_figures_of_one_turn():
    predictions = ["[weather_now(city='NYC')]", "weather_now(city='LA')", "No.", [{"weather_now": '{"city": "NYC"}'}]]
    found = figures(SINGLE, predictions, [json.dumps(WANTED)] * 4, rows=rows(*"abcd"), framework="ais_bench")
    assert found == {"accuracy": 0.5, "correct_count": 2, "total_count": 4}


def test_figures_of_relevance():
    predictions = ["f(a=1)", "f(a=1)", "There is none.", "There is none.", [], "[]", "f(a=1)"]
    ids = ["live_relevance_0", *["irrelevance_1"] * 2, *["live_relevance_2"] * 2, *["live_irrelevance_3"] * 2]
    found = figures(RELEVANCE, predictions, ["[]"] * 7, rows=rows(*ids), framework="ais_bench")
    assert found == {"accuracy": 3 / 7, "correct_count": 3, "total_count": 7}


@pytest.mark.parametrize(
    ("row", "gold", "said"),
    [
        ({}, WANTED, "no column 'function'"),
        ({"function": "f("}, WANTED, "'function' is not JSON"),
        ({"function": "[]"}, WANTED, "are lists"),
        ({"function": [{"name": "weather.now"}]}, WANTED, "BFCL's form"),
        ({"function": [function("weather.now", city={"type": "decimal"})]}, WANTED, "the type 'decimal'"),
    ],
)
def test_rows_that_cannot_be_scored_are_errors(row, gold, said):
    made, test = scored_entry(SINGLE, [json.dumps(gold)], [row], "ais_bench")
    with pytest.raises(DataError, match=f"sample 0: .*{said}"):
        run_entry(made, test, lambda *_: "weather_now(city='NYC')")


def test_a_category_is_needed():
    made, test = scored_entry({"type": "BFCLRelevanceEvaluator"}, ["[]"], [{}], "ais_bench")
    with pytest.raises(DataError, match="needs a category"):
        run_entry(made, test, lambda *_: "")
