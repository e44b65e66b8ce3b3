"""Results in a notebook."""

import re
from html.parser import HTMLParser

import pytest

import kshot
from kshot.report.notebook import MAX_ROWS, comparison_html, results_html
from kshot.runs.comparing import Comparison
from kshot.runs.record import RunRecord
from tests.compared_runs import SHOP

ROW = {
    "task": "arc", "model": "m", "metric": "Accuracy", "higher_is_better": True, "value": 60.0, "n": 50, "failed": 0,
    "ci95": [46.2, 72.4], "bounds": [0, 100],
}  # fmt: skip


class Page(HTMLParser):
    """Collects the cells of each row, and checks that every tag is closed where it was opened."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.tags = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in {"line", "circle"}:
            return
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        if tag not in {"line", "circle"}:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open) and "title" not in self.open:
            self.rows[-1][-1] += data


def shown(*rows, **more):
    return Page(results_html(RunRecord(list(rows), [], **more)))


def test_a_figure_stands_with_its_interval_and_its_chart():
    page = shown(ROW)
    assert page.rows == [
        ["task", "metric", "n", "value", "95 %", "0100"],
        ["arc", "Accuracy", "50", "60.00", "46.2–72.4", ""],
    ]
    (circle,) = [attrs for tag, attrs in page.tags if tag == "circle"]
    assert circle["cx"] == "107.0"  # 60 % of the way from 5 to 175
    (svg,) = [attrs for tag, attrs in page.tags if tag == "svg"]
    assert svg["aria-label"] == "60.00, 95 % 46.2 to 72.4; drawn from 0 to 100"


def test_models_have_a_column_only_if_there_are_several():
    page = shown(ROW, {**ROW, "model": "hf:models/other", "value": 50.0})
    assert [row[1] for row in page.rows] == ["model", "m", "hf:other"]


def test_averages_come_first_and_what_breaks_figures_down_is_folded():
    rows = [
        {**ROW, "task": "mmlu:a"}, {**ROW, "task": "mmlu:a[x]", "category": "x"},
        {**ROW, "task": "mmlu:a", "metric": "acc_norm", "detail": True}, {**ROW, "task": "mmlu", "average": "weighted"},
    ]  # fmt: skip
    page = shown(*rows)
    assert [row[0] for row in page.rows if row[0] != "task"] == ["mmlu", "mmlu:a", "mmlu:a[x]", "mmlu:a"]
    assert [tag for tag, _ in page.tags].count("details") == 2


def test_many_rows_are_cut_and_counted():
    page = shown(*({**ROW, "task": f"t{number}"} for number in range(MAX_ROWS + 27)))
    assert len(page.rows) == MAX_ROWS + 2
    assert page.rows[-1] == ["… and 27 more: to_pandas() has all of them"]


def test_failures_are_told_once_for_each_task():
    text = results_html(RunRecord([{**ROW, "failed": 3}, {**ROW, "failed": 3, "metric": "F1"}], []))
    assert "<b>3 samples failed</b>" in text
    assert Page(text).rows[1][-1] == "3"


@pytest.fixture
def shop(tmp_path, monkeypatch):
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("models", "dataset", "options"),
    [
        (["shop.py:Clerk,fails=9"], "shop.py:Prices", {"dataset_path": "40"}),  # categories
        (["shop.py:Clerk,fails=9", "shop.py:Clerk,fails=5,seed=b"], "shop.py:Graded", {"dataset_path": "40"}),
        (
            ["shop.py:Clerk,fails=9"],
            "shop.py:Prices",
            {"dataset_path": "40", "num_shots": 2, "retriever_seeds": "0..1"},
        ),
        (["shop.py:Clerk,fails=9"], "shop.py:Exams:anatomy,virology,astronomy", {}),  # subsets and their averages
    ],
)
def test_each_failed_sample_of_a_run_is_counted_once(shop, models, dataset, options):
    result = kshot.evaluate(models, dataset, **options)
    failed = sum("failed" in row for row in result.iter_samples())
    assert failed
    assert f"<b>{failed} sample{'' if failed == 1 else 's'} failed</b>" in result._repr_html_()


def test_a_task_without_a_figure_has_no_chart():
    page = shown({**ROW, "value": None, "ci95": None, "n": 0, "failed": 9})
    assert page.rows[1][3] == "–"
    assert not [tag for tag, _ in page.tags if tag == "svg"]


def test_foreign_names_are_text():
    evil = "<script>alert(1)</script>\x1b[31m\u202e"
    text = results_html(RunRecord([{**ROW, "task": evil, "metric": evil}], []))
    assert "<script" not in text
    assert re.search("[\x1b\u202e]", text) is None


def test_an_empty_run_is_an_empty_table():
    assert shown().rows == [["task", "metric", "n", "value", "95 %", ""]]


def test_figures_without_bounds_share_the_scale_of_what_is_drawn():
    row = {name: value for name, value in ROW.items() if name != "bounds"}
    page = shown(row, {**row, "task": "other", "value": 10.0, "ci95": [5.0, 20.0]})
    assert page.rows[0][-1] == "572.4"


def test_an_open_scale_ends_where_the_figures_end():
    page = shown({**ROW, "metric": "TER", "higher_is_better": False, "bounds": [0.0, None]})
    assert page.rows[0][-1] == "072.4"


def test_search_shows_the_measures_that_a_terminal_shows_and_folds_the_others():
    result = kshot.evaluate("fts5", "handbook", limit=5)
    measures = dict.fromkeys(row["metric"] for row in result.results)
    main = Page(result._repr_html_().partition("<details>")[0] + "</div>").rows[1:]
    assert 0 < len(main) < len(measures)
    assert {row[0] for row in main} == {row["task"] for row in result.results if "category" not in row}
    assert f"More figures ({len(measures) - len(main)})" in result._repr_html_()


COMPARED = {
    "task": "arc", "metric": "Accuracy", "higher_is_better": True, "baseline": "zero", "run": "five",
    "baseline_run": "zero", "baseline_model": "m", "run_run": "five", "run_model": "m", "baseline_value": 50.0,
    "run_value": 60.0, "difference": 10.0, "ci95": [2.0, 18.0], "p": 0.01, "p_corrected": 0.01, "family": 1, "n": 100,
    "won": 15, "lost": 5, "both": 45, "neither": 35, "only_baseline": 0, "only_run": 3, "failed_baseline": 0,
    "failed_run": 0, "verdict": "better",
}  # fmt: skip
RUNS = [{"label": "zero", "path": "zero", "models": ["m"]}, {"label": "five", "path": "five", "models": ["m"]}]


def compared(*rows, categories=(), settings=()):
    return Comparison(RUNS, list(rows), list(categories), list(settings), ["a note"])


def test_a_comparison_says_who_is_ahead_and_draws_the_difference():
    text = comparison_html(compared(COMPARED, settings=[{"setting": "num_shots", "default": 0, "values": [None, 5]}]))
    page = Page(text)
    assert "five is ahead of zero on arc" in text
    assert "a note" in text
    head, row, *settings = page.rows
    assert head[3:5] == ["zero", "five"]
    assert row[:7] == ["arc", "Accuracy", "100", "50.0", "60.0", "+10.0", "+2.0 to +18.0"]
    assert row[8:] == ["0.01", "15", "5"]
    (circle,) = [attrs for tag, attrs in page.tags if tag == "circle"]
    assert float(circle["cx"]) > 90  # right of the middle, where 0 is
    assert settings == [["setting", "zero", "five"], ["--num-shots", "0", "5"]]


def test_several_comparisons_name_their_systems_and_fold_their_categories():
    other = {**COMPARED, "run": "two"}
    page = Page(comparison_html(compared(COMPARED, other, categories=[{**COMPARED, "category": "x"}])))
    assert page.rows[0][1:3] == ["baseline", "run"]
    assert page.rows[-1][0] == "arc[x]"
    assert [tag for tag, _ in page.tags].count("details") == 1


def test_foreign_names_of_a_comparison_are_text():
    assert "<script" not in comparison_html(compared({**COMPARED, "task": "<script>", "run": "<script>"}))


NOTHING = {
    **COMPARED, "run_value": None, "baseline_value": None, "difference": None, "ci95": None, "p": None,
    "p_corrected": None, "n": 0, "won": 0, "lost": 0, "both": 0, "neither": 0, "verdict": None,
}  # fmt: skip


def test_a_comparison_in_which_no_sample_was_answered_on_both_sides_has_no_figure(shop):
    zero = kshot.evaluate("shop.py:Clerk", "shop.py:Prices", limit=8, out="zero")
    asleep = kshot.evaluate("shop.py:Clerk,fails=100", "shop.py:Prices", limit=8, out="asleep")
    text = kshot.compare(zero, asleep)._repr_html_()
    assert "cannot be compared on prices: no question was answered in both" in text
    row = Page(text).rows[1]
    assert row[:7] == ["prices", "EM", "0", "–", "–", "–", ""]
    assert "<svg" not in text


def test_a_figure_that_is_missing_leaves_the_others_drawn():
    page = Page(comparison_html(compared({**NOTHING, "task": "other"}, COMPARED)))
    assert [row[5] for row in page.rows] == ["difference", "–", "+10.0"]
    assert [row[8] for row in page.rows] == ["p", "", "0.01"]
    assert [tag for tag, _ in page.tags].count("svg") == 1


def test_each_metric_has_a_chart_on_its_own_scale_and_digits():
    small = {"metric": "BPB", "higher_is_better": False, "baseline_value": 0.5, "run_value": 0.4, "difference": -0.1}
    graded = {name: value for name, value in COMPARED.items() if name not in {"both", "neither"}}
    page = Page(comparison_html(compared(COMPARED, {**graded, **small, "ci95": [-0.2, 0.0], "tied": 80})))
    assert [row[1] for row in page.rows[1:]] == ["Accuracy", "BPB ↓"]
    assert page.rows[2][3:6] == ["0.500", "0.400", "-0.100"]
    places = [float(attrs["cx"]) for tag, attrs in page.tags if tag == "circle"]
    assert places == [pytest.approx(90 + 85 * 10 / 18, abs=0.1), pytest.approx(90 - 85 / 2, abs=0.1)]
