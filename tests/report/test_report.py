"""Tables and grids as people see them."""

import io

import pytest
from rich.console import Console

from kshot.report import findings, grids, results_table


def drawn(*shown, width=80):
    console = Console(file=io.StringIO(), width=width, color_system="truecolor", force_terminal=True)
    for each in shown:
        console.print(each)
    return console.file.getvalue()


def plain(*shown, width=80):
    console = Console(file=io.StringIO(), width=width)
    for each in shown:
        console.print(each)
    return console.file.getvalue()


def row(task="quiz", model="hf:models/one", metric="Accuracy", value=50.0, n=10, failed=0, ci95=(40.0, 60.0), **more):
    return {
        "task": task,
        "model": model,
        "metric": metric,
        "value": value,
        "n": n,
        "failed": failed,
        "ci95": list(ci95) if ci95 else None,
    } | more


def test_one_model_two_models_many_models():
    one = plain(results_table([row()]))
    assert one.split() == ["task", "metric", "n", "value", "95", "%", "quiz", "Accuracy", "10", "50.00", "40.0–60.0"]
    two = plain(results_table([row(), row(model="hf:models/two", value=70.0)]))
    assert "hf:one" in two
    assert "70.00" in two
    many = plain(results_table([row(model=f"hf:models/a-long-name-{i}") for i in range(4)]))
    assert many.count("hf:a-long-name-") == 4
    assert max(map(len, many.splitlines())) <= 80
    assert many.count("50.00") == 4


def test_what_must_not_be_missed_has_a_column():
    shown = plain(results_table([row(value=None, n=0, failed=3, ci95=None, unanswered=2)]))
    assert "failed" in shown
    assert "unanswered" in shown
    assert "–" in shown
    assert "failed" not in plain(results_table([row()]))


def cell(task, length, value, ci95, metric="Accuracy", **more):
    labels = {"lookup": task, "length": length, "variant": "sep|small|bare", "chance": 5.0}
    return row(f"lookup:{task}:{length}", "embedded", metric, value, 50, ci95=ci95, **labels | more)


ROWS = [
    cell("UL", 10, 100.0, (92.0, 100.0)),
    cell("UL", 120, 30.0, (19.0, 44.0)),
    cell("UL", 120, 56.0, (42.0, 69.0), "error: opposite neighbour"),
    cell("UL", 120, 14.0, (7.0, 26.0), "error: last token"),
    cell("UR", 10, 100.0, (92.0, 100.0)),
    cell("UR", 120, 98.0, (89.0, 100.0)),
    cell("UR-UL", 120, 68.0, (54.0, 82.0), "gap: right - left"),
]


def test_a_grid_is_shaded_by_accuracy():
    (grid,) = grids(ROWS)
    text = plain(grid)
    assert text.splitlines()[0] == "embedded: accuracy in % by length (50 records each)"
    lines = [line.split() for line in text.splitlines()[1:]]
    assert lines == [["variant", "task", "10", "120"], ["sep|small|bare", "UL", "100", "30"], ["UR", "100", "98"]]
    colours = {part for part in drawn(grid).split("\x1b[") if "48;2" in part}
    assert len(colours) == 3  # three different values, three shades


def test_findings_say_what_fell_how_it_is_wrong_and_which_gap_is_real():
    fell, look, gap = findings(ROWS)
    assert (
        fell
        == "UL (sep|small|bare) falls from 100 at length 10 to 30 at 120 (80 % of the errors: opposite neighbour); chance is 5."
    )
    assert look == "Look: kshot preview -d lookup:UL --length 120 --variant 'sep|small|bare' --limit 1"
    assert gap == "On the same records UR is 68 points ahead of UL (95 %: 54–82) at length 120 (sep|small|bare)."


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [cell("UL", 10, 6.0, (2.0, 16.0)), cell("UL", 20, 0.0, (0.0, 7.0))],  # overlapping, near chance: noise
        [cell("UR-UL", 10, 8.0, (-4.0, 20.0), "gap: right - left")],
    ],
)
def test_noise_is_no_finding(rows):
    assert list(findings(rows)) == []
