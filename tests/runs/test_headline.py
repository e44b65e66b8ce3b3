"""The metric that stands for a task: the same wherever a headline is shown."""

import pytest

from kshot.report.breakdown import breakdown
from kshot.report.comparison import headline_rows
from kshot.runs.headline import headline_figures, headlines
from kshot.runs.sample_filters import metric_scales


def rows(*metrics, **more):
    same = {"task": "passages", "model": "bm25", "higher_is_better": True, "value": 1.0, "n": 3, "failed": 0, **more}
    return [{**same, "metric": metric} for metric in metrics]


@pytest.mark.parametrize(
    ("metrics", "headline"),
    [
        (("AC_Recall@10", "AC_MRR@10"), "AC_MRR@10"),
        (("AC_MRR@10", "AC_Recall@10"), "AC_MRR@10"),
        (("R@100", "nDCG@10", "RR@10"), "nDCG@10"),
        (("nDCG@10", "AC_MRR@10"), "AC_MRR@10"),
        (("RR@10", "R@100"), "RR@10"),
        (("EM", "F1"), "EM"),
        (("AC_MRR@10", "AC_Recall@10", "AC_Recall@2000t", "nDCG@5"), "AC_MRR@10"),
    ],
)
def test_all_parts_agree(metrics, headline):
    made = rows(*metrics, kind="passages", bounds=[0, 1])
    assert [row["metric"] for row in headlines(made, lambda row: row["task"])] == [headline]
    assert [figure["metric"] for figure in headline_figures(made)] == [headline]
    assert [scale.metric for scale in metric_scales(made).values()] == [headline]
    parts = rows(*metrics, kind="passages", category="a", task="passages[a]")
    assert [row["metric"] for row in breakdown(parts).rows] == [headline]
    compared = rows(*metrics, kind="passages", baseline="one", run="two")
    assert [row["metric"] for row in headline_rows(compared)] == [headline]


def test_a_detail_is_no_headline():
    made = [*rows("first", detail=True), *rows("second")]
    assert [row["metric"] for row in headlines(made, lambda row: row["task"])] == ["second"]
    assert headlines(rows("first", detail=True), lambda row: row["task"]) == []


def test_another_task_has_its_own():
    made = [*rows("EM", "F1", category="a", task="x[a]"), *rows("F1", "EM", category="a", task="y[a]")]
    assert [(row["task"], row["metric"]) for row in breakdown(made).rows] == [("x[a]", "EM"), ("y[a]", "F1")]
