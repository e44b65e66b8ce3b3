"""Rows that a config has asked several times: averages of the runs, G-Pass@k, avg@n, pass@k and cons@k."""

import math
from itertools import combinations

import pytest

from kshot.configs import task_of
from kshot.configs.evaluators.making import evaluator
from kshot.configs.evaluators.repeats import at_least, repeated as repeated_metric
from kshot.configs.scope import Scope
from kshot.core.errors import DataError
from kshot.core.metric import judged
from kshot.core.records import Gold, Sample
from tests.configs.scored import judge_template, run_entry, scored_entry


def repeated(evaluator, replies, golds, n, k, framework="opencompass", rows=None, judge=None):
    """The figures of rows that are asked n times; ``replies`` holds those to each row."""
    made, test = scored_entry(evaluator, golds, rows, framework, n=n, k=k)
    result = run_entry(made, test, lambda number, replica: replies[number][replica], judge)
    return {row["metric"]: row["value"] for row in result.results}


def test_runs_are_averaged():
    replies = [["a", "a", "b", "b"], ["a", "b", "b", "b"]]
    found = repeated({"type": "opencompass.openicl.AccEvaluator"}, replies, ["a", "a"], 4, 1)
    assert found == {"accuracy (4 runs average)": 37.5}


def test_g_pass():
    replies = [["a", "a", "a", "b"], ["b", "b", "b", "b"]]
    found = repeated({"type": "opencompass.openicl.AccEvaluator"}, replies, ["a", "a"], 4, [1, 2, 4])
    assert found["G-Pass@2_1.0"] == pytest.approx(25)  # 3 of 6 pairs of the first row
    assert found["G-Pass@2_0.0"] == found["G-Pass@2_0.5"] == pytest.approx(50)
    assert found["G-Pass@4_0.75"] == pytest.approx(50)
    assert found["G-Pass@4_1.0"] == 0
    assert found["mG-Pass@4"] == pytest.approx(50 * 2 / 4)  # at least 3 of 4, and not 4 of 4
    assert found["mG-Pass@1"] == 0
    rows = [{"subdivision": "easy"}, {"subdivision": "hard"}]
    divided = repeated({"type": "opencompass.openicl.AccEvaluator"}, replies, ["a", "a"], 4, [4], rows=rows)
    assert (divided["easy/G-Pass@4_0.5"], divided["hard/G-Pass@4_0.5"]) == (100, 0)
    assert divided["G-Pass@4_0.5"] == 50


def test_draws_by_counting_all_of_them():
    for right in range(6):
        drawn = list(combinations([1] * right + [0] * (5 - right), 3))
        for least in range(1, 4):
            share = sum(sum(each) >= least for each in drawn) / len(drawn)
            assert at_least(least, 3, right, 5) == pytest.approx(share)


def test_aisbench_counts_otherwise():
    replies = [["a", "a", "a", "b"], ["a", "b", "b", "b"]]
    kind = {"type": "ais_bench.benchmark.openicl.icl_evaluator.AccEvaluator"}
    found = repeated(kind, replies, ["a", "a"], 4, [2, 4], "ais_bench")
    assert found == pytest.approx(
        {
            "accuracy (4 runs average)": 50,
            "avg@4": 50,
            "pass@2": 75,
            "cons@2": 50,
            "pass@4": 100,
            "cons@4": 50,
        }
    )
    assert repeated(kind, replies, ["a", "a"], 4, 1, "ais_bench") == {"accuracy (4 runs average)": 50}


def test_figures_of_a_whole_run_are_averaged_too():
    """BLEU, ROUGE and correlations are computed for each run."""
    replies, golds = [["a", "b"], ["b", "b"], ["a", "a"]], ["a", "b", "a"]
    found = repeated({"type": "MccEvaluator"}, replies, golds, 2, 1)
    plain = evaluator({"type": "MccEvaluator"}, Scope("", "opencompass"))
    runs = [plain([each[run] for each in replies], golds)["matthews_correlation"] for run in range(2)]
    assert runs == [100, 50]
    assert found == {"matthews_correlation (2 runs average)": 75}


def test_a_judge_sees_every_reply():
    given = {
        "type": "opencompass.evaluator.GenericLLMEvaluator",
        "prompt_template": judge_template(),
        "dict_postprocessor": {"type": "generic_llmjudge_postprocess"},
    }
    found = repeated(given, [["a", "b"], ["c", "d"]], ["g", "h"], 2, 1, judge=lambda number, _: "AB"[number])
    assert found["accuracy (2 runs average)"] == 50
    assert found["correct_count (2 runs average)"] == 1


def test_k_that_cannot_be():
    metric = evaluator({"type": "AccEvaluator"}, Scope("", "opencompass"))
    with pytest.raises(DataError, match="k is 5, and each row is asked 4 times"):
        repeated_metric(metric, 4, [5], "opencompass")
    scored = repeated_metric(metric, 2, [2], "opencompass").score(Sample("0", {}, Gold("a")), ("a", "b"))
    assert scored["G-Pass@2_0.5"] == 100
    assert math.isclose(scored["accuracy (2 runs average)"], 50)


def test_counts_of_programs_are_averaged_as_counts():
    programs = [["def f(): return 1"] * 2, ["def f(): return 1", "def f(): return 2"], ["def f(): return 1", "f ="]]
    found = repeated({"type": "opencompass.datasets.MBPPEvaluator"}, programs, ["assert f() == 1"] * 3, 2, 1)
    suffix = " (2 runs average)"
    assert {name.removesuffix(suffix): value for name, value in found.items()} == pytest.approx(
        {"score": 200 / 3, "pass": 2, "timeout": 0, "failed": 0.5, "wrong_answer": 0.5}
    )


def test_intervals_of_counts_are_counts():
    made, test = scored_entry({"type": "opencompass.datasets.MBPPEvaluator"}, ["assert f() == 1"] * 3)
    rows = run_entry(made, test, lambda number, _: f"def f(): return {number}").results
    counts = {row["metric"]: (row["value"], row["ci95"]) for row in rows if row["metric"] != "score"}
    assert {name: value for name, (value, _) in counts.items()} == {
        "pass": 1, "timeout": 0, "failed": 0, "wrong_answer": 2,
    }  # fmt: skip
    assert all(0 <= low <= value <= high <= 3 for value, (low, high) in counts.values())


@pytest.mark.parametrize("asked", [{"n": 2}, {"num_repeats": 2}])
def test_a_run_knows_that_repeats_ask_a_judge(asked):
    kind = {
        "type": "opencompass.evaluator.GenericLLMEvaluator",
        "prompt_template": judge_template(),
        "dict_postprocessor": {"type": "opencompass.datasets.generic_llmjudge_postprocess"},
    }
    made, rows = scored_entry(kind, ["a"], **asked)
    (metric,) = task_of(made, {"test": rows}).metrics
    assert judged([metric])
    assert len(metric.judge_requests(Sample("0", rows[0], Gold("a")))) == 1
    made, rows = scored_entry({"type": "opencompass.openicl.AccEvaluator"}, ["a"], **asked)
    assert not judged(task_of(made, {"test": rows}).metrics)
