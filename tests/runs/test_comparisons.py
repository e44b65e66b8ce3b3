"""Comparisons of a run: who is ahead, and for how many comparisons p is corrected."""

import numpy as np
import pytest

from kshot.core.records import Prompt, Sample
from kshot.core.task import Task, TaskResult
from kshot.metrics import Accuracy, Perplexity
from kshot.runs.results import compared, corrected_gaps, falls
from kshot.statistics import holm, sign_test
from kshot.statistics.averages import average_rows
from tests.measures import measure


def result(values, model, metric=None, name="quiz", kind="plain", **labels):
    metrics = (metric or Accuracy(),)
    task = Task(name, (), lambda s, _: Prompt(""), lambda s, p: iter(()), metrics, labels=labels, kind=kind)
    made = TaskResult(task, model)
    for position, value in enumerate(values):
        made.add(position, Sample(str(position), {}), {measure(made.task.metrics[0]).name: value})
    return made


def shares(right, n=40):
    return [100.0] * right + [0.0] * (n - right)


def test_the_second_minus_the_first_and_what_the_second_wins_where_lower_is_better():
    low, high = ([(x + rest, 1.0) for x in (1.0, 1.1, 1.2) for _ in range(9)] for rest in (0.0, 1.0))
    one, other = result(low, "low", Perplexity()), result(high, "high", Perplexity())
    (row,) = compared([one, other])
    assert (row["ahead"], row["won"], row["lost"], row["difference"] > 0) == ("low", 0, 27, True)
    (row,) = compared([other, one])
    assert (row["ahead"], row["won"], row["lost"], row["difference"] < 0) == ("low", 27, 0, True)
    assert row["p"] == row["p_corrected"] < 0.05


def test_all_comparisons_of_a_run_by_one_measure_are_one_family():
    systems = [result(shares(right), f"m{right}") for right in (0, 7, 20)]
    rows = compared(systems)
    assert [row["family"] for row in rows] == [3, 3, 3]
    assert [row["p"] for row in rows] == pytest.approx([sign_test(7, 0), sign_test(20, 0), sign_test(13, 0)])
    assert [row["p_corrected"] for row in rows] == pytest.approx(holm([row["p"] for row in rows]))
    assert [row["ahead"] for row in rows] == ["m7", "m20", "m20"]
    assert all((row["ahead"] is not None) == (row["p_corrected"] < 0.05) for row in rows)
    subsets = [
        result(shares(right), model, name=f"quiz[{i}]") for i in range(9) for model, right in (("a", 0), ("b", 7))
    ]
    assert {(row["family"], row["ahead"]) for row in compared(subsets)} == {(9, None)}


def test_other_measures_and_kinds_of_tasks_are_other_families():
    plain = [result(shares(6), model) for model in "ab"]
    looked_up = [result(shares(6), model, name="lookup:UR:10", kind="lookup") for model in "ab"]
    perplexities = [result([(1.0, 1.0)] * 9, model, Perplexity()) for model in "cd"]
    assert [row["family"] for row in compared([*plain, *looked_up])] == [1, 1]
    assert [row["family"] for row in compared([*plain, *perplexities]) if row["metric"] == "PPL"] == [1]


def test_models_with_other_tokenizers_are_not_compared_per_token():
    one = result([(2.0, 4.0)] * 9, "coarse", Perplexity())
    other = [(2.0, 4.0)] * 8 + [(2.0, 5.0)]
    assert [row["metric"] for row in compared([one, result([(1.0, 4.0)] * 9, "same", Perplexity())])] == ["PPL"]
    assert compared([one, result(other, "fine", Perplexity())]) == []


def test_neither_the_order_of_systems_nor_that_of_samples_changes_a_verdict():
    rng = np.random.default_rng(3)
    values = {name: list(100 * rng.choice([0.0, 0.1, 0.5, 1.0], 60, p=p)) for name, p in (
        ("a", [0.4, 0.2, 0.2, 0.2]), ("b", [0.1, 0.2, 0.3, 0.4]), ("c", [0.4, 0.2, 0.2, 0.2]),
    )}  # fmt: skip

    def found(names, order):
        rows = compared([result([values[name][i] for i in order], name) for name in names])
        return {frozenset((row["a"], row["b"])): (row["p"], row["p_corrected"], row["ahead"]) for row in rows}

    first = found("abc", range(60))
    assert found("cba", range(60)) == first
    assert found("bca", list(rng.permutation(60))) == first
    assert {row[2] for row in first.values()} == {"b", None}


# ---- averages over subsets ----


def averaged(by_model, *, average="macro", metric=None):
    """Compare models on subsets: ``by_model`` has the values of each subset."""
    results, rows = [], []
    for model, subsets in by_model.items():
        own = {name: result(values, model, metric, name=f"quiz[{name}]") for name, values in subsets.items()}
        results += own.values()
        rows += average_rows("quiz", own, {"both": list(own)}, average=average)
    return [row for row in compared(results, rows) if "average" in row], rows


def test_small_leads_on_every_subset_add_up():
    """5 wins to 0 on each of two subsets are no verdict; together they are 10 to 0."""
    (row,), _ = averaged({"y": {"a": shares(0), "b": shares(0)}, "x": {"a": shares(5), "b": shares(5)}})
    assert (row["task"], row["average"]) == ("quiz[Macro Average]", "macro")
    assert row["difference"] == pytest.approx(12.5)
    assert (row["won"], row["lost"], row["n"], row["family"]) == (10, 0, 80, 3)
    assert row["p"] == pytest.approx(sign_test(10, 0))
    assert row["ahead"] == "x"


@pytest.mark.parametrize("average", ["macro", "weighted"])
def test_a_sample_weighs_as_in_the_average(average):
    values = {"x": {"a": shares(6, 10), "b": shares(40, 90)}, "y": {"a": shares(0, 10), "b": shares(44, 90)}}
    (row,), rows = averaged(values, average=average)
    one, other = (r["value"] for r in rows if r["task"] == f"quiz[{average.title()} Average]")
    assert row["difference"] == pytest.approx(other - one)
    assert row["ci95"][0] < row["difference"] < row["ci95"][1]
    assert (row["ci95"][1] < 0) == (row["p"] < 0.05) == (average == "macro")
    (turned,), _ = averaged({"y": values["y"], "x": values["x"]}, average=average)
    assert (turned["p"], turned["ci95"]) == (row["p"], [-row["ci95"][1], -row["ci95"][0]])


def test_what_is_not_averaged_alike_is_not_compared():
    nothing_shared = averaged({"x": {"a": shares(5), "b": shares(5)}, "y": {"a": shares(5), "c": shares(5)}})[0]
    perplexities = {name: {"a": [(1.0, 1.0)] * 9, "b": [(2.0, 1.0)] * 9} for name in "xy"}
    assert nothing_shared == averaged(perplexities, metric=Perplexity())[0] == []


# ---- lookup ----


def gap(p, value=20.0):
    return {"gap": "right - left", "better": "UR", "worse": "UL", "value": value, "p": p}


def test_gaps_are_corrected_for_all_gaps_of_the_run():
    rows = corrected_gaps([gap(0.01), {"metric": "Accuracy"}, gap(0.04, -20.0), gap(0.001, -30.0)])
    assert rows[1] == {"metric": "Accuracy"}
    gaps = [row for row in rows if "gap" in row]
    assert [row["p_corrected"] for row in gaps] == pytest.approx([0.02, 0.04, 0.003])
    assert [row["ahead"] for row in gaps] == ["UR", "UL", "UL"]
    assert {row["family"] for row in gaps} == {3}
    assert [row["ahead"] for row in corrected_gaps([gap(0.03), gap(0.04)])] == [None, None]


def cell(length, right, n=50, task="UL", model="m"):
    labels = {"kind": "lookup", "variant": "bare", "lookup": task, "length": length, "model": model}
    return labels | {"metric": "Accuracy", "value": 100 * right / n, "n": n}


def test_falls_are_corrected_for_all_pairs_of_lengths():
    before, after = cell(10, 50), cell(20, 42)
    assert falls([after, before]) == [(before, after)]
    assert falls([cell(10, 42), cell(20, 50)]) == []  # it rises
    level = [cell(length, 45, task="UR") for length in range(10, 60)]
    assert falls([before, after, *level]) == []
    assert falls([before, cell(20, 42, model="other")]) == []  # not the same line


def test_a_null_run_of_lookup_has_no_finding_in_95_percent_of_cases():
    rng = np.random.default_rng(1)
    found = sum(
        bool(
            falls(
                [cell(length, int(rng.binomial(50, 0.8)), task=str(task)) for task in range(12) for length in range(5)]
            )
        )
        for _ in range(300)
    )
    assert found / 300 < 0.06
