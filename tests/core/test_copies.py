"""Copies that other code may change."""

import threading
from collections import OrderedDict

from kshot.core.copies import own_copy
from kshot.core.records import Generate, Generated, Outcome, Sample


def test_nothing_of_a_row_is_shared():
    row = {"prompt": [{"role": "user"}], "scores": {"Right": 1.0}, "seen": ({"a"},), "more": OrderedDict(x=[1])}
    copied = own_copy(row)
    assert copied == row
    assert type(copied["more"]) is OrderedDict
    copied["prompt"][0]["role"] = copied["scores"]["Right"] = 7
    copied["seen"][0].add("b")
    copied["more"]["x"].append(2)
    del copied["more"]
    assert row == {"prompt": [{"role": "user"}], "scores": {"Right": 1.0}, "seen": ({"a"},), "more": {"x": [1]}}


def test_records_are_copied_too():
    outcome = Outcome(Sample("0", {"question": ["q"]}, row={"a": [1]}), ["A"], ((Generate("q"), Generated("A")),))
    copied = own_copy(outcome)
    assert copied == outcome
    copied.item.fields["question"].append("x")
    copied.item.row["a"].clear()
    copied.answer.append("B")
    object.__setattr__(copied.item, "id", "other")
    assert (outcome.item, outcome.answer) == (Sample("0", {"question": ["q"]}, row={"a": [1]}), ["A"])


def test_what_cannot_be_copied_is_the_same():
    lock = threading.Lock()
    assert own_copy({"lock": lock, "kind": Sample}) == {"lock": lock, "kind": Sample}
