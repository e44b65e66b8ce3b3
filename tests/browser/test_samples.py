"""The list of samples and single ones: filters, search, pages, sorting, links, keys, two runs side by side.

The expected counts are computed from ``samples.jsonl`` here, without kshot.
"""

from collections import Counter

import pytest

from tests.browser.example_runs import MANY
from tests.browser.readers import Reader, expect, rows_of, verdict_of


@pytest.fixture(scope="module")
def truth(runs):
    """The samples of the two large runs."""
    return {name: rows_of(runs / name) for name in ("before", "after")}


@pytest.fixture
def samples(opened, viewer):
    """The list of the 5,000 samples of a run."""
    reader = Reader(opened(viewer)).go("#/run/after/samples")
    expect(reader.status).to_have_text(f"{MANY:,} samples")
    return reader


def count_of(rows, wanted):
    return f"{sum(map(wanted, rows)):,} of {MANY:,} samples"


def test_outcomes_filter_the_list_and_say_how_many_they_are(samples, truth):
    counts = Counter(map(verdict_of, truth["after"]))
    for name in ("right", "wrong", "failed"):
        expect(samples.outcome(name)).to_contain_text(f"{counts[name]:,}")
    samples.outcome("wrong").click()
    expect(samples.status).to_have_text(f"{counts['wrong']:,} of {MANY:,} samples")
    expect(samples.outcome("wrong")).to_have_attribute("aria-pressed", "true")
    first = next(row for row in truth["after"] if verdict_of(row) == "wrong")
    expect(samples.row(1)).to_contain_text(first["answer"])
    samples.outcome("failed").click()
    expect(samples.status).to_have_text(f"{counts['wrong'] + counts['failed']:,} of {MANY:,} samples")
    expect(samples.again().status).to_have_text(f"{counts['wrong'] + counts['failed']:,} of {MANY:,} samples")


def test_categories_and_answers_filter_the_list(samples, truth):
    samples.page.get_by_role("combobox", name="Category").select_option("cheese")
    expect(samples.status).to_have_text(count_of(truth["after"], lambda row: row["category"] == "cheese"))
    samples.page.get_by_role("button", name="Clear all").click()
    expect(samples.status).to_have_text(f"{MANY:,} samples")
    answer, count = Counter(row["answer"] for row in truth["after"] if row["answer"]).most_common(1)[0]
    samples.page.get_by_role("combobox", name="Answer").select_option(answer)
    expect(samples.status).to_have_text(f"{count:,} of {MANY:,} samples")
    assert "answer=" in samples.state


def test_texts_are_searched_in_prompts_and_replies(samples, truth):
    samples.page.keyboard.press("/")
    expect(samples.search).to_be_focused()
    samples.search.press_sequentially("4321")
    samples.search.press("Enter")
    expect(samples.status).to_have_text(f"1 of {MANY:,} samples")
    samples.search.fill("tea dollars")
    both = count_of(truth["after"], lambda row: "tea" in row["prompt"] and "dollars" in str(row["response"]))
    expect(samples.status).to_have_text(both)
    expect(samples.again().status).to_have_text(both)
    samples.search.fill("nowhere to be found")
    expect(samples.status).to_have_text("No samples match")


def test_any_row_of_a_long_list_is_shown_without_the_others(samples):
    assert samples.rows.count() < 60
    samples.list.hover()
    samples.page.mouse.wheel(0, 60_000)
    expect(samples.row(1)).to_have_count(0)
    number = int(samples.rows.nth(10).get_attribute("aria-posinset"))
    assert number > 500
    expect(samples.row(number)).to_contain_text(f"on day {number - 1}")
    field = samples.page.get_by_role("spinbutton", name="Go to number")
    field.fill("4900")
    field.press("Enter")
    expect(samples.row(4_900)).to_contain_text("on day 4899")
    expect(samples.row(4_900)).to_have_attribute("aria-setsize", str(MANY))
    expect(samples.again().row(4_900)).to_be_visible()
    assert samples.rows.count() < 60


def test_the_list_is_sorted_and_turned(samples, truth):
    samples.page.get_by_role("combobox", name="Sort by").select_option("score")
    worst = next(row for row in truth["after"] if verdict_of(row) == "wrong")
    expect(samples.row(1)).to_contain_text(worst["answer"])
    samples.page.get_by_role("checkbox", name="reversed").check()
    best = next(row for row in truth["after"] if verdict_of(row) == "right")
    expect(samples.row(1)).to_contain_text(best["answer"])
    assert "sort=score" in samples.state
    assert "reverse=1" in samples.state


def test_a_sample_shows_its_exact_prompt_reply_and_score(samples, truth):
    row = next(row for row in truth["after"] if verdict_of(row) == "wrong")
    samples.go(f"#/run/after/samples/{row['id']}")
    expect(samples.sample).to_contain_text(row["prompt"].partition("\n")[0])
    expect(samples.sample).to_contain_text(row["response"])
    expect(samples.sample).to_contain_text(row["target"][0])
    expect(samples.page.get_by_role("heading", level=2)).to_contain_text("wrong")


def test_keys_go_through_a_filtered_list_and_back(samples, truth):
    samples.outcome("wrong").click()
    wrong = [row for row in truth["after"] if verdict_of(row) == "wrong"]
    expect(samples.status).to_contain_text(f"{len(wrong):,} of")
    for key in ("j", "j", "j", "k"):
        samples.page.keyboard.press(key)
    expect(samples.current).to_have_count(1)
    place = int(
        samples.list.locator(
            '[role=listitem]:has([aria-current="true"]), [role=listitem][aria-current="true"]'
        ).get_attribute("aria-posinset")
    )
    samples.page.keyboard.press("Enter")
    expect(samples.sample).to_contain_text(wrong[place - 1]["prompt"].partition("\n")[0])
    samples.page.keyboard.press("j")
    expect(samples.sample).to_contain_text(wrong[place]["prompt"].partition("\n")[0])
    expect(samples.page.locator(".place")).to_have_text(f"{place + 1} of {len(wrong):,} wrong")
    again = samples.again()
    expect(again.sample).to_contain_text(wrong[place]["prompt"].partition("\n")[0])
    again.page.keyboard.press("Escape")
    expect(again.status).to_contain_text(f"{len(wrong):,} of")
    expect(again.sample).to_have_count(0)
    assert "verdict=wrong" in again.state


def test_flips_are_those_that_the_scores_tell(samples, truth):
    both = list(zip(truth["before"], truth["after"], strict=True))
    won = [new for old, new in both if verdict_of(old) == "wrong" and verdict_of(new) == "right"]
    lost = [new for old, new in both if verdict_of(old) == "right" and verdict_of(new) == "wrong"]
    assert won
    samples.page.get_by_role("combobox", name="Compare with").select_option("before")
    samples.page.get_by_role("combobox", name="Flips").select_option("won")
    expect(samples.status).to_have_text(f"{len(won):,} of {MANY:,} samples")
    samples.page.get_by_role("combobox", name="Flips").select_option("flipped")
    expect(samples.status).to_have_text(f"{len(won) + len(lost):,} of {MANY:,} samples")


def test_two_runs_stand_side_by_side_with_what_differs_marked(samples, truth):
    at, (old, new) = next(
        (at, pair)
        for at, pair in enumerate(zip(truth["before"], truth["after"], strict=True))
        if verdict_of(pair[0]) == "wrong" and verdict_of(pair[1]) == "right"
    )
    samples.go(f"#/run/after/samples/{at}?other=before")
    expect(samples.sample).to_have_count(2)
    whole = samples.page.locator(".side-by-side")
    expect(whole).to_contain_text(old["response"])
    expect(whole).to_contain_text(new["response"])
    expect(whole.locator("del").first).to_be_visible()
    expect(whole.locator("ins").first).to_be_visible()


def test_options_have_their_likelihoods(opened, viewer, runs):
    (row,) = (row for row in rows_of(runs / "two")[:1] if row["task"] == "planets")
    reader = Reader(opened(viewer)).go("#/run/two/samples/0")
    table = reader.sample.get_by_role("group", name="Options")
    for option in row["response"]:
        expect(table.get_by_role("row").filter(has_text=option["text"].strip())).to_contain_text(
            f"{option['logprob']:.2f}"
        )
    expect(reader.sample.locator("details.examples").first).to_contain_text("2 examples")


def test_a_search_shows_passages_and_what_is_missing(opened, viewer, runs):
    rows = rows_of(runs / "search")
    at = next(at for at, row in enumerate(rows) if row["response"])
    reader = Reader(opened(viewer)).go(f"#/run/search/samples/{at}")
    expect(reader.sample).to_contain_text(rows[at]["response"][0]["id"])
    expect(reader.sample.get_by_role("heading", name="Passages")).to_be_visible()
