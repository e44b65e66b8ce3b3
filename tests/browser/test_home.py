"""The table of runs: what it shows, finding and choosing runs, keys, and links."""

import json

import pytest

from tests.browser.readers import Reader, expect

RUNS = ["after", "before", "hostile", "lookup", "search", "two", "zero"]


@pytest.fixture
def home(opened, viewer):
    reader = Reader(opened(viewer))
    expect(reader.runs).to_have_count(len(RUNS))
    return reader


def test_home_lists_every_run_with_its_figure(home, runs):
    assert sorted(home.runs.evaluate_all("rows => rows.map(row => row.dataset.key)")) == RUNS
    expect(home.status).to_have_text("7 runs")
    for key in ("zero", "after"):
        figures = json.loads((runs / key / "summary.json").read_text())["results"]
        figure = next(each for each in figures if "category" not in each)
        row = home.page.locator(f'tr[data-key="{key}"]')
        expect(row).to_contain_text(f"{figure['value']:.1f}")
        expect(row).to_contain_text(figure["metric"])
        expect(row).to_contain_text("done")


def test_a_column_without_a_value_is_not_there(home):
    """No run of these cost anything."""
    heads = home.page.get_by_role("columnheader").all_inner_texts()
    assert "Took" in heads
    assert "Cost" not in heads


def test_the_token_leaves_the_address(home, viewer):
    assert "token" in viewer
    assert "token" not in home.page.url


def test_runs_are_found_by_words_and_the_state_has_a_link(home):
    home.page.keyboard.press("/")
    expect(home.search).to_be_focused()
    home.search.press_sequentially("handbook")
    expect(home.runs).to_have_count(1)
    expect(home.status).to_have_text("1 of 7 runs")
    assert home.state == "#/?q=handbook"
    again = home.again()
    expect(again.runs).to_have_count(1)
    expect(again.search).to_have_value("handbook")


def test_runs_are_sorted_by_a_column(home):
    home.page.get_by_role("button", name="Run", exact=True).click()
    expect(home.page.get_by_role("columnheader", name="Run")).to_have_attribute("aria-sort", "ascending")
    assert home.runs.evaluate_all("rows => rows.map(row => row.dataset.key)") == RUNS


def test_keys_move_open_and_go_back(home):
    order = home.runs.evaluate_all("rows => rows.map(row => row.dataset.key)")
    for key in "jjk":
        home.page.keyboard.press(key)
    expect(home.runs.nth(0).get_by_role("link")).to_be_focused()
    home.page.keyboard.press("j")
    home.page.keyboard.press("Enter")
    expect(home.page.get_by_role("heading", level=1)).to_contain_text(order[1])
    assert home.state == f"#/run/{order[1]}"
    home.page.keyboard.press("Escape")
    expect(home.runs.nth(1).get_by_role("link")).to_be_focused()
    assert home.state == "#/"


def test_a_question_mark_shows_help_and_escape_closes_it(home):
    home.page.keyboard.press("?")
    expect(home.page.get_by_role("dialog", name="Keys")).to_be_visible()
    home.page.keyboard.press("Escape")
    expect(home.page.get_by_role("dialog")).to_have_count(0)
    expect(home.runs).to_have_count(len(RUNS))


def test_two_runs_are_chosen_and_compared(home):
    home.page.get_by_role("checkbox", name="Choose zero to compare").check()
    home.page.get_by_role("checkbox", name="Choose two to compare").check()
    expect(home.page.get_by_role("region", name="Chosen runs")).to_contain_text("two against zero")
    home.page.get_by_role("link", name="Compare", exact=True).click()
    expect(home.page.get_by_role("heading", level=1)).to_have_text("two against zero")
    expect(home.page.get_by_role("list", name="Samples of both runs")).to_contain_text("Won")
    assert home.state == "#/compare/zero/two"


def test_the_theme_can_be_chosen_and_stays(home):
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    light = home.page.evaluate(ground)
    home.page.get_by_role("button", name="Theme: system").click()
    home.page.get_by_role("button", name="Theme: light").click()
    expect(home.page.get_by_role("button", name="Theme: dark")).to_be_visible()
    dark = home.page.evaluate(ground)
    assert dark != light
    assert home.again().page.evaluate(ground) == dark


def test_a_link_to_a_sample_without_a_number_is_no_page(opened, viewer):
    page = opened(viewer)
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    page.evaluate("location.hash = '#/run/five/samples/xyz'")
    expect(page.get_by_text("There is no such page")).to_be_visible()
    assert not [url for url in opened.requests if "NaN" in url]
