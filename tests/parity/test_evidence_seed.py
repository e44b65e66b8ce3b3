"""Answer components against the published definition, written out plainly, and against a standard IR library."""

from __future__ import annotations

import pytest
from ftfy import fix_text
from hypothesis import given, settings, strategies as st

from kshot.core.corpus import Corpus, Passage
from kshot.core.records import Evidence, Sample
from kshot.metrics.ranking import AnswerComponents, EvidenceFinder

# Few letters, so that quotes are often found; and pieces that are equal only once they are fixed.
TEXT = st.lists(
    st.sampled_from(["a", "b", "ab", " ", "\n", "'", "’", "â€™", "“", '"', "é", "Ã©", "&amp;", "&", "<", "\r", "\x00", "ﬁ", "fi"]),
    max_size=6,
).map("".join)  # fmt: skip
PARTS = st.lists(st.lists(TEXT, max_size=3).map(tuple), min_size=1, max_size=4).map(tuple)
PASSAGES = st.lists(TEXT, max_size=6)


def holds(quotes, passage):
    return any(fix_text(quote) in fix_text(passage) for quote in quotes)


def published_mrr(parts, passages, cutoff):
    last = 0
    for quotes in parts:
        ranks = [rank for rank, passage in enumerate(passages[:cutoff], 1) if holds(quotes, passage)]
        if not ranks:
            return 0.0
        last = max(last, ranks[0])
    return 1.0 / last


def published_recall(parts, passages, cutoff):
    return sum(any(holds(quotes, passage) for passage in passages[:cutoff]) for quotes in parts) / len(parts)


@given(PARTS, PASSAGES, st.integers(1, 7), st.data())
def test_the_published_functions(parts, passages, cutoff, data):
    corpus = Corpus([Passage(str(i), text) for i, text in enumerate(passages)])
    ids = [passage.id for passage in corpus]
    order = data.draw(st.lists(st.sampled_from(ids), max_size=8)) if ids else []  # also with repeats
    finder, texts = EvidenceFinder(corpus), [corpus[each].text for each in order]
    names = [f"AC_MRR@{cutoff}", f"AC_Recall@{cutoff}"]
    expected = dict(
        zip(names, (published_mrr(parts, texts, cutoff), published_recall(parts, texts, cutoff)), strict=True)
    )
    for _ in range(2):  # the second time from what was judged
        assert AnswerComponents(finder, names).score(Sample("q", {}, Evidence(parts)), tuple(order)) == expected
    assert AnswerComponents(None, names).rate(texts, parts) == expected


@settings(max_examples=50)
@given(PARTS, PASSAGES, st.integers(1, 7))
def test_one_query_per_component(parts, passages, cutoff):
    """MRR is the lowest reciprocal rank of the components, recall their mean success; what has no qrels is put back."""
    ir = pytest.importorskip("ir_measures")
    pytest.importorskip("pytrec_eval")
    qrels = {}
    for place, quotes in enumerate(parts):
        if held := {str(i): 1 for i, passage in enumerate(passages) if holds(quotes, passage)}:
            qrels[str(place)] = held
    run = {query: {str(i): -float(i) for i in range(len(passages))} for query in qrels}
    ranks, hits = dict.fromkeys(map(str, range(len(parts))), 0.0), dict.fromkeys(map(str, range(len(parts))), 0.0)
    if qrels:
        for found in ir.iter_calc([ir.RR @ cutoff, ir.Success @ cutoff], qrels, run):
            (ranks if found.measure.NAME == "RR" else hits)[found.query_id] = found.value
    metric = AnswerComponents(None, [f"AC_MRR@{cutoff}", f"AC_Recall@{cutoff}"])
    mrr, recall = metric.rate(passages, parts).values()
    assert mrr == pytest.approx(min(ranks.values()))
    assert recall == pytest.approx(sum(hits.values()) / len(parts))
