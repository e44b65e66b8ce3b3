"""The figures of a run by category or subset."""

import io

import pytest
from rich.console import Console

from kshot.core.errors import UsageError
from kshot.report.breakdown import below, breakdown, breakdown_table


def row(part, value, by="category", **more):
    task = f"t[{part}]" if by == "category" else f"t:{part}"
    return {
        "task": task, "model": "m", "metric": "EM", "higher_is_better": True, "value": value, "n": 9, "failed": 0,
        "ci95": [value - 5, value + 5] if value is not None else None, "bounds": [0, 100], by: part, **more,
    }  # fmt: skip


ROWS = [
    row("a", 40.0), row("b", 10.0), row("c", None, failed=9), row("d", 90.0),
    row("b", 70.0, metric="F1"), row("b", 1.0, metric="acc", detail=True),
    {"task": "t", "model": "m", "metric": "EM", "value": 50.0, "n": 9},
]  # fmt: skip


def parts(found):
    return [each[found.by] for each in found.rows]


def test_the_worst_come_first_and_what_has_no_figure_last():
    assert parts(breakdown(ROWS)) == ["b", "a", "d", "c"]
    assert parts(breakdown(ROWS, order="best")) == ["d", "a", "b", "c"]


def test_a_limit_keeps_the_count_of_all():
    found = breakdown(ROWS, limit=2)
    assert (parts(found), len(found.every)) == (["b", "a"], 4)
    assert list(below(found, "worst")) == [
        "the 2 worst of 4 figures", "without a figure, because every sample failed: 1 (c)",
    ]  # fmt: skip
    assert list(below(breakdown(ROWS), "worst")) == []


def test_where_lower_is_better_the_highest_is_the_worst():
    rows = [row(part, value, metric="perplexity", higher_is_better=False) for part, value in (("a", 3.0), ("b", 9.0))]
    assert parts(breakdown(rows)) == ["b", "a"]


def one_of_each(*figures):
    """One task for each figure: its metric, its value, its scale and whether higher is better."""
    return [
        row(f"c{at}", value, task=f"t{at}[c{at}]", metric=metric, bounds=bounds, higher_is_better=higher)
        for at, (metric, value, bounds, higher) in enumerate(figures)
    ]


def test_figures_on_several_scales_are_in_the_order_of_their_shares():
    rows = one_of_each(
        ("EM", 40.0, [0, 100], True), ("nDCG", 0.3, [0, 1], True), ("grade", 5.5, [1, 10], True),
        ("errors", 20.0, [0, 100], False), ("errors", 65.0, [0, 100], False),
    )  # fmt: skip
    assert parts(breakdown(rows)) == ["c1", "c4", "c0", "c2", "c3"]  # 30, 35, 40, 50 and 80 % of their scales
    assert parts(breakdown(rows, order="best", limit=2)) == ["c3", "c2"]
    lines = list(below(breakdown(rows, limit=2), "worst"))
    assert lines == [
        "the 2 worst of 5 figures", "sorted by the share of each scale that the figure reaches", "↓: lower is better",
    ]  # fmt: skip
    texts = [line.split() for line in drawn(rows, 80)[1:]]
    assert [[each[2], *each[4 if "↓" not in each else 5 :][:1]] for each in texts] == [
        ["nDCG", "0.300"], ["errors", "65.00"], ["EM", "40.00"], ["grade", "5.50"], ["errors", "20.00"],
    ]  # fmt: skip


def test_a_metric_without_ends_is_not_ranked_among_others():
    rows = one_of_each(
        ("EM", 38.0, [0, 100], True), ("TER", 29.0, [0, None], False), ("EM", 12.0, [0, 100], True),
        ("TER", 80.0, [0, None], False), ("TER", None, [0, None], False),
    )  # fmt: skip
    found = breakdown(rows)
    assert parts(found) == ["c2", "c0", "c3", "c1", "c4"]
    assert parts(breakdown(rows, order="best")) == ["c0", "c2", "c1", "c3", "c4"]
    few = breakdown(rows, limit=1)
    assert parts(few) == ["c2", "c3"]
    assert list(below(few, "worst"))[:2] == [
        "the worst of each metric: 2 of 5 figures",
        "sorted within each metric, because these have no scale with two ends: TER",
    ]
    alone = breakdown(rows, metric="TER")
    assert (parts(alone), list(below(alone, "worst"))) == (["c3", "c1", "c4"], [])


def test_the_headline_is_that_of_each_task():
    first = [row("a", 40.0), row("a", 60.0, metric="F1")]
    other = [{**each, "task": "u[a]", "value": each["value"] - 5} for each in reversed(first)]
    assert [(each["task"], each["metric"]) for each in breakdown([*first, *other]).rows] == [
        ("t[a]", "EM"), ("u[a]", "F1"),
    ]  # fmt: skip


def test_another_metric_can_be_named():
    assert [each["metric"] for each in breakdown(ROWS, metric="F1").rows] == ["F1"]
    with pytest.raises(UsageError, match=r"no figure by category has the metric 'EN'. Metrics: EM, F1, acc"):
        breakdown(ROWS, metric="EN")


def test_subsets_stand_in_where_there_are_no_categories():
    rows = [row("x", 40.0, "subset"), row("y", 20.0, "subset"), row("", 30.0, "subset", average="weighted")]
    found = breakdown(rows)
    assert (found.by, parts(found)) == ("subset", ["y", "x"])
    with pytest.raises(UsageError, match=r"no figures by category. It has figures by subset"):
        breakdown(rows, "category")


def test_a_run_without_parts_says_so():
    with pytest.raises(UsageError, match="no figures by category or subset, and only one task"):
        breakdown(ROWS[-1:])


def test_several_tasks_stand_in_where_there_are_no_subsets_either():
    rows = [{**ROWS[-1], "task": name, "value": value} for name, value in (("one", 50.0), ("two", 20.0))]
    found = breakdown([*rows, {**rows[0], "task": "gap", "gap": True}, {**rows[0], "task": "all", "average": "x"}])
    assert (found.by, parts(found)) == ("task", ["two", "one"])
    assert parts(breakdown(ROWS, "task")) == ["t"]


def test_a_spread_stands_for_its_draws_and_draws_of_a_subset_are_told_apart():
    draws = [row("x", 10.0 * seed, "subset", task=f"t:x@{seed}", dataset="t", example_seed=seed) for seed in (1, 2)]
    spread = {**ROWS[-1], "task": "t:x[2 draws of examples]", "sd": 1.0}
    assert parts(breakdown([*draws, spread], "task")) == ["t:x[2 draws of examples]"]
    assert [line.split()[:2] for line in drawn([*draws, spread], 80)[1:]] == [["x", "t:x@1"], ["x", "t:x@2"]]


def test_a_scale_with_an_open_end_has_no_bars():
    rows = [row("a", 40.0, metric="TER", bounds=[0.0, None]), row("b", 10.0, metric="TER", bounds=[0.0, None])]
    assert "█" not in "".join(drawn(rows, 120))


def drawn(rows, width, limit=None):
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(breakdown_table(breakdown(rows, limit=limit), width))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_a_wide_terminal_has_bars_as_long_as_the_figures():
    head, worst, *_, best, none = drawn(ROWS, 100)
    assert head.split() == ["category", "metric", "n", "value", "95", "%", "failed"]
    assert worst.endswith("██▍")  # 2.4 of 24
    assert best.count("█") == 21
    assert none.split() == ["c", "EM", "9", "–", "9"]
    assert "█" not in "".join(drawn(ROWS, 80))


def test_names_of_several_tasks_and_models_have_columns():
    rows = [row("a", 40.0), row("a", 60.0) | {"task": "u[a]", "model": "other"}]
    assert drawn(rows, 80)[1].split()[:4] == ["a", "t", "m", "EM"]
    assert drawn(rows, 80, limit=1)[1].split()[:4] == ["a", "t", "m", "EM"]  # though one line shows one of each
