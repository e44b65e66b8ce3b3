"""Measures are values: named by their repr, changed by copy, and read back from their names."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, strategies as st

from kshot.core.errors import UsageError
from kshot.metrics.ranking import (
    AC_MRR,
    AP,
    MAP,
    MRR,
    RR,
    AC_Recall,
    P,
    R,
    checked_measures,
    nDCG,
    parse_measure,
)


def test_their_repr_is_their_name():
    assert repr(AC_MRR @ 10) == "AC_MRR@10"
    assert str(AC_Recall @ "2000t") == "AC_Recall@2000t"
    assert repr(nDCG @ 10) == "nDCG@10"
    assert f"{AP}" == "AP"


@given(st.sampled_from([AC_MRR, AC_Recall, nDCG, AP, P, R, RR]), st.integers(1, 10**6))
def test_a_name_reads_back(measure, cutoff):
    assert parse_measure(repr(measure)) == measure
    assert parse_measure(repr(measure @ cutoff)) == measure @ cutoff
    assert (measure @ cutoff).cutoff == cutoff


def test_a_budget_is_not_a_cutoff():
    measure = parse_measure("AC_Recall@2000t")
    assert (measure.cutoff, measure.budget) == (None, 2000)
    assert ((measure @ 5).cutoff, (measure @ 5).budget) == (5, None)


def test_a_cutoff_makes_a_copy():
    assert (AC_MRR @ 10) @ 5 == AC_MRR @ 5
    assert AC_MRR.cutoff is None
    assert len({AC_MRR @ 10, parse_measure("AC_MRR@10")}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        AC_MRR.cutoff = 3


def test_other_names():
    assert parse_measure("MAP") == MAP == AP
    assert parse_measure("mrr@10") == MRR @ 10 == RR @ 10
    assert parse_measure(" ndcg @ 10 ") == nDCG @ 10


@pytest.mark.parametrize("text", ["AC_MRR@0", "AC_MRR@-1", "AC_MRR@ten", "AC_MRR@", "P@2.5", "nDCG@1 0", "AP@٣"])
def test_a_bad_cutoff_is_refused(text):
    with pytest.raises(UsageError, match="no usable cutoff"):
        parse_measure(text)


@pytest.mark.parametrize("cutoff", [0, -3, True, 2.5, None, "many"])
def test_a_bad_cutoff_value_is_refused(cutoff):
    with pytest.raises(UsageError, match="no usable cutoff"):
        AC_MRR @ cutoff


def test_only_some_take_a_budget():
    for text in ("AC_MRR@2000t", "nDCG@100t"):
        with pytest.raises(UsageError, match="token budget"):
            parse_measure(text)


def test_an_unknown_one_names_the_known():
    with pytest.raises(UsageError, match=r"'ERR@10' is not known.*AC_MRR, AC_Recall, nDCG, AP, MAP, P, R, RR, MRR"):
        parse_measure("ERR@10")


def test_a_metric_takes_measures_of_its_own_kind():
    assert checked_measures(["AC_MRR@10", AC_Recall @ 5], evidence=True) == (AC_MRR @ 10, AC_Recall @ 5)
    for wrong, kind, message in (
        (["nDCG@10"], True, "nDCG@10 needs graded ids"),
        (["AC_MRR@10"], False, "AC_MRR@10 needs quoted evidence"),
        (["P"], False, "P needs a cutoff"),
        (["AP", "MAP"], False, "AP is given twice"),
        ([], False, "no measure"),
    ):
        with pytest.raises(UsageError, match=message):
            checked_measures(wrong, evidence=kind)
