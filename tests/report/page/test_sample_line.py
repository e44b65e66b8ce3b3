"""A sample as one line: names, verdict, and the beginnings of its texts, safe to be shown."""

import pytest

from kshot.report.page.sample_card import sample_line, short
from kshot.report.sample_look import SampleLook
from kshot.runs.sample_filters import MetricScale

SCALE = MetricScale("Right", 0.0, 100.0)
MEASURED = [{"text": f" {name}", "logprob": -1.0} for name in ("Mars", "Venus")]


def line(row, shots=None, scale=SCALE, **facts):
    usual = {"task": "t", "model": "m", "id": "1", "prompt": "Q?", "response": "r", "scores": {"Right": 100.0}}
    return sample_line(SampleLook({**usual, **row}, scale, facts, shots), 7)


def test_names_verdict_and_score():
    found = line({"category": "c", "answer": "x", "target": ["x", "y"]})
    named = {"n": 7, "task": "t", "model": "m", "id": "1", "category": "c", "verdict": "right", "score": 100.0}
    assert found == named | {"answer": "x", "target": "x or y", "text": "Q?"}


def test_a_sample_that_failed_has_no_score():
    found = line({"failed": "timeout: x", "answer": None, "scores": {"Right": 100.0}})
    assert (found["verdict"], found["score"], found["answer"]) == ("failed", None, "")


@pytest.mark.parametrize(
    ("row", "answer", "target"),
    [
        ({"response": MEASURED, "answer": 1, "target": 0}, "B. Venus", "A. Mars"),
        (
            {"response": MEASURED, "answer": -1, "target": [0, 1], "tied": True},
            "none: several options come first",
            "A. Mars or B. Venus",
        ),
        ({"response": "B", "options": ["Mars", "Venus"], "answer": 1, "target": 1}, "B. Venus", "B. Venus"),
        ({"response": "B", "options": ["Mars", "Venus"], "answer": -1, "target": 1}, "none", "B. Venus"),
        ({"answer": 9, "target": 9}, "9", "9"),
        ({"answer": "two\nlines", "target": "x"}, "two lines", "x"),
        ({"answer": ["a", "b"], "target": {"d1": 2, "d2": 0, "d3": 1}}, "a, b", "d1, d3"),
        (
            {"answer": {"text": "grounded", "passages": ["p"]}, "target": [["one", "uno"], ["two"]]},
            "grounded",
            "one · two",
        ),
        ({"answer": {"nll": 3.14159, "tokens": 3}, "target": None}, "3.14 nats", ""),
    ],
)
def test_answers_and_targets_of_all_kinds(row, answer, target):
    found = line(row)
    assert (found["answer"], found["target"]) == (answer, target)


def test_letters_that_were_measured_stand_before_their_texts():
    letters = [{"text": f" {letter}", "logprob": -1.0} for letter in "AB"]
    assert line({"response": letters, "options": ["Mars", "Venus"], "answer": 0, "target": 1})["answer"] == "A. Mars"


def test_what_asks_is_told_without_examples():
    assert line({"prompt": "1+1=?\nAnswer: 2\n\n2+2=?\nAnswer:"}, shots=1)["text"] == "2+2=? Answer:"
    messages = [{"role": role, "content": role * 2} for role in ("system", "user", "assistant", "user")]
    assert line({"prompt": messages}, shots=1)["text"] == "useruser"


def test_a_document_that_is_measured_is_its_own_text():
    row = {"prompt": "", "response": [{"text": "Once upon", "logprob": -3.0}], "answer": {"nll": 3.0}, "target": None}
    assert line(row)["text"] == "Once upon"
    assert line({"prompt": None, "response": []})["text"] == ""


def test_texts_are_short_and_safe():
    hostile = "\x1b[31m<b>\u202e" + "x" * 5_000_000
    found = line({"answer": hostile, "prompt": hostile, "target": [hostile], "id": "\x1b", "category": "\u202e"})
    for name in ("answer", "text", "target"):
        assert found[name].startswith(r"\x1b[31m<b>\u202exx")
        assert found[name].endswith("…")
        assert len(found[name]) == 200
    assert (found["id"], found["category"]) == (r"\x1b", r"\u202e")


def test_a_text_is_cut_only_where_it_is_too_long():
    assert short("x" * 200) == "x" * 200
    assert short("x" * 201) == "x" * 199 + "…"
    assert short("a" + " " * 5000 + "b") == "a…"
