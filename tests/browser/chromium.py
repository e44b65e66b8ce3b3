"""Finding a Chromium for tests of pages: the one that is named, the system's, or Playwright's own."""

import os
import shutil
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL = "apt-get install chromium (Debian), or .venv/bin/playwright install chromium"


def chromium(playwright):
    """Return the path of a Chromium; without one skip the test, or fail it where KSHOT_BROWSER says ``required``."""
    named = os.environ.get("KSHOT_CHROMIUM")
    if named:
        if not Path(named).is_file():
            pytest.fail(f"KSHOT_CHROMIUM names {named}, which is no file")
        return named
    for path in (*map(shutil.which, NAMES), playwright.chromium.executable_path):
        if path is not None and Path(path).is_file():
            return path
    return lacking(f"there is no Chromium on this machine: {INSTALL}")


def playwrights():
    """Return whether Playwright's own Chromium is installed, for CI's script."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        return Path(playwright.chromium.executable_path).is_file()


def lacking(why):
    """Skip a test that lacks something, or fail it where nothing may be skipped."""
    if os.environ.get("KSHOT_BROWSER") == "required":
        pytest.fail(why)
    pytest.skip(why)


if __name__ == "__main__":
    raise SystemExit(not playwrights())
