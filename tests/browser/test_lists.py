"""Lists of samples under the hands of somebody who is quick, and where something goes wrong."""

import re

import pytest

from tests.browser.example_runs import MANY
from tests.browser.readers import Reader, expect, rows_of, verdict_of

ALL = f"{MANY:,} samples"
WAIT = "() => new Promise((resolve) => setTimeout(resolve, 600))"  # longer than a search waits for the next letter


@pytest.fixture
def samples(opened, viewer):
    """The list of the 5,000 samples of a run."""
    reader = Reader(opened(viewer)).go("#/run/after/samples")
    expect(reader.status).to_have_text(ALL)
    return reader


@pytest.mark.parametrize("link", ["#/run/%E0", "#/run/%", "#/compare/%E0/after"])
def test_a_link_with_a_broken_escape_is_a_page_that_says_so(opened, viewer, link):
    with opened.tolerates("404", "422"):
        page = opened(viewer.partition("#")[0] + link)
        expect(page.get_by_role("alert").first).to_be_visible()
        Reader(page).go("#/")
        expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
        Reader(page).go(link)
        expect(page.get_by_role("alert").first).to_be_visible()


def test_a_search_does_not_bring_back_a_list_that_was_left(samples):
    samples.search.press_sequentially("tea")
    samples.go("#/")
    samples.page.evaluate(WAIT)
    assert samples.state == "#/"


def test_a_search_keeps_what_is_chosen_while_it_waits(samples):
    samples.search.press_sequentially("tea")
    samples.outcome("wrong").click()
    samples.page.evaluate(WAIT)
    assert sorted(samples.state.partition("?")[2].split("&")) == ["q=tea", "verdict=wrong"]


def test_a_search_does_not_close_a_sample_that_was_opened_meanwhile(samples):
    samples.search.press_sequentially("tea")
    samples.row(3).get_by_role("link").click()
    samples.page.evaluate(WAIT)
    assert samples.state.startswith("#/run/after/samples/2?")
    expect(samples.search).to_have_value("")  # as the list says


def test_enter_searches_at_once_and_esc_clears(samples, runs):
    samples.search.fill("4321")
    samples.search.press("Enter")
    assert samples.state == "#/run/after/samples?q=4321"
    expect(samples.status).to_have_text(f"1 of {ALL}")
    samples.search.press("Escape")
    expect(samples.status).to_have_text(ALL)
    expect(samples.search).to_have_value("")
    assert samples.state == "#/run/after/samples"


def test_rows_whose_request_failed_are_asked_for_again(opened, samples):
    refused = []

    def refuse(route):
        if len(refused) < 2:
            refused.append(route.request.url)
            return route.abort()
        return route.continue_()

    with opened.tolerates("Failed to load resource"):
        samples.page.route(re.compile(r"offset=4\d00"), refuse)
        field = samples.page.get_by_role("spinbutton", name="Go to number")
        field.fill("4500")
        field.press("Enter")
        expect(samples.page.get_by_role("alert")).to_be_visible()
        expect(samples.row(4_500)).to_contain_text("on day 4499")
        expect(samples.page.get_by_role("alert")).to_have_count(0)
    assert len(refused) == 2


def test_a_link_without_a_place_finds_it(samples, runs):
    rows = rows_of(runs / "after")
    wrong = [at for at, row in enumerate(rows) if verdict_of(row) == "wrong"]
    place = samples.page.locator(".place")
    samples.go(f"#/run/after/samples/{wrong[300]}?verdict=wrong")
    expect(place).to_have_text(f"301 of {len(wrong):,} wrong")
    samples.page.get_by_role("link", name="next").click()
    expect(samples.sample).to_contain_text(rows[wrong[301]]["prompt"].partition("\n")[0])
    samples.go("#/run/after/samples/17")
    expect(place).to_have_text(f"18 of {MANY:,}")
    right = next(at for at, row in enumerate(rows) if verdict_of(row) == "right")
    samples.go(f"#/run/after/samples/{right}?verdict=wrong")  # it is not in that list
    expect(samples.sample).to_contain_text(rows[right]["prompt"].partition("\n")[0])
    expect(place).to_be_empty()


def test_a_place_that_is_found_late_leads_nobody_back(samples, runs):
    rows = rows_of(runs / "after")
    wrong = [at for at, row in enumerate(rows) if verdict_of(row) == "wrong"][300]
    held, late = [], re.compile(rf"find={wrong}\b")

    def hold(route):
        held.append(route)

    samples.page.route(late, hold)
    with samples.page.expect_request(late):
        samples.go(f"#/run/after/samples/{wrong}?verdict=wrong")
    samples.go("#/run/after/samples/20")
    expect(samples.page.locator(".place")).to_have_text(f"21 of {MANY:,}")
    with samples.page.expect_response(late):
        held[0].continue_()
    samples.page.wait_for_timeout(200)  # for a page that would follow it
    expect(samples.sample).to_contain_text(rows[20]["prompt"].partition("\n")[0])
    assert samples.state.partition("?")[0] == "#/run/after/samples/20"


def test_the_number_of_an_outcome_is_that_of_the_list_it_opens(opened, viewer):
    reader = Reader(opened(viewer)).go("#/run/search/samples")
    group = reader.page.get_by_role("group", name="Outcome")
    expect(group.get_by_role("button", name="partly right")).to_be_visible()
    for name in ("wrong", "partly right"):
        chip = group.get_by_role("button", name=name)
        count = chip.inner_text().split()[-1]
        chip.click()
        expect(reader.status).to_have_text(re.compile(rf"^{count} of "))
        chip.click()
    reader.page.get_by_role("combobox", name="Model").select_option(index=1)
    expect(group.get_by_role("button", name="wrong")).to_have_text(re.compile(r"wrong\s*$"))  # the list has fewer


def test_answers_are_offered_where_they_repeat(opened, viewer):
    reader = Reader(opened(viewer)).go("#/run/zero/samples")
    expect(reader.page.get_by_role("combobox", name="Task")).to_be_visible()
    expect(reader.page.get_by_role("combobox", name="Answer")).to_be_visible()
    reader.go("#/run/search/samples")
    expect(reader.page.get_by_role("combobox", name="Model")).to_be_visible()
    expect(reader.page.get_by_role("combobox", name="Answer")).to_have_count(0)


def test_rows_name_what_differs_between_them(opened, viewer, runs):
    first = rows_of(runs / "search")[0]
    reader = Reader(opened(viewer)).go("#/run/search/samples")
    expect(reader.row(1)).to_contain_text(first["model"])


def test_facets_are_asked_for_once_on_the_way_to_the_samples(opened, viewer):
    reader = Reader(opened(viewer)).go("#/run/zero")
    reader.page.get_by_role("link", name=re.compile(r"All \d+ samples")).click()
    expect(reader.rows.first).to_be_visible()
    expect(reader.page.get_by_role("combobox", name="Task")).to_be_visible()
    assert sum("/runs/zero/facets" in url for url in opened.requests) == 1


@pytest.mark.parametrize("n", ["xyz", "NaN", "1.5", "1e400"])
def test_a_sample_that_is_no_number_is_not_asked_for(opened, samples, n):
    samples.go(f"#/run/after/samples/{n}")
    samples.page.evaluate(WAIT)
    assert not [url for url in opened.requests if f"/samples/{n}" in url or "/samples/NaN" in url]
