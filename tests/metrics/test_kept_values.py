import gc

import pytest

from kshot.metrics import kept_values
from kshot.metrics.kept_values import keep, kept_value


def test_equal_values_have_one_number():
    first, again, other = keep(("a", [1])), keep(("a", [1])), keep(("a", [2]))
    assert first.number == again.number != other.number
    assert kept_value(float(first.number)) == ("a", [1])


def test_a_value_is_gone_with_the_last_who_holds_it():
    number = keep(("gone", object)).number
    gc.collect()
    with pytest.raises(KeyError):
        kept_value(number)


def test_values_whose_numbers_meet_stay_apart(monkeypatch):
    monkeypatch.setattr(kept_values, "_MAX_NUMBERS", 1 << 2)
    held = [keep(("meet", index)) for index in range(4)]
    assert len({each.number for each in held}) == 4
    assert [kept_value(each.number) for each in held] == [("meet", index) for index in range(4)]
