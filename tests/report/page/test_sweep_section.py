"""Sweeps on pages: the few-shot curve, and rows for values that are no numbers."""

import re

from kshot.report.page.page_run import PageRun
from kshot.report.page.run_sections import run_sections, subject_sections
from kshot.runs.record import RunRecord
from tests.runs.test_swept_rows import figure


def page_run(*rows):
    return PageRun("run", "run", RunRecord(list(rows), [], None, [], [], [], {}, []))


def sweep_section(runs):
    return next((section for section in subject_sections(runs) if section.id == "sweeps"), None)


CURVE = [
    figure(30, num_shots=0),
    *(figure(k + b, num_shots=k, retriever=r) for k in (2, 10) for r, b in (("bm25", 40), ("topk", 50))),
]


def test_the_curve_has_a_line_a_ribbon_and_a_name_for_each_retriever():
    section = sweep_section([page_run(*CURVE)])
    assert section.title == "The few-shot curve"
    wide, narrow = re.findall(r"<svg[^>]*class=\"curve\".*?</svg>(?=</div>)", str(section.html), re.DOTALL)
    for picture in (wide, narrow):
        assert picture.count("<polyline") == 2
        assert picture.count('class="ribbon') == 2
        assert [name for name in ("bm25 50.00", "topk 60.00") if name in picture] == ["bm25 50.00", "topk 60.00"]
        assert "examples in the prompt (k)" in picture
    path = re.search(r'<polyline[^>]*points="([^"]*)"', wide)[1].split()
    across, down = zip(*(map(float, point.split(",")) for point in path), strict=True)
    assert list(across) == sorted(across)
    assert list(down) == sorted(down, reverse=True)  # upwards
    assert 'data-row="run/results/0"' in section.html  # the numbers name their place in summary.json


def test_one_line_has_its_figures_above_the_points():
    section = sweep_section([page_run(figure(10, num_shots=0), figure(25, num_shots=1))])
    assert re.findall(r'lines-name s1">([\d.]+)<', str(section.html))[:2] == ["10.00", "25.00"]


def test_many_lines_have_thin_intervals_and_other_values_rows():
    rows = [figure(k + at, num_shots=k, retriever=f"r{at}") for k in (1, 2) for at in range(5)]
    html = str(sweep_section([page_run(*rows)]).html)
    assert "ribbon" not in html
    assert html.count("whisker thin") == 2 * 10
    section = sweep_section([page_run(figure(40, ranking_type="ppl"), figure(60, ranking_type="prob"))])
    assert section.title == "Sweeps"
    assert "Accuracy by ranking type" in section.html
    assert "curve" not in section.html


def test_figures_of_a_sweep_stand_in_its_section_alone():
    titles = [section.title for section in run_sections([page_run(*CURVE)])]
    assert titles[0] == "The few-shot curve"
    assert "Main figures" not in titles
    assert "By number of examples" not in titles
    single = {"task": "other", "model": "m", "metric": "Accuracy", "value": 5.0, "n": 3, "higher_is_better": True}
    titles = [section.title for section in run_sections([page_run(*CURVE, {**single, "ci95": None})])]
    assert titles[:2] == ["The few-shot curve", "Main figures"]
    assert sweep_section([page_run({**single, "ci95": None})]) is None
