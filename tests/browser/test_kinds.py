"""Every kind of page: accessible, light and dark; no wider than a phone; complete on paper."""

import pytest

from tests.browser.readers import Reader, expect

STATES = {
    "#/": "tr[data-key]",
    "#/?chosen=zero,two": "role=region[name='Chosen runs']",
    "#/run/two": "role=heading[level=1] >> text=two",
    "#/run/lookup": "role=heading[name='Token lookup']",
    "#/run/search": "role=heading[name='Search']",
    "#/compare/zero/two": "role=list[name='Samples of both runs']",
    "#/run/after/samples?verdict=wrong": "role=list[name='List of samples'] >> .verdict.wrong",
    "#/run/two/samples/0": "role=article[name='Sample 0']",
    "#/run/search/samples/3": "role=heading[name='Passages']",
    "#/run/two/samples/0?other=zero": ".side-by-side article >> nth=1",
    "#/run/hostile/samples/0": "role=article >> text=owned",
    "#/run/nothing": "role=alert",
}
"""Every kind of page, and what is on it alone."""


def arrived(reader, state):
    """Wait until a state is on the screen, and nothing of it is still on its way."""
    reader.go(state)
    expect(reader.page.locator(STATES[state]).first).to_be_visible()
    expect(reader.page.locator(".loading")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(opened, viewer, axe, scheme):
    reader = Reader(opened(viewer, color_scheme=scheme, bypass_csp=True))
    with opened.tolerates("404"):
        for state in STATES:
            arrived(reader, state)
            assert axe(reader.page) == [], state


def test_a_dark_page_is_dark_everywhere(opened, viewer):
    reader = Reader(opened(viewer, color_scheme="dark"))
    expect(reader.runs.first).to_be_visible()
    light = """() => [...document.querySelectorAll("html, body, main, table, input, select, button")].filter(each => {
      const [red, green, blue, opacity = 1] = getComputedStyle(each).backgroundColor.match(/[\\d.]+/g).map(Number);
      return opacity > 0.5 && red + green + blue > 600;
    }).map(each => each.outerHTML.slice(0, 80))"""
    assert reader.page.evaluate(light) == []


def test_no_page_is_wider_than_a_phone(opened, viewer):
    reader = Reader(opened(viewer, width=390, height=844, is_mobile=True, has_touch=True))
    with opened.tolerates("404"):
        for state in STATES:
            arrived(reader, state)
            assert reader.overflow() <= 0, state


def test_what_is_printed_has_no_controls_and_all_of_the_text(opened, viewer):
    reader = Reader(opened(viewer, color_scheme="dark"))
    arrived(reader, "#/run/two")
    reader.page.emulate_media(media="print")
    expect(reader.page.get_by_role("button", name="Help")).not_to_be_visible()
    ground = reader.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert ground in {"rgb(255, 255, 255)", "rgba(0, 0, 0, 0)"}
    assert reader.page.pdf()[:5] == b"%PDF-"
