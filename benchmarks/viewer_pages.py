"""What benchmarks/viewer.py needs of servers and browsers: start one, time a step, count what was transferred."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

LINK = re.compile(r"http://[^\s=]\S*")
AXE = Path(__import__("axe_playwright_python").__file__).parent / "axe.min.js"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Open Debian's Chromium, or Playwright's own."""
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Served:
    """A viewer that runs: its link, and the memory of its process."""

    def __init__(self, process: subprocess.Popen[str], link: str) -> None:
        self.process, self.link = process, link

    def mib(self, field: str = "VmRSS") -> float:
        """Return the memory that the process holds now (``VmHWM``: held at most)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(re.search(rf"{field}:\s+(\d+)", status)[1]) / 1024


@contextmanager
def served(*command: str) -> Iterator[Served]:
    """Start a viewer, wait until it prints its link, and end it after the block."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            lines = iter(process.stdout.readline, "")
            yield Served(process, next(found[0] for line in lines if (found := LINK.search(line))))
        finally:
            process.terminate()


class Traffic:
    """What a page has transferred: bytes over the wire, and bytes of script."""

    def __init__(self, page: Page) -> None:
        self.bytes, self.script = 0, 0
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        session.on("Network.loadingFinished", self._finished)
        page.on("response", self._responded)

    def _finished(self, event: dict[str, Any]) -> None:
        self.bytes += int(event["encodedDataLength"])

    def _responded(self, response: Any) -> None:
        if response.request.resource_type == "script":
            self.script += int(response.headers.get("content-length") or 0)


@contextmanager
def new_page(browser: Browser) -> Iterator[tuple[Page, Traffic]]:
    """Open a page with nothing cached."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, bypass_csp=True)
    context.set_default_timeout(90_000)
    page = context.new_page()
    yield page, Traffic(page)
    context.close()


def seconds(act: Callable[[], object], *shown: Any) -> float:
    """Do something in a page; return the seconds until these locators are shown."""
    began = time.perf_counter()
    act()
    for locator in shown:
        locator.wait_for(state="visible")
    return time.perf_counter() - began


def violations(page: Page) -> list[str]:
    """Return the rules of axe that a page violates."""
    page.add_script_tag(content=AXE.read_text(encoding="utf-8"))
    return [each["id"] for each in page.evaluate("axe.run()")["violations"]]
