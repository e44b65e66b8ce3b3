"""More figures of the same answers: whatever their number, every name can be read."""

import pytest

from kshot.report.table import details_tables, results_table
from tests.report.test_report import plain, row

FIGURES = [f"{who}_{what}" for who in ("rule", "llm", "final") for what in ("evaluated", "correct", "accuracy")]


def details(*tasks, metrics=FIGURES):
    return [
        row(task=task, metric=metric, value=float(number), detail=True)
        for task in tasks
        for number, metric in enumerate(metrics)
    ]


def test_figures_that_fit_stand_side_by_side():
    shown = plain(*details_tables(details("one", "two", metrics=["f1", "recall"])))
    assert shown.splitlines() == ["More figures:", "task    f1  recall", "one   0.00    1.00", "two   0.00    1.00"]


def test_few_tasks_with_many_figures_have_a_line_for_each():
    shown = plain(*details_tables(details("math_prm800k_500"))).splitlines()
    assert shown[1].split() == ["task", "metric", "value"]
    assert [line.split()[-2:] for line in shown[2:]] == [[name, f"{n}.00"] for n, name in enumerate(FIGURES)]
    assert shown[2].startswith("math_prm800k_500 ")
    assert max(map(len, shown)) <= 80


@pytest.mark.parametrize("width", [40, 80, 120, 300])
def test_no_name_is_cut_and_every_figure_is_there(width):
    for tasks in (["one"], [f"a_task_with_a_name_{n}" for n in range(12)]):
        shown = plain(*details_tables(details(*tasks)), width=width)
        assert "…" not in shown
        assert max(map(len, shown.splitlines())) <= width
        for number, name in enumerate(FIGURES):
            assert shown.split().count(name) == 1 if len(tasks) == 12 else name in shown
            assert shown.split().count(f"{number}.00") == len(tasks)


def test_a_name_that_is_wider_than_the_terminal_is_broken_and_not_cut():
    name = "accuracy_" * 8
    shown = plain(*details_tables(details("one", metrics=[name])), width=40)
    assert "…" not in shown
    assert name in "".join(shown.replace("task", "").split())


def test_whose_code_ran_is_told_once_for_a_task():
    code = "evaluator by OpenCompass"
    rows = [row(task=task, metric=metric, code=code) for task in ("one", "two") for metric in ("score", "accuracy")]
    shown = plain(results_table([*rows, row(task="three")]), width=100)
    lines = [line.split() for line in shown.splitlines()[1:]]
    assert [line[0] for line in lines if "OpenCompass" in line] == ["one", "two"]
    assert [line[0] for line in lines] == ["one", "one", "two", "two", "three"]
