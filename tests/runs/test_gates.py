"""Gates: which figures a threshold is for, what passes, and what is an error rather than a pass."""

import json
import math
from types import SimpleNamespace

import pytest

from kshot.core.errors import RunError, UsageError
from kshot.core.watcher import PlannedTask
from kshot.runs import gates
from kshot.runs.gates import (
    GateFailed,
    Gates,
    Sides,
    check_worse,
)
from kshot.runs.record import RunRecord, first_failures


def figure(task="quiz", value=50.0, metric="Accuracy", model="m", *, better=True, **more):
    row = {"task": task, "model": model, "metric": metric, "higher_is_better": better, "value": value}
    return {**row, "n": 8, "failed": 0, "ci95": None, **more}


def passed(rows, text):
    (wanted,) = gates.thresholds(text)
    return {(row["task"], row["model"]): row["passed"] for row in gates.check_under(rows, wanted)}


# ---- what a user writes ----


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("Accuracy=60", "Accuracy", 60.0),
        (" Accuracy = -1.5e1 ", "Accuracy", -15.0),
        ("arc:ARC-Easy:Accuracy=.5", "arc:ARC-Easy:Accuracy", 0.5),
        ("arc,num_shots=2:Accuracy=60", "arc,num_shots=2:Accuracy", 60.0),
        ("nDCG@10=0.4", "nDCG@10", 0.4),
    ],
)
def test_a_threshold_is_a_name_and_a_number(text, name, value):
    assert gates.thresholds(text) == [gates.Threshold(name, value)]


@pytest.mark.parametrize(
    "text",
    [
        *("Accuracy", "=60", "Accuracy=", "Accuracy=nan", "Accuracy=inf", "Accuracy=-inf", "Accuracy=1_0", ""),
        *("Accuracy=60%", "Accuracy=60,5", "Accuracy=1e999", "Accuracy>60", "Accuracy=٦٠", "Accuracy=0x10"),
    ],
)
def test_what_is_no_number_is_refused(text):
    with pytest.raises(UsageError, match="METRIC=NUMBER"):
        gates.thresholds(text)


@pytest.mark.parametrize("given", [{"Accuracy": math.nan}, {"Accuracy": "60"}, {"": 60}, {"Accuracy": True}, 60, [60]])
def test_python_refuses_the_same(given):
    with pytest.raises(UsageError, match="METRIC=NUMBER"):
        gates.thresholds(given)
    assert gates.thresholds({"Accuracy": 60}) == [gates.Threshold("Accuracy", 60.0)]


# ---- thresholds ----


def test_a_figure_must_reach_its_threshold():
    rows = [figure(value=60.0)]
    assert passed(rows, "Accuracy=60") == {("quiz", "m"): True}
    assert passed(rows, "Accuracy=60.01") == {("quiz", "m"): False}
    third = [figure(value=math.fsum([100.0, 50.0, 50.0]) / 3 - 1e-14)]
    assert passed(third, "Accuracy=66.66666666666667") == {("quiz", "m"): True}  # rounding is no failure


def test_where_lower_is_better_the_threshold_is_a_ceiling():
    rows = [figure(metric="PPL", value=20.0, better=False)]
    assert passed(rows, "PPL=20") == {("quiz", "m"): True}
    assert passed(rows, "PPL=19.9") == {("quiz", "m"): False}
    (row,) = gates.check_under(rows, gates.Threshold("PPL", 19.9))
    assert row["reason"] == "quiz PPL on m is 20.00, above 19.9 (lower is better)"


def test_the_reason_never_contradicts_itself():
    (row,) = gates.check_under([figure(value=59.999)], gates.Threshold("Accuracy", 60))
    assert row["reason"] == "quiz Accuracy on m is 59.999, below 60"
    (row,) = gates.check_under([figure(value=60.0)], gates.Threshold("Accuracy", 60))
    assert row["reason"] == "quiz Accuracy on m is 60.00, at least 60"


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf, 10**400])
@pytest.mark.parametrize("better", [True, False])
def test_a_figure_without_value_fails(value, better):
    (row,) = gates.check_under(
        [figure(value=value, n=0, failed=8, better=better)], gates.Threshold("Accuracy", -1e9 if better else 1e9)
    )
    assert (row["passed"], row["value"]) == (False, None)
    assert row["reason"] == "quiz Accuracy on m has no value: no sample was scored (8 failed)"


def test_every_model_and_task_is_checked():
    rows = [
        figure(task, value, model=model)
        for task, model, value in (("a", "x", 70.0), ("a", "y", 50.0), ("b", "x", 60.0))
    ]
    assert passed(rows, "Accuracy=60") == {("a", "x"): True, ("a", "y"): False, ("b", "x"): True}
    assert passed(rows, "a:Accuracy=40") == {("a", "x"): True, ("a", "y"): True}


def test_the_average_stands_for_its_subsets():
    parts = [figure(f"mmlu:{name}", value, dataset="mmlu", subset=name) for name, value in (("a", 20.0), ("b", 90.0))]
    average = figure("mmlu[Macro Average]", 55.0, dataset="mmlu", average="macro", tasks=["mmlu:a", "mmlu:b"])
    some = figure("mmlu[Stem Macro Average]", 20.0, dataset="mmlu", average="macro")
    other = figure("arc", 30.0)
    rows = [*parts, some, average, other]
    assert passed(rows, "Accuracy=25") == {("mmlu[Macro Average]", "m"): True, ("arc", "m"): True}
    assert passed(rows, "mmlu:Accuracy=25") == {("mmlu[Macro Average]", "m"): True}
    assert passed(rows, "mmlu:a:Accuracy=25") == {("mmlu:a", "m"): False}
    assert passed(rows, "mmlu[Stem Macro Average]:Accuracy=25") == {("mmlu[Stem Macro Average]", "m"): False}


def test_a_subset_without_value_is_in_no_average_and_fails():
    parts = [figure("mmlu:a", 90.0, subset="a", dataset="mmlu"), figure("mmlu:b", None, subset="b", dataset="mmlu")]
    assert passed(parts, "Accuracy=25") == {("mmlu:a", "m"): True, ("mmlu:b", "m"): False}
    average = figure("mmlu[Macro Average]", 90.0, average="macro", dataset="mmlu", tasks=["mmlu:a", "mmlu:b"])
    assert passed([*parts, average], "Accuracy=25")["mmlu:b", "m"] is False


def test_an_average_of_one_model_stands_for_no_other():
    parts = [figure(f"mmlu:{name}", 10.0, model=model) for name in "ab" for model in "xy"]
    average = figure("mmlu[Macro Average]", 50.0, model="x", average="macro", tasks=["mmlu:a", "mmlu:b"])
    assert passed([*parts, average], "Accuracy=25") == {
        ("mmlu[Macro Average]", "x"): True,
        ("mmlu:a", "y"): False,
        ("mmlu:b", "y"): False,
    }


def test_the_mean_of_draws_stands_for_them():
    draws = [
        figure(f"quiz@{seed}", value, of="quiz", example_seed=seed) for seed, value in ((0, 10.0), (1, 90.0), (2, None))
    ]
    mean = figure("quiz[2 draws of examples]", 50.0, sd=1.0)
    assert passed([*draws, mean], "Accuracy=25") == {("quiz[2 draws of examples]", "m"): True, ("quiz@2", "m"): False}


def test_categories_are_checked_only_by_name():
    rows = [figure("quiz[hard]", 10.0, category="hard"), figure("quiz", 50.0)]
    assert passed(rows, "Accuracy=25") == {("quiz", "m"): True}
    assert passed(rows, "quiz[hard]:Accuracy=25") == {("quiz[hard]", "m"): False}


@pytest.mark.parametrize(
    "task", ["a:b", "a=b", "lookup:UR:10:sep|small|bare", "x,num_shots=2", "Accuracy", "a b", "模型"]
)
@pytest.mark.parametrize("metric", ["Accuracy", "pass@1", "x=y", "x:y", "gap: right - left"])
def test_names_may_contain_anything(task, metric):
    rows = [figure(task, 50.0, metric), figure("other", 0.0, metric)]
    assert passed(rows, f"{task}:{metric}=25") == {(task, "m"): True}
    assert passed(rows, f"{metric}=25") == {(task, "m"): True, ("other", "m"): False}


def test_a_name_with_two_meanings_is_refused():
    rows = [figure("a", 50.0, "b"), figure("c", 50.0, "a:b")]
    with pytest.raises(UsageError, match="metric of a task too"):
        gates.check_under(rows, gates.Threshold("a:b", 10))


@pytest.mark.parametrize("name", ["accuracy", "Acc", "quiz", "quiz:EM", "other:Accuracy", ":Accuracy", "Accuracy:quiz"])
def test_a_name_that_no_figure_has_is_an_error(name):
    with pytest.raises(UsageError, match="It has: Accuracy, EM") as error:
        gates.check_under([figure(), figure("other2", metric="EM")], gates.Threshold(name, 10))
    assert repr(name) in str(error.value)


def test_a_run_without_figures_is_an_error():
    with pytest.raises(UsageError, match="It has none"):
        gates.check_under([], gates.Threshold("Accuracy", 10))


def test_names_are_known_before_a_run():
    gates.check_names([gates.Threshold("arc:Easy:Accuracy", 1), gates.Threshold("EM", 1)], ["Accuracy", "EM"])
    with pytest.raises(UsageError, match="It has: Accuracy, EM"):
        gates.check_names([gates.Threshold("F1", 1)], ["Accuracy", "EM", "EM"])


def test_settings_that_a_task_does_not_have_are_known_before_a_run():
    tasks = [PlannedTask(f"quiz,limit=6,num_shots={k}", metrics=("Accuracy",)) for k in (0, 2)]
    for name in ("Accuracy", "quiz:Accuracy", "quiz,limit=6:Accuracy", "quiz,limit=6,num_shots=2[easy]:Accuracy"):
        gates.check_tasks([gates.Threshold(name, 1)], tasks)  # the last ones may be averages or categories
    gates.check_tasks([gates.Threshold("all quizzes,num_shots=2:Accuracy", 1)], tasks)
    with pytest.raises(UsageError, match=r"Do you mean quiz,limit=6,num_shots=2:Accuracy\?"):
        gates.check_tasks([gates.Threshold("quiz,num_shots=2:Accuracy", 1)], tasks)


def test_the_name_of_a_sweep_stands_for_all_its_values():
    rows = [figure(f"quiz,num_shots={k}", value=10.0 * k) | {"swept": "quiz"} for k in (1, 2)]
    assert [row["passed"] for row in gates.check_under(rows, gates.Threshold("quiz:Accuracy", 15))] == [
        False,
        True,
    ]
    with pytest.raises(UsageError, match=r"Do you mean quiz,num_shots=2:Accuracy\?"):
        gates.check_under(rows[1:], gates.Threshold("quiz,num_shot=2:Accuracy", 1))


def test_a_figure_without_direction_is_refused():
    error = {**undirected("error: last token", 40.0), "error": "last token"}
    with pytest.raises(UsageError, match="is a kind of error"):
        gates.check_under([figure(), error], gates.Threshold("error: last token", 10))
    early = {name: value for name, value in figure().items() if name != "higher_is_better"}
    with pytest.raises(RunError, match="kshot score"):
        gates.check_under([early], gates.Threshold("Accuracy", 10))


def undirected(metric, value):
    row = figure(metric=metric, value=value, detail=True)
    return {name: value for name, value in row.items() if name != "higher_is_better"}


def test_a_detail_has_the_direction_of_what_it_breaks_down():
    rows = [figure(), undirected("acc_norm", 55.0), figure("other", metric="PPL", better=False)]
    assert passed(rows, "acc_norm=60") == {("quiz", "m"): False}
    assert passed(rows, "acc_norm=50") == {("quiz", "m"): True}
    texts = [figure(metric="PPL", value=9.0, better=False), undirected("word_perplexity", 30.0)]
    assert passed(texts, "word_perplexity=20") == {("quiz", "m"): False}
    assert passed(texts, "word_perplexity=40") == {("quiz", "m"): True}
    for unclear in ([undirected("perplexity", 55.0)], [*texts, undirected("perplexity", 55.0), figure()]):
        with pytest.raises(RunError, match="whether higher or lower"):
            passed(unclear, "perplexity=50")


def test_a_share_of_one_is_noticed():
    rows = [figure(bounds=[0, 100]), figure("ranks", 0.4, "MRR", bounds=[0, 1])]
    assert list(gates.scale_notes([gates.Threshold("MRR", 0.3), gates.Threshold("Accuracy", 1)], rows)) == []
    assert "between 0 and 100" in next(gates.scale_notes([gates.Threshold("Accuracy", 0.6)], rows))


# ---- failed samples ----


def sample(number, failed=None, task="quiz"):
    return {"task": task, "model": "m", "id": str(number)} | ({"failed": failed} if failed else {})


def test_failed_samples_are_counted_and_named():
    samples = [*(sample(n) for n in range(5)), *(sample(n, "timeout: slow") for n in range(5, 12)), sample(0, task="b")]
    first, second = gates.check_failed([figure(failed=7), figure("b")], samples)
    assert (first["passed"], first["failed"], first["n"], second["passed"]) == (False, 7, 5, True)
    assert first["reason"] == "quiz on m: 7 of 12 samples failed (5, 6, 7, 8, 9, …)"
    assert second["reason"] == "b on m: 1 sample, none failed"


def test_a_failed_reply_among_several_counts():
    (row,) = gates.check_failed([figure(failed_replies=2)], [sample(0)])
    assert (row["passed"], row["failed_replies"]) == (False, 2)


def test_a_task_without_figures_is_checked_by_its_samples():
    assert [row["passed"] for row in gates.check_failed([], [sample(0), sample(1, "error: x")])] == [False]


def test_no_sample_is_no_pass():
    assert [row["passed"] for row in gates.check_failed([figure(n=0, value=None)], [])] == [False]
    with pytest.raises(RunError, match="no sample"):
        gates.check_failed([], [])


# ---- a baseline ----


def compared(verdict=None, n=8, **more):
    row = {"task": "quiz", "metric": "Accuracy", "higher_is_better": True, "baseline": "before", "run": "after"}
    row |= {"baseline_model": "m", "run_model": "m", "baseline_value": 75.0, "run_value": 50.0, "difference": -25.0}
    row |= {"ci95": [-40.0, -10.0], "p": 0.01, "p_corrected": 0.02, "family": 2, "n": n, "verdict": verdict}
    return row | {"only_baseline": 0, "only_run": 0, "failed_baseline": 0, "failed_run": 0} | more


def sides(place="base", before=(), after=(), names=("before", "after")):
    return Sides(place, *names, list(before), list(after))


def test_only_the_verdict_of_the_test_fails():
    rows = check_worse([compared("worse"), compared(None), compared("better")], sides())
    assert [row["passed"] for row in rows] == [False, True, True]


def test_the_reason_says_what_was_paired_and_what_was_not():
    (row,) = check_worse([compared("worse", only_baseline=2, failed_run=1)], sides("runs/base"))
    assert row["reason"] == (
        "quiz Accuracy on after is worse than before: 50.00 after 75.00, p 0.02, 8 samples paired "
        "(2 only in the baseline, 1 failed in the run)"
    )
    assert row["baseline_path"] == "runs/base"


NOTHING = {**dict.fromkeys(("baseline_value", "run_value", "difference", "ci95", "p", "p_corrected")), "n": 0}


def test_nothing_compared_at_all_is_an_error():
    for rows in ([], [compared(**NOTHING)], [compared(**NOTHING, only_run=3), compared(**NOTHING)]):
        with pytest.raises(RunError, match="same questions"):
            check_worse(rows, sides())


def test_a_task_without_pairs_is_told_and_does_not_fail():
    _, row = check_worse([compared(), compared(**NOTHING, task="arc", only_run=9, only_baseline=8)], sides())
    assert (row["passed"], row["only"], row["lacks"]) == (None, None, None)
    assert row["reason"].startswith("arc Accuracy on after is not compared with before: 8 only in the baseline, 9 only")


def test_a_run_whose_samples_failed_does_not_pass():
    (row,) = check_worse([compared(**NOTHING, failed_run=8)], sides())
    assert (row["passed"], "8 failed in the run" in row["reason"]) == (False, True)


def left_out(before, after, *rows):
    """What is not compared: model, task, metric, which side has it, and what the other lacks."""
    found = check_worse(rows or [compared()], sides(before=before, after=after))
    names = ("model", "task", "metric", "only", "lacks")
    return [tuple(row[name] for name in names) for row in found if row["passed"] is None]


def test_models_that_one_side_lacks_are_told():
    assert left_out([figure(), figure(model="old")], [figure(), figure(model="new")]) == [
        ("new", "quiz", "Accuracy", "run", "model"),
        ("old", "quiz", "Accuracy", "baseline", "model"),
    ]


def test_tasks_and_metrics_that_one_side_lacks_are_told():
    before = [figure(), figure("arc"), figure(metric="EM")]
    after = [figure(), figure("names"), figure("quiz[hard]", category="hard"), figure(metric="acc", detail=True)]
    assert left_out(before, after) == [
        ("m", "names", "Accuracy", "run", "task"),
        ("m", "arc", "Accuracy", "baseline", "task"),
        ("m", "quiz", "EM", "baseline", "metric"),
    ]


def test_what_both_have_and_no_rule_compares_is_told_once():
    both = [figure(), figure(metric="own"), figure("quiz[Macro Average]", average="macro", tasks=["quiz", "arc"])]
    assert left_out(both, both) == [
        ("m", "quiz", "own", None, None),
        ("m", "quiz[Macro Average]", "Accuracy", None, None),
    ]


def test_models_of_other_names_are_compared_with_each_other():
    rows = [compared(baseline_model="old", run_model="new", run_task="quiz2")]
    assert left_out([figure(model="old")], [figure("quiz2", model="new")], *rows) == []
    assert left_out([figure(model="old")], [figure("quiz2", model="new"), figure("x", model="new")], *rows) == [
        ("new", "x", "Accuracy", "run", "task")
    ]


def test_systems_are_named_as_the_user_knows_them():
    many = [figure(), figure(model="n")]
    named = Sides.of(RunRecord(many, []), RunRecord([figure()], []), ["the baseline", "this run"])
    (row, alone) = check_worse([compared("worse")], named)
    assert (row["baseline"], row["run"], row["baseline_path"]) == ("the baseline · m", "this run", "the baseline")
    assert alone["reason"] == (
        "quiz Accuracy on this run is not compared with the baseline · n: only the baseline has this model"
    )
    kept = Sides.of(RunRecord([], [], "runs/a"), RunRecord([], [], "runs/b"), ["a", "b"])
    assert (kept.place, kept.baseline, kept.run) == ("runs/a", "a", "b")


# ---- together ----


def test_all_gates_are_told_in_one_short_line():
    rows = [figure(f"t{n}", 10.0) for n in range(6)]
    record = RunRecord(rows, [], _samples=[sample("x" * 5000, "timeout: slow", task="t0")])
    found = Gates.of({"Accuracy": 60}, fail_on_failed=True).check(record, lambda *_: None)
    with pytest.raises(GateFailed) as error:
        found.enforce()
    assert str(error.value) == (
        "gate: 12 of 12 checks failed: t0 Accuracy on m is 10.00, below 60; t1 Accuracy on m is 10.00, below 60; "
        "t2 Accuracy on m is 10.00, below 60; and 9 more"
    )
    assert error.value.gates == found.rows
    assert len(str(GateFailed(found.rows[6:]))) < 400
    long = check_worse([compared("worse", failed_run=1, failed_baseline=2)], sides())
    assert str(GateFailed(long)).endswith("Accuracy on after is worse than before: 50.00 after 75.00, p 0.02")
    assert Gates.of().check(record, lambda *_: None).enforce() == []


def against(found, before, after, **more):
    def compare(*pair):
        assert pair == (before, after)
        if isinstance(found, Exception):
            raise found
        return found

    return Gates.of(fail_if_worse=before, **more).check(after, compare)


def test_the_notes_of_a_comparison_are_told():
    found = SimpleNamespace(rows=[compared()], notes=["only before has arc"])
    checked = against(found, RunRecord([figure()], []), RunRecord([figure(), figure(model="new")], []))
    assert [(row["passed"], row["model"], row["baseline"]) for row in checked.rows] == [
        (True, "m", "the baseline"),
        (None, "new", "the baseline"),
    ]
    assert checked.notes == ["only before has arc"]
    assert checked.enforce() == checked.rows


def test_a_gate_that_cannot_be_decided_hides_no_other():
    before, after = RunRecord([figure()], []), RunRecord([figure(value=10.0)], [])
    checked = against(RunError("other questions"), before, after, fail_under="Accuracy=60")
    assert [(row["gate"], row["passed"]) for row in checked.rows] == [("fail_under", False), (None, False)]
    with pytest.raises(GateFailed, match="the check failed: quiz"):
        checked.enforce()
    checked = against(RunError("other questions"), before, after, fail_under="Accuracy=5")
    with pytest.raises(RunError, match="other questions"):
        checked.enforce()


def test_a_run_in_memory_is_no_baseline_of_itself():
    run = RunRecord([figure()], [])
    with pytest.raises(UsageError, match="the run itself"):
        against(None, run, run).enforce()


def test_first_failures_are_read_from_the_samples():
    rows = [figure(failed=2), figure("arc", failed=0), figure("votes", failed=0, failed_replies=3)]
    samples = [sample(0), sample(1, "timeout: slow"), sample(2, "error: x"), sample(3, task="votes")]
    assert first_failures(RunRecord(rows, [], _samples=samples)) == [
        "quiz on m: 2 failed (timeout: slow)",
        "votes on m: 3 replies failed (its samples do not say why)",
    ]
    assert first_failures(RunRecord([figure()], [], _samples=samples)) == []
    assert first_failures(RunRecord(rows, [], first_failures=["told"])) == ["told"]


@pytest.mark.parametrize("given", ["", 5, None, ["a", None]])
def test_a_baseline_is_a_run(given):
    with pytest.raises(UsageError, match="must be a run folder"):
        Gates.of(fail_if_worse=given)


def test_gates_may_be_empty():
    assert not Gates.of()
    assert all((Gates.of("a=1"), Gates.of(fail_if_worse="runs/a"), Gates.of(fail_on_failed=True)))


def test_rows_of_gates_are_json():
    (row,) = gates.check_under([figure(value=math.nan)], gates.Threshold("Accuracy", 1))
    assert json.loads(json.dumps(row, allow_nan=False)) == row
