"""The best possible order, against every order there is; and what no order can find."""

from __future__ import annotations

from itertools import combinations, permutations

import pytest
from hypothesis import given, settings, strategies as st

from kshot.core.corpus import Corpus, Passage
from kshot.core.errors import DataError, UsageError
from kshot.core.records import Evidence, Graded, Sample
from kshot.metrics import ceiling as module
from kshot.metrics.ceiling import EvidenceLocation, ceiling, max_cover, unreachable_evidence
from kshot.metrics.ranking import AnswerComponents, EvidenceFinder

QUOTE = st.sampled_from("abcdef")
PARTS = st.lists(st.lists(QUOTE, max_size=2).map(tuple), min_size=1, max_size=4).map(tuple)
PASSAGES = st.lists(st.tuples(st.text("abcdefx", max_size=4), st.integers(1, 4)), max_size=5)


@settings(max_examples=60)
@given(PASSAGES, PARTS, st.integers(1, 4), st.integers(1, 9))
def test_no_order_is_better_and_one_is_as_good(passages, parts, k, budget):
    corpus = Corpus([Passage(str(i), text, tokens=n) for i, (text, n) in enumerate(passages)])
    sample = Sample("q", {}, Evidence(parts))
    for name in (f"AC_MRR@{k}", f"AC_Recall@{k}", f"AC_Recall@{budget}t", "AC_MRR", "AC_Recall"):
        metric = AnswerComponents(corpus, [name])
        orders = permutations([passage.id for passage in corpus])
        assert ceiling(corpus, [sample], name) == (max(metric.score(sample, order)[name] for order in orders),)


@given(st.lists(st.tuples(st.integers(1, 1023), st.integers(0, 5)), max_size=7), st.integers(0, 12))
def test_the_cover_is_the_best_of_all_subsets(sets, budget):
    best = 0
    for size in range(len(sets) + 1):
        for chosen in combinations(sets, size):
            if sum(cost for _, cost in chosen) <= budget:
                union = 0
                for bits, _ in chosen:
                    union |= bits
                best = max(best, union.bit_count())
    assert max_cover(sets, budget) == best


def test_many_components_in_passages_of_their_own_are_quick():
    assert max_cover([(1 << i, 1) for i in range(60)], 10) == 10
    assert max_cover([(0b111 << i, 1) for i in range(60)], 10) == 30


def test_a_search_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(module, "MAX_STEPS", 3)
    corpus = Corpus([Passage(str(i), text) for i, text in enumerate(("ab", "bc", "cd", "de", "ea", "ac"))])
    sample = Sample("q7", {}, Evidence(tuple((letter,) for letter in "abcde")))
    with pytest.raises(DataError, match="question q7: its best order is too hard to find"):
        ceiling(corpus, [sample], "AC_MRR@10")


CORPUS = Corpus(
    [
        Passage("1a", "one two", {"chapter": "1"}),
        Passage("1b", "three four", {"chapter": "1"}),
        Passage("2a", "five", {"chapter": "2"}),
    ]
)
SAMPLE = Sample("q1", {"chapter": "1"}, Evidence((("one",), ("two three", "nine"), (), ("four", "eight"), ("five",))))


def in_chapter(sample):
    return (("chapter", sample.fields["chapter"]),)


def test_only_allowed_passages_count():
    assert ceiling(CORPUS, [SAMPLE], "AC_Recall@10") == (3 / 5,)
    assert ceiling(EvidenceFinder(CORPUS), [SAMPLE], "AC_Recall@10", within=in_chapter) == (2 / 5,)
    assert ceiling(CORPUS, [SAMPLE], "AC_Recall@1", within=in_chapter) == (1 / 5,)


def test_what_is_lost_and_why():
    found = unreachable_evidence(CORPUS, [SAMPLE], lambda sample: ["one two three four"], within=in_chapter)
    assert found.empty == (EvidenceLocation("q1", 2),)
    assert found.components == (EvidenceLocation("q1", 1), EvidenceLocation("q1", 4))
    assert found.straddling == (EvidenceLocation("q1", 1, "two three"),)
    assert found.absent == (
        EvidenceLocation("q1", 1, "nine"),
        EvidenceLocation("q1", 3, "eight"),
        EvidenceLocation("q1", 4, "five"),
    )


def test_what_is_refused():
    with pytest.raises(UsageError, match="needs graded ids"):
        ceiling(CORPUS, [SAMPLE], "nDCG@10")
    with pytest.raises(UsageError, match="needs a corpus"):
        ceiling(EvidenceFinder(), [SAMPLE], "AC_MRR@10")
    with pytest.raises(DataError, match="question q: the question has no evidence"):
        ceiling(CORPUS, [Sample("q", {}, Graded({}))], "AC_MRR@10")
    with pytest.raises(DataError, match="question q: the question has no answer components"):
        unreachable_evidence(CORPUS, [Sample("q", {}, Evidence(()))], lambda _: [])
    with pytest.raises(DataError, match="'1a' does not say how many tokens"):
        ceiling(CORPUS, [SAMPLE], "AC_Recall@100t")
