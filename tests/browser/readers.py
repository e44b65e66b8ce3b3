"""A reader of pages: finds what a person finds, by its role and name."""

import json

try:
    from playwright.sync_api import expect
except ImportError:  # the fixture ``browser`` says so
    expect = None
else:
    expect.set_options(timeout=120_000)  # a machine may be busy

__all__ = ["Reader", "expect", "rows_of", "verdict_of"]


class Reader:
    """What somebody does in a page of the viewer or of a static site."""

    def __init__(self, page):
        self.page = page
        self.status = page.get_by_role("status").first
        self.search = page.get_by_role("searchbox")
        self.list = page.get_by_role("list", name="List of samples")
        self.rows = self.list.get_by_role("listitem")
        self.current = self.list.locator('[aria-current="true"]')
        self.sample = page.get_by_role("article")
        self.runs = page.locator("tr[data-key]")

    @property
    def state(self):
        """The part of the address that names the state."""
        return self.page.evaluate("location.hash")

    def go(self, state):
        """Go to a state, as a link does."""
        self.page.evaluate("state => { location.hash = state }", state)
        return self

    def outcome(self, name):
        """The button that shows samples with this outcome."""
        return self.page.get_by_role("group", name="Outcome").get_by_role("button", name=name)

    def row(self, number):
        """The row with this number, from 1."""
        return self.list.locator(f'[aria-posinset="{number}"]')

    def again(self):
        """Open the same address in a new page of the same browser."""
        page = self.page.context.new_page()
        page.goto(self.page.url)
        return Reader(page)

    def overflow(self):
        """How many pixels the page is wider than its window."""
        return self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def rows_of(run):
    """Read the samples of a run, without kshot."""
    return [json.loads(line) for line in (run / "samples.jsonl").read_text(encoding="utf-8").splitlines()]


def verdict_of(row):
    """Say what became of a sample with one right-or-wrong metric, without kshot."""
    return "failed" if "failed" in row else "right" if min(row["scores"].values()) == 100 else "wrong"
