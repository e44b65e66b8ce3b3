"""Sweeps on the screen: curves, tables, sentences."""

import io
from functools import partial

import pytest
from rich.console import Console

from kshot.report.drawn_table import ByWidth, drawn_curve, drawn_views
from kshot.report.sweeps import SWEEPS, sweep_verdicts
from kshot.report.view import Cell, Lines, Series
from kshot.runs.record import RunRecord
from tests.runs.test_swept_rows import figure


def drawn(*parts, width=80):
    """Return what a terminal of so many columns shows, line by line."""
    console = Console(file=io.StringIO(), width=width, no_color=True)
    for part in parts:
        console.print(part)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def sweep_tables(rows):
    """Return the sweeps of these rows as a terminal draws them."""
    return drawn_views(SWEEPS.views(RunRecord(rows, []), lambda _: None))


def series(name, *values):
    ends = [None if v is None else tuple(Cell(number=end) for end in (v - 10, v + 10)) for v in values]
    return Series(name, [None if v is None else Cell(number=v, interval=e) for v, e in zip(values, ends, strict=True)])


def picture(lines):
    return ByWidth(partial(drawn_curve, lines))


def place(lines, sign):
    """Return the rows and columns at which a sign stands within the picture, left of the names."""
    return [(row, line.index(sign)) for row, line in enumerate(lines) if sign in line[:76]]


@pytest.mark.parametrize("width", [44, 60, 80, 92, 200])
def test_a_curve_is_as_wide_as_its_terminal(width):
    curve = picture(
        Lines(["0", "1", "5"], [series("bm25", 20, 40, 70), series("random", 20, 35, 50)], "examples", (0, 100))
    )
    lines = drawn(curve, width=width)
    assert max(map(len, lines)) <= min(width, 92)
    assert "● bm25" in "\n".join(lines)
    assert "■ random" in "\n".join(lines)
    assert lines[-2].split() == ["0", "1", "5"]
    assert lines[-1].strip() == "examples"


def test_higher_figures_stand_higher_and_later_ones_further_right():
    lines = drawn(picture(Lines(["0", "1", "5"], [series("", 20, 40, 70)], "k", (0, 100))))
    (last, middle, first) = place(lines, "●")
    assert last[0] < middle[0] < first[0]
    assert last[1] > middle[1] > first[1]
    column = [line[first[1]] for line in lines[:15] if len(line) > first[1]]
    assert column.count("╷") == column.count("╵") == 1  # the interval around the mark
    assert column.index("╷") < column.index("●") < column.index("╵")


def test_a_gap_leaves_the_other_points_and_a_narrow_terminal_has_no_picture():
    curve = picture(Lines(["0", "1", "5"], [series("", 20, None, 70)], "k"))
    assert len(place(drawn(curve), "●")) == 2
    assert drawn(curve, width=43) == []
    assert drawn(picture(Lines(["0"], [Series("", [None])], "k"))) == []


def test_an_axis_stays_within_the_scale():
    lines = drawn(picture(Lines(["0", "1"], [series("", 93, 97)], "k", (0, 100))))
    assert lines[0].split()[0] == "100"
    assert not any(line.strip().startswith("110") for line in lines)


def test_names_of_lines_that_end_together_are_told_apart():
    lines = drawn(picture(Lines(["0", "1"], [series(name, 10, 50) for name in "abc"], "k")))
    assert sum(line.endswith((" a", " b", " c")) for line in lines) == 3


ROWS = [
    figure(30, num_shots=0),
    *(figure(k + b, num_shots=k, retriever=r) for k in (2, 10) for r, b in (("bm25", 40), ("topk", 50))),
]


def test_the_table_has_a_column_for_each_line_where_there_is_room():
    lines = drawn(*sweep_tables(ROWS))
    assert lines[0] == "quiz · Accuracy by number of examples, n = 50"
    head = lines.index(next(line for line in lines if line.split() == ["k", "bm25", "topk"]))
    assert lines[head + 1].split() == ["0", "30.00", "25.0–35.0", "30.00", "25.0–35.0"]
    assert lines[head + 3].split() == ["10", "50.00", "45.0–55.0", "60.00", "55.0–65.0"]
    narrow = drawn(*sweep_tables(ROWS), width=40)
    assert max(map(len, narrow)) <= 40
    assert ["topk", "0", "30.00", "25.0–35.0"] in [line.split() for line in narrow]


def test_values_that_are_no_numbers_have_bars():
    lines = drawn(*sweep_tables([figure(40, retriever="bm25"), figure(60, retriever="topk")]), width=100)
    bars = [line for line in lines if "●" in line]
    assert [line.split()[:2] for line in bars] == [["bm25", "40.00"], ["topk", "60.00"]]
    assert bars[0].index("●") < bars[1].index("●")
    assert "├" in bars[0]


def compared(option, a, b, difference, *, ahead=None, at=None, p=0.001):
    names = {"a": f"quiz,{option}={a}", "b": f"quiz,{option}={b}"}
    who = {**names, "a_model": "m", "b_model": "m", "a_value": a, "b_value": b}
    interval = [difference - 3, difference + 3]
    more = {"difference": difference, "ci95": interval, "p_corrected": p, "family": 4, "ahead": names.get(ahead)}
    return {
        "task": "quiz",
        "metric": "Accuracy",
        "higher_is_better": True,
        "sweep": option,
        "at": at or {},
        **who,
        **more,
    }


def test_sentences_say_between_which_values_a_figure_changes():
    rows = [
        compared("num_shots", 0, 1, 12.0, ahead="b", at={"retriever": "bm25"}),
        compared("num_shots", 1, 5, 1.0, at={"retriever": "bm25"}),
        compared("retriever", "random", "bm25", 8.0, ahead="b", at={"num_shots": 1}),
        {**compared("num_shots", 0, 1, 9.0, ahead="b"), "task": "other"},
    ]
    del rows[3]["sweep"]  # between models
    assert list(sweep_verdicts(rows)) == [
        "quiz Accuracy · bm25: k = 1 is ahead of 0 (+12.0, 95 %: +9.0 to +15.0, p 0.001); k = 1 and 5 cannot be told apart.",
        "quiz Accuracy by retriever: bm25 is ahead of random at k = 1 (+8.0, 95 %: +5.0 to +11.0, p 0.001).",
        "Between the values of sweeps p is corrected for 4 comparisons.",
    ]
    level = [compared("num_shots", k, k + 1, 0.5) for k in range(3)]
    assert next(sweep_verdicts(level)) == "quiz Accuracy: no two neighbours can be told apart."
    assert list(sweep_verdicts([])) == []
