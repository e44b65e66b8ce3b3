"""Output that would break a page: scripts, words of a megabyte, text that runs backwards, terminal codes."""

import pytest

from tests.browser.readers import Reader, expect, rows_of

STATES = ["#/", "#/run/hostile", "#/run/hostile/samples"]


def harmless(reader):
    """Nothing of a foreign text has run, nothing of it is an element, and the page is no wider than its window."""
    assert reader.page.evaluate("window.owned") is None
    assert reader.page.title() != "owned"
    assert reader.page.locator("img, iframe, object, embed, [onerror], [onload], a[href^='javascript' i]").count() == 0
    assert reader.overflow() <= 0
    return True


@pytest.mark.parametrize("width", [1280, 390])
def test_hostile_texts_are_shown_and_do_nothing(opened, viewer, runs, width):
    reader = Reader(opened(viewer, width=width))
    rows = rows_of(runs / "hostile")
    for state in (*STATES, *(f"#/run/hostile/samples/{at}" for at in range(len(rows)))):
        reader.go(state)
        heading = {"#/": "Runs", "#/run/hostile": "hostile"}.get(state)
        if heading:
            expect(reader.page.get_by_role("heading", level=1)).to_contain_text(heading)
        elif state.endswith("samples"):
            expect(reader.status).to_have_text(f"{len(rows)} samples")
        else:
            at = int(state.rpartition("/")[2])
            expect(reader.page.get_by_role("heading", level=2)).to_contain_text(rows[at]["id"])
        assert harmless(reader), state


def shown(opened, viewer, runs, category):
    rows = rows_of(runs / "hostile")
    at = next(at for at, row in enumerate(rows) if row["category"] == category)
    reader = Reader(opened(viewer)).go(f"#/run/hostile/samples/{at}")
    expect(reader.sample).to_be_visible()
    return reader


def test_a_script_is_shown_as_its_text(opened, viewer, runs):
    reader = shown(opened, viewer, runs, "script")
    expect(reader.sample).to_contain_text("<script>document.title = 'owned'; window.owned = 1</script>")


def test_a_word_of_a_megabyte_is_cut_until_somebody_wants_it(opened, viewer, runs):
    reader = shown(opened, viewer, runs, "word")
    assert reader.page.evaluate("document.body.innerText.length") < 100_000
    reader.sample.get_by_role("button", name="show all").first.click()
    expect(reader.sample.get_by_role("button", name="1,000,000")).to_have_count(0)
    assert harmless(reader)


def test_text_that_runs_backwards_and_terminal_codes_are_shown_as_escapes(opened, viewer, runs):
    reader = shown(opened, viewer, runs, "right-to-left")
    said = reader.sample.text_content()
    assert "\u202e" not in said
    assert "\\u202e" in said
    reader = shown(opened, viewer, runs, "ansi")
    said = reader.sample.text_content()
    assert "\x1b" not in said
    assert "\\x1b[31mred" in said
