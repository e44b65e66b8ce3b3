"""Charts: complete figures whose marks stand where the numbers are, whatever names they have."""

import re
from itertools import pairwise

import pytest

from kshot.report.page.calibration_section import ReliabilityBin, reliability_chart
from kshot.report.page.charts import (
    CellsRow,
    Chart,
    IntervalRow,
    chart_grid,
    folded,
    interval_chart,
    sentences,
    stacked_bars,
    table_html,
)
from kshot.report.page.charts_lines import line_chart
from kshot.report.page.lookup_section import heat_map
from kshot.report.page.markup import tag
from kshot.report.page.report_page import web_file
from kshot.report.page.svg import SERIES, SHADES
from kshot.report.view import Cell, Series, TableView, numbers, words
from tests.report.page.page_reading import figures, text_of, tree, with_class

HOSTILE = '<script>alert(1)</script>" onload="x\u202e\x1b[31m' + "W" * 270


def figure(value, low=None, high=None):
    ends = None if low is None else tuple(Cell(f"{end:.1f}", end) for end in (low, high))
    return Cell(f"{value:.2f}", value, interval=ends)


def charts(name="a"):
    """One chart of each kind, with this text wherever a foreign one stands."""
    found, other = figure(40.0, 30.0, 52.0), figure(80.0)
    row = IntervalRow(name, found, [Cell("12", 12)], group=name)
    half = figure(0.5, 0.4, 0.6)
    bins = [ReliabilityBin(0.0, 0.5, Cell("0.30", 0.3), half, Cell("4", 4))]
    return [
        interval_chart("c1", name, [row], bounds=[0, 100]),
        interval_chart("c2", name, [row], reference=(0.0, "no difference")),
        line_chart("c3", name, ["1", name], [Series(name, [found, other])], across=name, band=(name, [(1, 2), None])),
        heat_map("c4", name, [name, "b"], [CellsRow(name, [found, None], name)], across=name),
        stacked_bars("c5", name, [name, "other"], [CellsRow(name, [found, figure(10.0)], name)], across=name),
        reliability_chart("c6", name, bins, notes=[name]),
    ]


def test_every_chart_is_a_figure_with_a_title_a_picture_and_its_table():
    found = figures(chart_grid(chart.html for chart in charts()))
    assert [each.get("id") for each in found] == ["c1", "c2", "c3", "c4", "c5", "c6"]


@pytest.mark.parametrize("at", range(6))
def test_hostile_names_stay_text(at):
    page = charts(HOSTILE)[at].html
    (found,) = figures(page)
    assert not list(found.iter("script"))
    assert not any(name.startswith("on") or name == "style" for each in found.iter() for name in each.attrib)
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert r"\u202e\x1b[31m" in text_of(found)


@pytest.mark.parametrize("at", range(6))
def test_charts_have_classes_instead_of_colours(at):
    page = str(charts()[at].html)
    assert not re.search(r"#[0-9a-f]{3,6}\b|style=|rgb", page)


def cells(page):
    return [[text_of(cell) for cell in row] for row in tree(page).iter("tr")]


def test_intervals_stand_where_their_values_are():
    page = interval_chart("c", "t", [IntervalRow("a", figure(25.0, 10.0, 50.0), [Cell("8", 8)])], bounds=[0, 100]).html
    (wide, narrow) = (with_class(tree(page), name)[-1] for name in ("wide", "narrow"))
    for layer in (wide, narrow):
        (whisker,) = with_class(layer, "whisker")
        assert (whisker.get("x1"), whisker.get("x2")) == ("10%", "50%")
        (mark,) = with_class(layer, "marker")
        places = [each.get("x") for each in layer.iter("svg") if mark in list(each)]
        assert places == ["25%"]
    assert [text_of(each) for each in with_class(wide, "soft")] == ["10.0–50.0", "8"]
    assert [text_of(each) for each in with_class(narrow, "end")] == ["value", "25.00"]
    assert cells(page)[1:] == [["a", "25.00", "10.0–50.0", "8"]]


def test_differences_have_signs_and_a_line_at_zero():
    ends = Cell("+5.0", 5.0, interval=(Cell("-2.0", -2.0), Cell("+12.0", 12.0)))
    page = interval_chart("c", "t", [IntervalRow("a", ends, hollow=True)], reference=(0.0, "no gap")).html
    assert "-2.0 to +12.0" in text_of(tree(page))
    assert with_class(tree(page), "reference")
    assert with_class(tree(page), "hollow")


def test_a_figure_that_is_unknown_has_no_mark():
    page = interval_chart("c", "t", [IntervalRow("a", Cell("–"))], bounds=[0, 1]).html
    assert not with_class(tree(page), "marker")
    assert cells(page)[1][1] == "–"


def test_of_many_rows_some_are_drawn_and_all_are_in_the_table():
    rows = [IntervalRow(f"row {at}", figure(float(at))) for at in range(70)]
    page = interval_chart("c", "t", rows).html
    assert len(with_class(with_class(tree(page), "narrow")[0], "marker")) == 60
    assert len(cells(page)) == 71
    assert "60 of 70 rows are drawn" in text_of(tree(page))


NAMES = [f"lookup:{task}:{length}:sep|small|bare" for task in ("UR", "NLFirst") for length in (20, 40)]


@pytest.mark.parametrize("chart", ["intervals", "stacked"])
def test_names_that_would_be_cut_to_the_same_text_lose_what_they_share(chart):
    if chart == "intervals":
        made = interval_chart("c", "t", [IntervalRow(name, figure(1.0)) for name in NAMES])
    else:
        made = stacked_bars("c", "t", ["kind"], [CellsRow(name, [figure(1.0)]) for name in NAMES], across="x")
    (narrow,) = with_class(tree(made.html), "narrow")
    shown = [each for each in narrow.iter("text") if each.get("class") == "name"]
    assert [each.text for each in shown] == ["…UR:20…", "…UR:40…", "…NLFirst:20…", "…NLFirst:40…"]
    assert [text_of(each.find("title")) for each in shown] == NAMES


def test_an_interval_that_its_mark_would_hide_is_not_drawn():
    series = [Series("a", [figure(50.0, 40.0, 60.0), figure(50.0, 49.5, 50.5)])]
    page = line_chart("c", "t", ["1", "2"], series, across="k", bounds=[0, 100]).html
    assert len(with_class(tree(page), "whisker")) == 1
    assert "49.5" in text_of(tree(page).find("figure/details"))


def test_lines_differ_in_colour_shape_and_name_and_the_rest_is_thin():
    series = [Series(f"model {at}", [figure(10.0 * at, 0.0, 100.0), figure(5.0 * at)]) for at in range(9)]
    page = line_chart("c", "t", ["10", "20"], series, across="length", bounds=[0, 100]).html
    paths = with_class(tree(page), "path")
    assert len(paths) == 9
    assert sum("rest" in path.get("class") for path in paths) == 9 - SERIES
    assert len({path.get("class") for path in paths}) == SERIES + 1
    assert {text_of(each) for each in with_class(tree(page), "lines-name")} == {f"model {at}" for at in range(SERIES)}
    assert "7 of 9 lines have names" in text_of(tree(page))
    assert len(cells(page)) == 1 + 18


def test_a_line_passes_over_missing_steps():
    page = line_chart("c", "t", ["1", "2", "3"], [Series("a", [figure(1.0), None, figure(3.0)])], across="k").html
    (path,) = with_class(tree(page), "path")
    assert len(path.get("points").split()) == 2
    assert [row[1] for row in cells(page)[1:]] == ["1", "3"]


def test_points_of_a_line_are_where_the_scale_has_them():
    page = line_chart("c", "t", ["1"], [Series("a", [figure(50.0, 0.0, 100.0)])], across="k", bounds=[0, 100]).html
    (whisker,) = with_class(tree(page), "whisker")
    (path,) = with_class(tree(page), "path")
    middle = (float(whisker.get("y1")) + float(whisker.get("y2"))) / 2
    assert float(path.get("points").partition(",")[2]) == middle


def test_cells_of_a_heat_map_print_their_values():
    page = heat_map("c", "t", ["10", "20"], [CellsRow("a", [figure(0.0), figure(100.0)])], across="length").html
    shades = with_class(tree(page), "cell")
    assert [each.get("class") for each in shades] == ["cell h0", "cell h9"]
    assert [text_of(each.find("text")) for each in shades] == ["0.00", "100.00"]


def test_parts_of_a_bar_add_up_and_have_patterns():
    rows = [CellsRow("a", [figure(10.0), figure(0.0), figure(30.0)])]
    page = stacked_bars("c", "t", ["x", "y", "z"], rows, across="%").html
    wide = with_class(tree(page), "wide")[-1]
    boxes = [each for each in wide.iter("rect") if each.get("class") == "part"]
    assert [(each.get("x"), each.get("width")) for each in boxes] == [("0%", "25%"), ("25%", "75%")]
    patterns = {each.get("id") for each in tree(page).iter("pattern")}
    used = {each.get("fill")[5:-1] for each in tree(page).iter("rect") if each.get("fill")}
    assert used <= patterns
    assert len(patterns) == 3
    assert [text_of(each) for each in with_class(tree(page), "legend")[0]] == ["x", "y", "z"]


def test_a_reliability_diagram_has_points_and_counts():
    bins = [
        ReliabilityBin(0.0, 0.5, Cell("0.25", 0.25), figure(0.25, 0.1, 0.6), Cell("10", 10)),
        ReliabilityBin(0.5, 1.0, Cell("0.75", 0.75), figure(0.5, 0.2, 0.8), Cell("5", 5)),
    ]
    page = reliability_chart("c", "t", bins).html
    (path,) = with_class(tree(page), "path")
    (first, _) = path.get("points").split()
    (reference,) = with_class(tree(page), "reference")
    x, y = map(float, first.split(","))  # a quarter of the way along the diagonal, on it
    x1, y1, x2, y2 = (float(reference.get(name)) for name in ("x1", "y1", "x2", "y2"))
    assert ((x - x1) / (x2 - x1), (y - y1) / (y2 - y1)) == (0.25, 0.25)
    heights = [float(each.get("height")) for each in tree(page).iter("rect")]
    assert heights[0] == 2 * heights[1]


def test_tables_align_columns_of_numbers():
    table = TableView([*words("name"), *numbers("value")], [("a", Cell("1.50", 1.5)), ("b", None)])
    page = tree(table_html(table, "Scores"))
    assert [head.get("class") for head in page.iter("th") if head.get("scope") == "col"] == [None, "num"]
    assert [text_of(head) for head in page.iter("th") if head.get("scope") == "row"] == ["a", "b"]
    assert (page[0].get("role"), page[0].get("aria-label")) == ("region", "Scores")


def test_texts_around_charts():
    assert sentences([]) == ""
    (said,) = tree(sentences(["a (95 %: 1 to 2; p < 0.01) < b, p 0.3"])).iter("li")
    assert text_of(said) == "a (95\xa0%: 1 to 2; p\xa0<\xa00.01) < b, p\xa00.3"  # no line is broken within a value
    assert tree(folded("more", tag("p", "x"))).find("details/summary").text == "more"
    assert Chart("c", "t", tag("svg"), TableView((), ()), wide=True).html.startswith('<figure class="chart wide"')


# ---- the style sheet ----


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(part * weight for part, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


def contrast(one, other):
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def ramps():
    """The shades of heat maps with the colour of their text: those of light pages, and those of dark ones."""
    pair = r"light-dark\((#\w{6}), (#\w{6})\)"
    rules = re.findall(rf"\.h(\d) {{ --shade: {pair}; --on: {pair}; }}", web_file("charts.css"))
    assert [int(number) for number, *_ in rules] == [*range(SHADES)]
    return [(shade, on) for _, shade, _, on, _ in rules], [(shade, on) for _, _, shade, _, on in rules]


@pytest.mark.parametrize("ramp", [0, 1])
def test_the_text_of_a_heat_map_can_be_read_on_every_shade(ramp):
    assert min(contrast(*pair) for pair in ramps()[ramp]) >= 4.5


@pytest.mark.parametrize("ramp", [0, 1])
def test_shades_go_steadily_from_the_paper_to_the_darkest_or_lightest(ramp):
    light = [luminance(shade) for shade, _ in ramps()[ramp]]
    assert light == sorted(light, reverse=ramp == 0)
    assert all(contrast(*pair) > 1.1 for pair in pairwise(shade for shade, _ in ramps()[ramp]))


def token(name, dark):
    light_dark = re.search(rf"--{name}: light-dark\((#\w{{6}}), (#\w{{6}})\)", web_file("style.css"))
    return light_dark[1 + dark]


def mixed(one, other, share):
    parts = [[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in (one, other)]
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in zip(*parts, strict=True))


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("series", range(1, SERIES + 1))
def test_series_can_be_seen_and_their_names_read(series, dark):
    share = int(re.search(r"\.lines-name { fill: color-mix\(in srgb, var\(--own\) (\d+)%", web_file("charts.css"))[1])
    own, ink, paper = (token(name, dark) for name in (f"series-{series}", "ink", "paper"))
    assert contrast(own, paper) >= 3
    assert contrast(mixed(own, ink, share / 100), paper) >= 4.5
