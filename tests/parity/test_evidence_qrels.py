"""Graded ids against ir_measures on the whole run and qrels, and nDCG against its formula."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from kshot.backends.search.recorded import RecordedSearchEngine
from kshot.core.corpus import Corpus, Passage
from kshot.core.records import Graded, Sample, Search
from kshot.index.store import Store
from kshot.metrics.ranking import Relevance
from tests.measures import measure

ir = pytest.importorskip("ir_measures")
pytest.importorskip("pytrec_eval")

IDS = [f"d{i}" for i in range(12)] + ["0", "-1", "é"]
NAMES = ["nDCG@1", "nDCG@5", "nDCG", "AP", "AP@3", "P@1", "P@5", "R@2", "R@100", "RR", "RR@3"]
GRADES = st.dictionaries(st.sampled_from(IDS), st.integers(-1, 3), min_size=1, max_size=8)
QUESTIONS = st.lists(
    st.tuples(
        GRADES.filter(lambda grades: max(grades.values()) >= 0),  # pytrec-eval never ends where all are negative
        st.lists(st.sampled_from(IDS), unique=True, max_size=12),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=60)
@given(QUESTIONS)
def test_the_mean_over_a_whole_run(questions):
    metric = Relevance(NAMES)
    scores = [metric.score(Sample(str(n), {}, Graded(gold)), found) for n, (gold, found) in enumerate(questions)]
    qrels = {str(n): gold for n, (gold, _) in enumerate(questions)}
    run = {
        str(n): {each: 100.0 - rank for rank, each in enumerate(found)}
        for n, (_, found) in enumerate(questions)
        if found  # a question that the run does not have counts as 0
    }
    measures = {name: ir.parse_measure(name) for name in NAMES}
    theirs = ir.calc_aggregate(list(measures.values()), qrels, run) if run else {}
    for name, known in measures.items():
        ours = measure(metric, name).aggregate([values[name] for values in scores])
        assert ours == pytest.approx(theirs.get(known, 0.0), abs=1e-9)


TIED = ["nDCG@10", "AP", "P@1", "P@5", "R@1", "RR"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    GRADES.filter(lambda grades: max(grades.values()) > 0),
    st.dictionaries(st.sampled_from(IDS), st.sampled_from([3.0, 2.0, 1.0]), min_size=2, max_size=12),
)
def test_equal_scores_of_a_recorded_run(tmp_path, gold, scores):
    """trec_eval's order holds for all measures; ir_measures has MS MARCO's, the other way round, for RR with a cutoff."""
    file = tmp_path / "tied.run"
    file.write_text("".join(f"q Q0 {each} 1 {score} x\n" for each, score in scores.items()))
    corpus = Corpus([Passage(each, "x", {}) for each in IDS], topics=("q",))
    backend = RecordedSearchEngine(file).over(corpus, Store())
    ((_, ranking),) = backend.serve(iter([Search("?", len(IDS), (), "q")]))
    found = [hit.id for hit in ranking.hits]
    ours = Relevance([*TIED, "RR@10"]).rate(found, gold)
    theirs = ir.calc_aggregate([ir.parse_measure(name) for name in TIED], {"q": gold}, {"q": scores})
    assert {name: ours[name] for name in TIED} == pytest.approx({str(m): value for m, value in theirs.items()})
    assert ours["RR@10"] == (ours["RR"] if ours["RR"] >= 0.1 else 0.0)
    lowest_first = sorted(scores, key=lambda each: (-scores[each], each))
    (at_ten,) = ir.calc_aggregate([ir.RR @ 10], {"q": gold}, {"q": scores}).values()
    assert at_ten == pytest.approx(Relevance(["RR@10"]).rate(lowest_first, gold)["RR@10"])


def test_the_example_of_the_docs():
    run, gold = {"z": 1.0, "a": 1.0}, {"a": 1}
    assert Relevance(["RR@10"]).rate(["z", "a"], gold)["RR@10"] == 0.5
    assert list(ir.calc_aggregate([ir.RR, ir.RR @ 10], {"q": gold}, {"q": run}).values()) in ([0.5, 1.0], [1.0, 0.5])
    assert ir.calc_aggregate([ir.RR @ 10], {"q": gold}, {"q": run}) == {ir.RR @ 10: 1.0}


@settings(max_examples=60)
@given(QUESTIONS, st.integers(1, 12))
def test_ndcg_by_its_formula(questions, k):
    for gold, found in questions:
        gains = [max(0, gold.get(each, 0)) for each in found[:k]]
        best = sorted((max(0, grade) for grade in gold.values()), reverse=True)[:k]
        total, ideal = (sum(g / math.log2(i + 2) for i, g in enumerate(each)) for each in (gains, best))
        name = f"nDCG@{k}"
        assert Relevance([name]).rate(found, gold)[name] == pytest.approx(total / ideal if ideal else 0.0)
