"""A comparison in words and tables: every kind of row, any width, and names that strangers chose."""

from types import SimpleNamespace

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from kshot.report.cells import broken, cut, fair_width
from kshot.report.comparison import Flip, answer_text, drawn_comparison, headline_rows, target_text
from kshot.report.comparison_view import answers, sentence, warnings
from kshot.report.setting_table import setting_table, shown_values


def row(**changes):
    made = {
        "task": "arc",
        "metric": "Accuracy",
        "higher_is_better": True,
        "baseline": "zero",
        "run": "five",
        "baseline_run": "zero",
        "baseline_model": "embedded",
        "run_run": "five",
        "run_model": "embedded",
        "baseline_value": 62.0,
        "run_value": 66.2,
        "difference": 4.2,
        "ci95": [1.1, 7.3],
        "p": 0.008,
        "p_corrected": 0.008,
        "family": 1,
        "n": 500,
        "won": 61,
        "lost": 40,
        "both": 310,
        "neither": 89,
        "only_baseline": 0,
        "only_run": 0,
        "failed_baseline": 0,
        "failed_run": 0,
        "verdict": "better",
        **changes,
    }
    return {name: value for name, value in made.items() if value is not ...}


def graded(**changes):
    return row(metric="F1", both=..., neither=..., tied=399, **changes)


NOTHING = {
    **dict.fromkeys(("baseline_value", "run_value", "difference", "ci95", "p", "p_corrected", "verdict")),
    **dict.fromkeys(("n", "won", "lost", "both", "neither", "family"), 0),
}


def plain(text):
    return text.replace("\xa0", " ")


def drawn(rows, categories=(), settings=(), notes=(), flips=(), width=80, everything=False):
    comparison = SimpleNamespace(
        rows=list(rows),
        categories=list(categories),
        settings=list(settings),
        notes=list(notes),
        runs=[{"label": "zero"}, {"label": "five"}],
    )
    console = Console(width=width, markup=False, highlight=False, emoji=False)
    with console.capture() as shown:
        for part in drawn_comparison(comparison, flips, headline_rows(rows), width=width, everything=everything):
            console.print(part)
    lines = shown.get().splitlines()
    assert max(map(cell_len, lines)) <= width, "\n".join(lines)
    return "\n".join(line.rstrip() for line in lines)


# ---- sentences ----


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            row(),
            ("five is ahead of zero on arc by 4.2 points in Accuracy (95 %: 1.1 to 7.3; p 0.008): it wins 61 questions "
            "and loses 40; both are right on 310, neither on 89."),
        ),
        (
            row(difference=-4.2, ci95=[-7.3, -1.1], won=1, lost=61, verdict="worse", p_corrected=1e-9),
            ("five is behind zero on arc by 4.2 points in Accuracy (95 %: 1.1 to 7.3; p < 0.0001): it wins 1 question "
            "and loses 61; both are right on 310, neither on 89."),
        ),
        (
            row(difference=0.04, ci95=[-0.04, 0.12], verdict=None, p_corrected=0.7),
            ("five and zero cannot be told apart on arc: +0.0 points in Accuracy (95 %: +0.0 to +0.1; p 0.7): five wins "
            "61 questions and loses 40; both are right on 310, neither on 89."),
        ),
        (  # significant without the correction: the interval would contradict the sentence
            row(verdict=None, p_corrected=0.08),
            ("five and zero cannot be told apart on arc: +4.2 points in Accuracy (p 0.08): five wins 61 questions and "
            "loses 40; both are right on 310, neither on 89."),
        ),
        (
            graded(higher_is_better=False, difference=-4.2, ci95=[-7.3, 0.4]),
            ("five is ahead of zero on arc by 4.2 in F1 (lower is better; 95 %: -0.4 to 7.3; p 0.008): it wins 61 "
            "questions and loses 40; 399 are tied."),
        ),
        (
            graded(higher_is_better=False, verdict="worse"),
            ("five is behind zero on arc by 4.2 in F1 (lower is better; 95 %: 1.1 to 7.3; p 0.008): it wins 61 "
            "questions and loses 40; 399 are tied."),
        ),
        (
            graded(baseline_value=0.5, run_value=0.542, difference=0.042, ci95=[0.011, 0.073]),
            ("five is ahead of zero on arc by 0.042 in F1 (95 %: 0.011 to 0.073; p 0.008): it wins 61 questions and "
            "loses 40; 399 are tied."),
        ),
        (row(ci95=None, p_corrected=None, verdict=None, won=..., lost=...),
         "five and zero cannot be told apart on arc: +4.2 points in Accuracy."),
        (row(**NOTHING), "five and zero cannot be compared on arc: no question is in both."),
        (
            row(**NOTHING, failed_run=7),
            "five and zero cannot be compared on arc: no question was answered in both.",
        ),
        (
            row(difference=0.0, won=0, lost=0, verdict=None),
            "five and zero do the same on arc: each of the 500 questions has the same Accuracy.",
        ),
        (
            row(difference=0.0, won=0, lost=0, verdict=None, n=1, run_task="arc:b"),
            "five and zero do the same on arc → arc:b: the only question has the same Accuracy.",
        ),
        (
            row(difference=2.5e8, ci95=[1e8, 4e8], both=..., neither=..., won=..., lost=...),
            "five is ahead of zero on arc by 2.50e+08 in Accuracy (95 %: 1.00e+08 to 4.00e+08; p 0.008).",
        ),
    ],
)  # fmt: skip
def test_what_a_row_says(made, said):
    assert plain(sentence(made)) == said


def test_averages_are_told_and_what_they_average_is_counted():
    subsets = [
        row(task=f"s{at}", verdict=verdict) for at, verdict in enumerate(["better"] * 3 + ["worse"] + [None] * 5)
    ]
    lines = [plain(line) for line in answers([*subsets, row(task="all", average="macro")])]
    assert len(lines) == 2
    assert lines[0].startswith("five is ahead of zero on all by 4.2 points")
    assert lines[1] == "In 9 more comparisons, five is ahead in 3 and behind in 1; 5 cannot be told apart."


def test_the_clearest_of_many_are_told():
    rows = [row(task=f"t{at}", p_corrected=p) for at, p in enumerate([0.5, 0.01, None, 0.3, 0.2, 0.04, 0.03])]
    lines = list(answers(rows))
    assert [line.split(" on ")[1].split()[0] for line in lines[:5]] == ["t1", "t6", "t5", "t4", "t3"]
    assert lines[5] == "In 2 more comparisons, five is ahead in 2 and behind in 0; 0 cannot be told apart."


def test_warnings_count_each_task_once_whatever_its_metrics():
    rows = [row(metric=m, task=t, only_baseline=3, failed_run=1) for t in "abcde" for m in ("EM", "F1")]
    assert warnings([*rows, row(task="all", average="macro", only_baseline=15)]) == [
        "15 questions asked in zero and not in five (a, b, c and 2 more tasks): no part of the comparison",
        "5 questions failed in five (a, b, c and 2 more tasks): no part of the comparison",
    ]
    assert warnings([row(only_run=1)]) == ["1 question asked in five and not in zero: no part of the comparison"]
    assert warnings([row()]) == []


# ---- tables ----


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
@pytest.mark.parametrize(
    "rows",
    [
        [row()],
        [graded(), row()],
        [row(task="a_very_long_name_of_a_task/with_parts:and|more" * 3)],
        [row(task="長い名前の試験" * 9)],
        [row(**NOTHING)],
        [row(task=f"t{at}", run=f"run-{at}", run_run=f"run-{at}") for at in range(30)],
        [row(baseline=a * 30, run=b * 30) for a, b in ("xy", "xz", "yz")],
        [row(n=10**9, won=10**8, lost=10**7, both=10**9, neither=10**6, baseline_value=1e300, run_value=-1e300)],
    ],
)
def test_no_line_is_wider_than_the_terminal(rows, width):
    categories = [{**each, "category": "音楽 and other things"} for each in rows]
    setting = {"setting": "instruction", "values": ["x" * 300, "y"], "default": None}
    shown = drawn(rows, categories, [setting], ["a note " * 30], width=width)
    assert all(figure in shown for figure in ("62.00", "66.20", "+4.20", "0.008")) or rows[0]["baseline_value"] != 62.0


def test_names_are_broken_where_their_parts_end():
    name = "mmlu:high_school_government_and_politics"
    assert str(broken(Text(name), 24)).split("\n") == ["mmlu:high_school_", "government_and_politics"]
    assert "".join(str(broken(Text(name), 7)).split("\n")) == name
    assert all(cell_len(line) <= 5 for line in str(broken(Text("長い名前の試験"), 5)).split("\n"))
    assert str(broken(Text("short"), 20)) == "short"


def test_room_is_shared_fairly():
    assert fair_width([5, 30, 30], 45, 8) == 20
    assert fair_width([5, 30], 100, 8) == 30
    assert fair_width([50, 50], 10, 8) == 8
    assert fair_width([], 10, 8) == 8
    assert cut("日本語の文章", 7) == "日本語…"


def test_the_largest_differences_are_shown_by_the_scale_of_each_metric():
    many = [row(task=f"t{at}", difference=float(at)) for at in range(20)]
    few = [graded(task=f"t{at}", difference=at / 1000, run_value=0.1, baseline_value=0.1) for at in range(20)]
    shown = drawn([*many, *few])
    assert "… and 28 more with smaller differences; --all shows them" in shown
    table = shown.split("\n\n")[1]
    assert table.count("Accuracy") == table.count("F1") == 6
    assert drawn([*many, *few], everything=True).count("Accuracy") > 20


def test_small_figures_have_three_digits_and_percents_two():
    shown = drawn([row(), graded(baseline_value=0.5, run_value=0.542, difference=0.042, ci95=[0.011, 0.073])])
    assert "+0.011 to +0.073" in shown
    assert "+4.20" in shown
    assert "0.542" in shown


def test_a_difference_that_is_rounded_to_nothing_has_no_minus():
    shown = drawn([row(difference=-0.001, ci95=[-0.01, 0.01], verdict=None)])
    assert "+0.00" in shown
    assert "-0.0" not in shown


def test_lower_is_better_has_a_mark_and_a_word():
    shown = drawn([row(), graded(higher_is_better=False, difference=-4.2)], width=120)
    assert "F1 ↓" in shown
    assert shown.count("ahead  ") == 2
    assert "F1, lower is better" in drawn([graded(higher_is_better=False)])


def test_search_is_shown_by_its_main_measures():
    measures = ("AC_MRR@1", "AC_MRR@10", "AC_Recall@1", "AC_Recall@10", "AC_Recall@2000t")
    rows = [{**graded(kind="passages"), "metric": name} for name in measures]
    categories = [{**each, "category": "runs"} for each in rows]
    shown = drawn(rows, categories)
    assert "… and 2 more by other measures; --all shows them" in shown
    assert "@1 " not in shown
    assert "By category: AC_MRR@10 (baseline: zero)" in shown
    assert [each["metric"] for each in headline_rows(rows)] == ["AC_MRR@10"]
    assert drawn(rows, everything=True, width=120).count("@1 ") >= 2
    assert "AC_MRR@1 (baseline: zero)" in drawn(rows[:1])


# ---- settings ----


def test_long_values_begin_where_they_differ():
    texts = ["Answer with one word, and nothing else, " + end for end in ("please: {q}", "now: {q}")]
    values = shown_values({"setting": "instruction", "values": texts}, 24)
    assert values == ["…thing else, please: {q}", "…thing else, now: {q}"]
    assert shown_values({"setting": "x", "values": ["ab", "c" * 40]}, 10) == ["ab", "ccccccccc…"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "0"),
        (5, "5"),
        (True, "true"),
        (["a", "b"], "a, b"),
        ([1, "b"], '[1, "b"]'),
        ("x\ny", r"x\ny"),
        ({}, "{}"),
    ],
)
def test_values_are_shown_as_a_user_writes_them(value, shown):
    assert shown_values({"setting": "num_shots", "values": [value], "default": 0}, 40) == [shown]


def test_what_a_run_lacks_is_told_apart_from_a_default():
    assert shown_values({"setting": "limit", "values": [None, 3], "default": None}, 40) == ["not set", "3"]
    assert shown_values({"setting": "version of torch", "values": [None, "2"]}, 40) == ["–", "2"]


def test_many_runs_are_a_list():
    labels = [f"run-{at}" for at in range(9)]
    console = Console(width=80)
    with console.capture() as shown:
        console.print(setting_table([{"setting": "num_shots", "values": [None, *[5] * 8], "default": 0}], labels, 80))
    lines = [line.split() for line in shown.get().splitlines()]
    assert lines[2] == ["--num-shots", "0", "run-0"]
    assert lines[3][:3] == ["5", "run-1,", "run-2,"]


# ---- samples that flipped ----


def option(text, logprob=-1.0):
    return {"text": text, "logprob": logprob, "tokens": 1}


CHOICE = {"answer": 1, "target": 0, "response": [option(" Mars"), option(" Venus")]}


@pytest.mark.parametrize(
    ("sample", "answer", "target"),
    [
        (CHOICE, "Venus", "Mars"),
        ({**CHOICE, "target": [0, 1]}, "Venus", "Mars or Venus"),
        ({**CHOICE, "answer": -1}, "none", "Mars"),
        ({"answer": 2, "target": 0, "response": "C"}, "C", "A"),
        ({"answer": 99, "target": 0, "response": "C"}, "99", "A"),
        ({"answer": " 12\n euros ", "target": ["12 euros", "12"], "response": "x"}, "12 euros", "12 euros or 12"),
        ({"answer": None, "target": None, "response": None}, "none", ""),
        ({"answer": {"text": "so"}, "target": {"d1": 2}, "response": 7}, "so", '{"d1": 2}'),
        ({"answer": ["p1", "p2"], "target": {"p1": 1}, "response": []}, "p1, p2", '{"p1": 1}'),
        ({"answer": True, "target": 1.5, "response": [[]]}, "true", "1.5"),
        ({}, "none", ""),
    ],
)
def test_answers_are_shown_in_words(sample, answer, target):
    assert (answer_text(sample), target_text(sample)) == (answer, target)


def test_texts_of_megabytes_stay_on_their_line():
    long = "ab c_" * 200_000
    found = {**row(task=long), "id": long, "category": long, "baseline_score": 0.0, "run_score": 1.0}
    flip = Flip({**found, "won": True}, {"answer": long, "target": [long]}, {"answer": long + "!"})
    setting = {"setting": "instruction", "values": [long + "x", long + "y"], "default": None}
    shown = drawn([row(task=long, only_run=2)], [row(task=long, category=long)], [setting], (), [flip])
    assert len(shown.splitlines()) < 60
    assert "…" in shown


HOSTILE = "\x1b[31mred\x1b[0m [bold]x[/] \u202e:smile:\nnext"


def test_names_of_strangers_are_text():
    label = {"baseline": f"z · {HOSTILE}", "run": HOSTILE, "task": HOSTILE, "run_model": HOSTILE, "metric": HOSTILE}
    found = {**label, "id": HOSTILE, "category": HOSTILE, "baseline_score": 0.0, "run_score": 1.0, "won": True}
    flip = Flip(found, {"answer": HOSTILE, "target": [HOSTILE]}, {"answer": HOSTILE})
    setting = {"setting": HOSTILE, "values": [HOSTILE, 7]}
    rows = [row(**label), row(**label, run_task=HOSTILE)]
    shown = drawn(rows, [row(**label, category=HOSTILE)], [setting], [HOSTILE], [flip], width=200)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "[bold]x[/]" in shown
    assert ":smile:" in shown
    assert r"\nnext" in shown
