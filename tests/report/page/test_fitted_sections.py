"""What a report has no room for: tables give way before charts, and charts before whole sections."""

from markupsafe import Markup

from kshot.report.page.charts import Chart
from kshot.report.page.markup import Section, tag, together
from kshot.report.page.report_page import fitted_sections
from kshot.report.page.svg import drawing
from kshot.report.view import TableView, words
from tests.report.page.page_reading import text_of, tree


def chart(at, rows, picture=1_000):
    table = TableView(
        words("name", "value"), [(f"<details class='numbers'></details> {each}", "x" * 40) for each in range(rows)]
    )
    drawn = drawing(f"chart-{at}", "p" * picture, [], width=10, height=10, class_="x")
    return Chart(f"chart-{at}", f"chart {at}", drawn, table).html


def charts(section):
    return {each.get("id"): each for each in tree(section.html).iter("figure")}


def size(sections):
    return sum(len(each.html.encode()) for each in sections)


def test_sections_that_fit_stay_as_they_are():
    sections = [Section("a", "A", chart(0, 5))]
    assert fitted_sections(sections, size(sections)) == sections


def test_the_largest_tables_give_way_first():
    sections = [Section("a", "A", together((chart(0, 5), chart(1, 150)))), Section("b", "B", chart(2, 100))]
    found = fitted_sections(sections, size(sections) - 1_000)
    assert size(found) <= size(sections) - 1_000
    assert [len(each.findall("details")) for each in charts(found[0]).values()] == [1, 0]
    assert found[1] == sections[1]
    assert "The table has no room in this report; summary.json has its numbers." in text_of(tree(found[0].html))


def test_charts_give_way_when_no_table_is_left():
    sections = [Section("a", "A", together((chart(0, 5, 9_000), chart(1, 5, 2_000), Markup("<p>said</p>"))))]
    found = fitted_sections(sections, 5_000)
    assert size(found) <= 5_000
    assert list(charts(found[0])) == ["chart-1"]
    assert "A chart has no room in this report; kshot view shows it." in text_of(tree(found[0].html))
    assert "said" in found[0].html


def test_a_section_that_is_still_too_large_gives_way_as_a_whole():
    sections = [Section("a", "A", tag("p", "é" * 9_000)), Section("b", "B", tag("p", "short"))]
    found = fitted_sections(sections, 1_000)
    assert "and a report has no room for it" in found[0].html
    assert found[1] == sections[1]
    assert fitted_sections(found, 0) == found  # what is short stays
