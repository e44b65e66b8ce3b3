"""What the tests of pages share: one browser a file, real runs, a viewer over them, and pages that are watched."""

from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from tests.browser.chromium import chromium, lacking
from tests.browser.example_runs import make_runs
from tests.browser.viewers import viewer_of


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium. It ends with the file: Playwright's event loop would be in the way of other tests."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        lacking("playwright is not installed: pip install playwright")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(playwright), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """A folder with real runs."""
    return make_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def viewer(browser, runs):
    """The link of a viewer over the runs; it is served as long as the tests of a file last."""
    with viewer_of(runs) as link:
        yield link


class Watched:
    """What happened in the pages of a test that nobody should see: errors, and requests to other hosts."""

    def __init__(self):
        self.errors, self.requests, self.origins = [], [], set()

    def watch(self, page):
        """Note what happens in a page from now on."""
        page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", lambda dialog: self.errors.append(f"a dialog opened: {dialog.message}") or dialog.dismiss())

    @contextmanager
    def tolerates(self, *words):
        """Within the block, errors with one of these words are expected."""
        yield
        self.errors = [error for error in self.errors if not any(word in error for word in words)]

    def check(self):
        """Fail if a page said something in the console, or asked another host than the one that it came from."""
        assert self.errors == []
        asked = {urlsplit(url)[:2] for url in self.requests if not url.startswith(("data:", "blob:"))}
        assert asked <= self.origins


@pytest.fixture
def opened(browser):
    """Open an address in a context of its own: ``opened(url, color_scheme="dark")``; the test ends with checks."""
    watched, contexts = Watched(), []

    def open_page(url, *, width=1280, height=800, init=None, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(120_000)
        contexts.append(context)
        if init is not None:
            context.add_init_script(init)
        page = context.new_page()
        watched.watch(page)
        watched.origins.add(urlsplit(url)[:2])
        page.goto(url)
        return page

    open_page.tolerates, open_page.requests = watched.tolerates, watched.requests
    yield open_page
    for context in contexts:
        context.close()
    watched.check()


@pytest.fixture
def axe():
    """Look for faults that keep people out: return the serious and critical ones, each with an example."""
    from axe_playwright_python.sync_playwright import Axe

    def faults(page):
        found = Axe().run(page).response["violations"]
        return [
            (each["id"], each["nodes"][0]["html"][:200], each["nodes"][0].get("failureSummary", "")[:300])
            for each in found
            if each["impact"] in {"serious", "critical"}
        ]

    return faults
