"""Figures: intervals on their scale, averages over subsets, the spread over draws."""

import pytest

from kshot.core.errors import DataError
from kshot.core.metric import Measure
from kshot.core.records import Absent, Prompt, Sample
from kshot.core.task import Task, TaskResult
from kshot.metrics import F1, Accuracy, Bleu, Em, Metric, Perplexity
from kshot.metrics.aggregates import SHARE
from kshot.prompts import compile_string
from kshot.runs.results import compared, result_rows
from kshot.statistics import interval, wilson
from kshot.statistics.averages import average_rows
from kshot.studies.example_draws import spread_rows
from tests.measures import measure, names


class Points(Metric):
    name = "Points"


def result(values, metric=None, name="quiz", **labels):
    task = Task(name, (), lambda s, _: Prompt(""), lambda s, p: iter(()), (metric or Accuracy(),), labels=labels)
    made = TaskResult(task, "model")
    for position, value in enumerate(values):
        made.add(position, Sample(str(position), {}), {measure(made.task.metrics[0]).name: value})
    return made


class Detailed(Metric):
    measures = (Measure("Score"), Measure("error: none", detail=True))


def test_rows_say_what_they_are():
    task = Task(
        "quiz",
        (),
        lambda s, _: Prompt(""),
        lambda s, p: iter(()),
        (Detailed(), Perplexity()),
        metric_labels={"error: none": {"error": "none"}},
    )
    made = TaskResult(task, "model")
    absent = dict.fromkeys(names(Perplexity())[1:], Absent("not known"))
    made.add(0, Sample("0", {}, category="a"), {"Score": 1.0, "error: none": 0.0, "PPL": (1.0, 1.0), **absent})
    rows = list(result_rows(made))
    assert [row.get("category") for row in rows] == ["a"] * 3 + [None] * 3
    assert [row["task"] for row in rows] == ["quiz[a]"] * 3 + ["quiz"] * 3
    score, error, ppl = rows[3:]
    assert (score["higher_is_better"], ppl["higher_is_better"]) == (True, False)
    assert (error["detail"], error["error"]) == (True, "none")
    assert not {"detail", "error"} & {*score, *ppl}


def test_counts_stand_on_the_rows_of_their_categories_too():
    made = result([1.0, 0.0, 0.0])
    made.categories = ["a", "b", None]
    for category in ("b", "b", None):
        made.count("cut_prompts", category)
    made.count("ties", "a", "Accuracy")
    made.count("ties", "a", "other metric")
    rows = {row.get("category"): row for row in result_rows(made)}
    names = ("cut_prompts", "ties", "unanswered")
    found = {category: [row.get(name) for name in names] for category, row in rows.items()}
    assert found == {"a": [None, 1, None], "b": [2, None, None], None: [3, 1, None]}


def test_the_better_system_is_ahead_also_where_lower_is_better():
    low, high = ([(x + rest, 1.0) for x in (1.0, 1.1, 1.2) for _ in range(9)] for rest in (0.0, 1.0))
    one, other = result(low, Perplexity()), result(high, Perplexity())
    other.model = "other"
    for pair in ([one, other], [other, one]):
        (row,) = compared(pair)
        assert (row["ahead"], row["higher_is_better"]) == ("model", False)
        assert (row["difference"] > 0) == (row["a"] == "model")
    (row,) = compared([result([100.0] * 9), result([0.0] * 9)])
    assert (row["a"], row["a_model"], row["b_model"], row["higher_is_better"]) == ("model", "model", "model", True)


def test_systems_with_other_chunks_are_named_by_fields():
    results = [result([100.0] * 9, benchmark="book", chunks=chunks) for chunks in ("lines:1", "lines:1")]
    assert "a_chunks" not in compared(results)[0]
    results.append(result([0.0] * 9, Budgeted(), benchmark="book", chunks="whole"))
    results[0] = result([100.0] * 9, Budgeted(), benchmark="book", chunks="lines:1")
    (row,) = [row for row in compared(results) if row["b_chunks"] == "whole" and row["metric"] == "Budgeted"]
    assert (row["a"], row["b"]) == ("model · lines:1", "model · whole")
    assert (row["a_model"], row["a_chunks"], row["b_model"], row["b_chunks"]) == ("model", "lines:1", "model", "whole")


class Budgeted(Metric):
    measures = (Measure("Budgeted", token_budget=True),)


def test_no_interval_leaves_the_scale():
    (row,) = result_rows(result([100.0, 90.0, 100.0, 20.0], Em()))
    assert 90 < row["ci95"][1] <= 100
    (row,) = result_rows(result([3.0, 250.0, 1.0], Points()))  # a scale kshot knows nothing of
    assert row["ci95"][0] < 0
    (macro,) = average_rows("quiz", {"a": result([0.0, 0.0], Points()), "b": result([0.0, 0.0], Points())}, None)
    assert macro["ci95"][0] == 0.0
    assert macro["value"] == 0.0


def test_rounding_takes_no_figure_past_its_scale():
    """sacrebleu gives a perfect sentence 100.00000000000004."""
    text = "one two three four five six seven eight nine ten"
    perfect = Bleu().rate(text, text)["Sentence_BLEU"]
    assert perfect > 100
    (row, _) = result_rows(result([perfect] * 3 + [40.0] * 3, Bleu()))
    assert row["ci95"] == pytest.approx(interval([100.0] * 3 + [40.0] * 3, bounds=(0.0, 100.0)))
    (row, _) = result_rows(result([perfect] * 9, Bleu()))
    assert (row["value"], row["ci95"][1], row["ci95"][0] < 70) == (100.0, 100.0, True)
    (row,) = average_rows("quiz", {name: result([perfect] * 9, Bleu()) for name in "ab"}, None)
    assert (row["value"], row["ci95"][1]) == (100.0, 100.0)


@pytest.mark.parametrize(("metric", "right"), [(Accuracy(), True), (Em(), True), (F1(), False)])
def test_right_or_wrong_answers_have_wilsons_interval_and_scores_have_not(metric, right):
    (row,) = result_rows(result([100.0] * 18 + [0.0] * 2, metric))
    assert (row["ci95"] == pytest.approx(wilson(18, 20))) == right


def test_macro_intervals_of_small_subsets_cover():
    """18 subsets of 2: the plain formula covers 82 %, ours about 97 %."""
    import numpy as np

    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(300):
        draws = rng.random((18, 2)) < 0.25
        results = {str(i): result([100.0 * x for x in row]) for i, row in enumerate(draws)}
        (row,) = average_rows("quiz", results, None)
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
    assert row["higher_is_better"] is True


@pytest.mark.parametrize(
    ("metric", "marks"), [(Perplexity(), {"higher_is_better": False}), (Accuracy(), {"higher_is_better": True})]
)
def test_the_spread_says_which_direction_is_better(metric, marks):
    value = (2.0, 1.0) if isinstance(metric, Perplexity) else 100.0
    results = [result([value] * 3, metric, name=f"quiz@{k}", of="quiz", example_seed=k) for k in (1, 2)]
    (row,) = spread_rows(results)
    assert {name: row[name] for name in ("detail", "higher_is_better") if name in row} == marks


def test_the_spread_of_a_detail_is_a_detail():
    task = Task(
        "quiz@1",
        (),
        lambda s, _: Prompt(""),
        lambda s, p: iter(()),
        (Detailed(),),
        labels={"of": "quiz", "example_seed": 1},
    )
    made = TaskResult(task, "model")
    made.add(0, Sample("0", {}), {"Score": 1.0, "error: none": 0.0})
    score, error = spread_rows([made])
    assert (score["higher_is_better"], "detail" in score) == (True, False)
    assert (error["detail"], "higher_is_better" in error) == (True, False)


@pytest.mark.parametrize("given", [None, "much", float("nan")])
def test_a_metric_that_does_not_add_up_is_named(given):
    class Odd(Metric):
        name = "Odd"

        def reduce(self, name, values):
            return given

    with pytest.raises(DataError, match="dataset quiz: Odd"):
        list(result_rows(result([1.0, 2.0], Odd())))


class Failing(Metric):
    name = "Failing"

    def reduce(self, name, values):
        raise ZeroDivisionError


def test_a_metric_that_fails_in_a_comparison_or_an_average_is_named():
    one, other = result([1.0, 2.0], Failing()), result([2.0, 1.0], Failing())
    with pytest.raises(DataError, match="dataset quiz: Failing cannot be summed up: ZeroDivisionError"):
        compared([one, other])
    with pytest.raises(DataError, match=r"dataset all\[Macro Average\]: Failing cannot be summed up"):
        list(average_rows("all", {"a": one, "b": other}, None))


def test_templates_that_nest_too_deeply_are_refused():
    with pytest.raises(DataError, match="the template cannot be read"):
        compile_string("{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}", where="quiz")


class OfGroups(Metric):
    """Shares of two groups of samples; a group whose samples all failed has none."""

    measures = (Measure("first", SHARE), Measure("second", SHARE))


def of_groups(*scores, model="model"):
    found = TaskResult(Task("quiz", (), lambda s, _: Prompt(""), lambda s, p: iter(()), (OfGroups(),)), model)
    for position, (first, second) in enumerate(scores):
        found.add(position, Sample(str(position), {}), {"first": first, "second": second})
    return found


def test_a_figure_that_no_answered_sample_has_has_no_row():
    rows = list(result_rows(of_groups(((1.0, 1.0), (0.0, 0.0)), ((0.0, 1.0), (0.0, 0.0)))))
    assert [(row["metric"], row["value"]) for row in rows] == [("first", 50.0)]
    assert rows[0]["ci95"][0] <= 50 <= rows[0]["ci95"][1]


def test_a_task_without_any_figure_has_one_row_without_a_value():
    rows = list(result_rows(of_groups(((0.0, 0.0), (0.0, 0.0)), ((0.0, 0.0), (0.0, 0.0)))))
    assert [(row["metric"], row["value"], row["n"], row["ci95"]) for row in rows] == [("first", None, 2, None)]


def test_systems_are_not_compared_by_a_figure_that_one_of_them_lacks():
    full = [((float(i % 2), 1.0), (1.0, 1.0)) for i in range(4)]
    empty = [((1.0, 1.0), (0.0, 0.0)) for _ in range(4)]
    rows = compared([of_groups(*full, model="a"), of_groups(*empty, model="b")])
    assert [(row["metric"], row["difference"]) for row in rows] == [("first", 50.0)]


def test_resamples_without_a_figure_are_left_out_of_intervals():
    scores = [((1.0, 1.0), (1.0, 1.0)), *([((1.0, 1.0), (0.0, 0.0))] * 3)]
    (_, second) = result_rows(of_groups(*scores))
    assert second["value"] == 100.0
    assert second["ci95"] == [100.0, 100.0]
