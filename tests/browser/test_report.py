"""report.html, opened from the disk without a network: every number is that of summary.json; samples; light, dark, paper."""

import json
import re
import subprocess
import sys
from decimal import Decimal

import pytest

from tests.browser.readers import Reader, expect, rows_of, verdict_of

RUNS = ["zero", "two", "search", "lookup", "hostile", "after"]
PAIRS = {"shots": ["zero", "two"], "clerks": ["before", "after"], "kinds": ["two", "search", "lookup"]}
NUMBERS = """() => [...document.querySelectorAll("data")].map(each => ({
  row: each.closest("[data-row]")?.dataset.row, field: each.dataset.field, value: each.value, text: each.textContent,
  section: each.closest("section")?.id,
}))"""


@pytest.fixture(scope="module")
def reports(browser, runs, tmp_path_factory):
    """The reports that runs end with, and those of several runs."""
    folder = tmp_path_factory.mktemp("reports")
    for name, keys in PAIRS.items():
        command = [sys.executable, "-m", "kshot", "report", *keys, "--out", folder / f"{name}.html"]
        subprocess.run(command, cwd=runs, check=True, capture_output=True)
    return {**{name: runs / name / "report.html" for name in RUNS}, **{name: folder / f"{name}.html" for name in PAIRS}}


@pytest.fixture
def report(opened, reports):
    """Open a report without a network."""
    return lambda name, **options: Reader(opened(reports[name].as_uri(), offline=True, **options))


def rounded(text, value):
    """Whether a text is this number, rounded to the digits that it shows; shares may be written in percent."""
    shown = re.fullmatch(r"(< )?([+−-]?)([\d,]*\.?\d+)( %)?", text.strip())
    assert shown is not None, text
    number = Decimal(shown[3].replace(",", "")) * (-1 if shown[2] in {"−", "-"} else 1)
    value = Decimal(value) * (100 if shown[4] and abs(Decimal(value)) <= 1 else 1)
    last = Decimal(1).scaleb(int(number.as_tuple().exponent))
    return value < number if shown[1] else abs(number - value) <= last / 2


def numbers_in(value):
    """All numbers within a value of JSON."""
    if isinstance(value, dict | list):
        return {each for part in (value.values() if isinstance(value, dict) else value) for each in numbers_in(part)}
    return {float(value)} if isinstance(value, int | float) else set()


@pytest.mark.parametrize("name", [*RUNS, *PAIRS])
def test_every_number_is_that_of_the_summary(report, runs, name):
    numbers = report(name).page.evaluate(NUMBERS)
    of_summaries = [number for number in numbers if number["row"]]
    assert len(of_summaries) > 5
    keys = PAIRS.get(name, [name])
    summaries = {key: json.loads((runs / key / "summary.json").read_text(encoding="utf-8")) for key in keys}
    for number in of_summaries:
        key, part, index = number["row"].split("/")
        value = summaries[key][part][int(index)]
        for step in number["field"].split("."):
            value = value[int(step) if isinstance(value, list) else step]
        assert float(number["value"]) == value, number
    for number in numbers:
        assert rounded(number["text"], number["value"]), number
    elsewhere = {number["section"] for number in numbers if not number["row"]}
    assert elsewhere <= {"calibration", "comparison"}  # these are computed from samples; no summary has them


@pytest.mark.parametrize("name", ["shots", "clerks"])
def test_every_number_of_a_comparison_is_that_of_kshot_compare(report, runs, name):
    command = [sys.executable, "-m", "kshot", "compare", *PAIRS[name], "--json"]
    done = subprocess.run(command, cwd=runs, capture_output=True, text=True, check=True)
    compared = numbers_in(json.loads(done.stdout))
    shown = [each for each in report(name).page.evaluate(NUMBERS) if each["section"] == "comparison"]
    assert len(shown) > 5
    for number in shown:
        assert float(number["value"]) in compared, number


@pytest.mark.parametrize("name", [*RUNS, *PAIRS])
def test_a_report_is_one_small_file_that_asks_nobody(report, reports, opened, name):
    report(name)
    assert reports[name].stat().st_size <= 2_000_000
    assert {url.partition("#")[0] for url in opened.requests if not url.startswith(("data:", "blob:"))} == {
        reports[name].as_uri()
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(report, axe, scheme):
    for name in ("lookup", "search", "clerks"):
        reader = report(name, color_scheme=scheme, bypass_csp=True)
        reader.page.locator("details").evaluate_all("all => all.forEach(each => { each.open = true })")
        reader.go(f"#/run/{PAIRS.get(name, [name])[0]}/samples")
        expect(reader.rows.first).to_be_visible()
        assert axe(reader.page) == [], name


def test_no_report_is_wider_than_a_phone(report):
    for name in (*RUNS, *PAIRS):
        reader = report(name, width=390, height=844, is_mobile=True, has_touch=True)
        assert reader.overflow() <= 0, name


def test_every_chart_has_a_title_and_its_numbers(report):
    reader = report("lookup")
    charts = reader.page.locator("figure:has(svg)")
    assert charts.count() > 1
    for chart in charts.all():
        expect(chart.locator("figcaption")).not_to_be_empty()
        assert chart.locator("svg").first.get_attribute("role") == "img"
        assert chart.locator("details table tr").count() > 1


def test_samples_are_searched_filtered_and_opened_within_the_file(report, runs):
    rows = rows_of(runs / "after")
    wrong = [row for row in rows if verdict_of(row) == "wrong"]
    reader = report("after").go("#/run/after/samples")
    expect(reader.outcome("wrong")).to_be_visible()
    reader.outcome("wrong").click()
    expect(reader.page.locator(".samples-count")).to_contain_text(f"{len(wrong):,} of")
    reader.search.fill(f'"on day {wrong[7]["id"]}"')
    expect(reader.page.locator(".samples-count")).to_contain_text("1 of")
    reader.rows.first.get_by_role("link").click()
    expect(reader.sample).to_contain_text(wrong[7]["response"])
    again = reader.again()
    expect(again.sample).to_contain_text(wrong[7]["response"])
    again.page.keyboard.press("Escape")
    expect(again.sample).to_have_count(0)


def test_flips_of_two_runs_stand_side_by_side(report, runs):
    both = list(zip(rows_of(runs / "before"), rows_of(runs / "after"), strict=True))
    won = sum(verdict_of(old) == "wrong" and verdict_of(new) == "right" for old, new in both)
    reader = report("clerks").go("#/run/after/samples?other=before&flip=won")
    expect(reader.page.locator(".samples-count")).to_contain_text(f"{won:,} of")
    reader.rows.first.get_by_role("link").click()
    expect(reader.sample).to_have_count(2)
    expect(reader.page.locator(".side-by-side ins").first).to_be_visible()


def test_hostile_texts_do_nothing_in_a_report(report, runs):
    reader = report("hostile").go("#/run/hostile/samples")
    count = len(rows_of(runs / "hostile"))
    expect(reader.rows).to_have_count(count)
    for at in range(count):
        reader.go(f"#/run/hostile/samples/{at}")
        expect(reader.page.locator(".sample-head h2")).to_contain_text(str(at))
        assert reader.page.evaluate("window.owned") is None
        assert reader.page.locator("img, iframe, [onerror], [onload]").count() == 0
        assert reader.overflow() <= 0


def test_a_report_on_paper_is_white_and_has_no_controls(report):
    reader = report("after", color_scheme="dark").go("#/run/after/samples")
    expect(reader.rows.first).to_be_visible()
    reader.page.emulate_media(media="print")
    ground = reader.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert ground in {"rgb(255, 255, 255)", "rgba(0, 0, 0, 0)"}
    expect(reader.search).not_to_be_visible()
    assert reader.page.pdf()[:5] == b"%PDF-"
