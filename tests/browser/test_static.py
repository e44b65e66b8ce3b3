"""``kshot view --static``: the same pages as files, behind a plain web server that knows nothing of kshot."""

import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.browser.example_runs import MANY
from tests.browser.readers import Reader, expect, rows_of, verdict_of


class Quiet(SimpleHTTPRequestHandler):
    """Says nothing of what it serves."""

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site(browser, runs, tmp_path_factory):
    """The address of a static site of the runs."""
    out = tmp_path_factory.mktemp("site") / "pages"
    folders = [runs / name for name in ("zero", "two", "before", "after", "hostile", "search")]
    command = [sys.executable, "-m", "kshot", "view", *folders, "--static", out]
    subprocess.run(command, check=True, capture_output=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=out.parent))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/pages/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def pages(opened, site):
    reader = Reader(opened(site))
    expect(reader.runs).to_have_count(6)
    return reader


def test_filter_search_jump_and_open(pages, runs):
    rows = rows_of(runs / "after")
    wrong = [row for row in rows if verdict_of(row) == "wrong"]
    pages.go("#/run/after/samples")
    expect(pages.status).to_have_text(f"{MANY:,} samples")
    pages.outcome("wrong").click()
    expect(pages.status).to_have_text(f"{len(wrong):,} of {MANY:,} samples")
    field = pages.page.get_by_role("spinbutton", name="Go to number")
    field.fill(str(len(wrong)))
    field.press("Enter")
    expect(pages.row(len(wrong))).to_contain_text(f"on day {wrong[-1]['id']}")
    pages.search.fill(f'"on day {wrong[7]["id"]}"')
    expect(pages.status).to_have_text(f"1 of {MANY:,} samples")
    pages.rows.first.get_by_role("link").click()
    expect(pages.sample).to_contain_text(wrong[7]["response"])
    expect(pages.again().sample).to_contain_text(wrong[7]["response"])


def test_compare_and_flips(pages, runs):
    both = list(zip(rows_of(runs / "before"), rows_of(runs / "after"), strict=True))
    won = sum(verdict_of(old) == "wrong" and verdict_of(new) == "right" for old, new in both)
    pages.go("#/compare/before/after")
    counters = pages.page.get_by_role("list", name="Samples of both runs")
    expect(counters).to_contain_text(f"{won:,}")
    counters.get_by_role("link").filter(has_text="Won").click()
    expect(pages.status).to_have_text(f"{won:,} of {MANY:,} samples")


def test_hostile_texts_do_nothing(pages, runs):
    for at in range(len(rows_of(runs / "hostile"))):
        pages.go(f"#/run/hostile/samples/{at}")
        expect(pages.page.locator(".sample-head h2")).to_contain_text(str(at))
        assert pages.page.evaluate("window.owned") is None
        assert pages.page.locator("img, iframe, [onerror], [onload]").count() == 0
        assert pages.overflow() <= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(opened, site, axe, scheme):
    reader = Reader(opened(site, color_scheme=scheme, bypass_csp=True))
    expect(reader.runs).to_have_count(6)
    assert axe(reader.page) == []
    reader.go("#/run/search/samples/3")
    expect(reader.sample).to_be_visible()
    assert axe(reader.page) == []


def test_no_page_is_wider_than_a_phone(opened, site):
    reader = Reader(opened(site, width=390, height=844, is_mobile=True, has_touch=True))
    expect(reader.runs).to_have_count(6)
    assert reader.overflow() <= 0
    reader.go("#/run/search")
    expect(reader.page.locator(".section").first).to_be_visible()
    assert reader.overflow() <= 0
