"""Figures: intervals on their scale, averages over subsets, the spread over draws."""

import pytest

from kshot.core.errors import DataError
from kshot.core.records import Prompt, Sample
from kshot.core.task import Task, TaskResult
from kshot.metrics import Accuracy, Em, Metric
from kshot.prompts import compile_string
from kshot.runs.results import result_rows
from kshot.statistics.averages import macro_rows
from kshot.studies.example_draws import spread_rows


class Points(Metric):
    name = "Points"


def result(values, metric=None, name="quiz", **labels):
    task = Task(name, (), lambda s, _: Prompt(""), lambda s, p: iter(()), (metric or Accuracy(),), labels=labels)
    made = TaskResult(task, "model")
    for position, value in enumerate(values):
        made.add(position, Sample(str(position), {}), {made.task.metrics[0].names[0]: value})
    return made


def test_no_interval_leaves_the_scale():
    (row,) = result_rows(result([100.0, 90.0, 100.0, 20.0], Em()))
    assert row["ci95"][1] == 100.0
    (row,) = result_rows(result([3.0, 250.0, 1.0], Points()))  # a scale kshot knows nothing of
    assert row["ci95"][0] < 0
    (macro,) = macro_rows("quiz", {"a": result([0.0, 0.0], Points()), "b": result([0.0, 0.0], Points())}, None)
    assert macro["ci95"][0] == 0.0
    assert macro["value"] == 0.0


def test_macro_intervals_of_small_subsets_cover():
    """18 subsets of 2: the plain formula covers 82 %, ours about 97 %."""
    import numpy as np

    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(300):
        draws = rng.random((18, 2)) < 0.25
        results = {str(i): result([100.0 * x for x in row]) for i, row in enumerate(draws)}
        (row,) = macro_rows("quiz", results, None)
        covered += row["ci95"][0] <= 25 <= row["ci95"][1]
    assert covered / 300 > 0.93


def test_spread_over_draws():
    results = [result([100.0] * k + [0.0] * (4 - k), name=f"quiz@{k}", of="quiz", example_seed=k) for k in (1, 2, 3)]
    (row,) = spread_rows(results)
    assert (row["task"], row["value"], row["sd"], row["lowest"], row["highest"]) == (
        "quiz[3 draws of examples]",
        50.0,
        25.0,
        25.0,
        75.0,
    )
    assert row["ci95"][0] < 50 < row["ci95"][1]


@pytest.mark.parametrize("given", [None, "much", float("nan")])
def test_a_metric_that_does_not_add_up_is_named(given):
    class Odd(Metric):
        name = "Odd"

        def reduce(self, name, values):
            return given

    with pytest.raises(DataError, match="dataset quiz: Odd"):
        list(result_rows(result([1.0, 2.0], Odd())))


def test_templates_that_nest_too_deeply_are_refused():
    with pytest.raises(DataError, match="the template cannot be read"):
        compile_string("{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}", where="quiz")
