"""The few-shot curve in report.html: on a desk, on a phone, in light and dark, and for those who do not see it."""

import pytest

from kshot import evaluate
from tests.browser.example_runs import PLANETS
from tests.browser.readers import expect


@pytest.fixture(scope="module")
def report(browser, tmp_path_factory):
    """The report of a sweep."""
    folder = tmp_path_factory.mktemp("sweep") / "run"
    evaluate("embedded", f"{PLANETS}:Planets", num_shots=[0, 1, 2], retriever=["random", "bm25"], out=folder)
    return folder / "report.html"


@pytest.mark.parametrize(("width", "shown"), [(1280, "wide"), (390, "narrow")])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_curve_fits_its_screen(opened, report, width, shown, scheme):
    page = opened(report.as_uri(), offline=True, width=width, color_scheme=scheme)
    curve = page.locator(f"#sweeps-1 .{shown} > svg")
    other = page.locator(f"#sweeps-1 .{'narrow' if shown == 'wide' else 'wide'} > svg")
    expect(curve).to_be_visible()
    expect(other).to_be_hidden()
    expect(page.get_by_role("heading", name="The few-shot curve")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    box = curve.bounding_box()
    for name in curve.locator(".lines-name").all():
        beside = name.bounding_box()
        assert box["x"] <= beside["x"]
        assert beside["x"] + beside["width"] <= box["x"] + box["width"] + 1  # no name is cut


def test_the_curve_has_a_table_and_no_faults_of_access(opened, axe, report):
    page = opened(report.as_uri(), offline=True)
    page.locator("#sweeps-1 summary").click()
    table = page.get_by_role("table").filter(has_text="bm25").first
    expect(table.get_by_role("row")).to_have_count(1 + 6)
    assert axe(page) == []
