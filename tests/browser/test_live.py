"""Runs that work while somebody looks: they appear, go on and end without a reload. A pipe holds the model's answers."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from tests.browser.readers import Reader, expect
from tests.browser.viewers import viewer_of
from tests.compared_runs import SHOP

HELD = '''
import os

GATE = []


def held(prompt):
    """Answer when the test lets it: each byte of the pipe is one answer, and its end lets all others go."""
    if not GATE:
        GATE.append(open(os.environ["GATE"], "rb", buffering=0))
    GATE[0].read(1)
    return "6 euros"
'''
COUNT = 12


@contextmanager
def held_run(folder, name):
    """Start a run whose answers wait; yield a function that lets so many go, or all."""
    gate = folder / f"{name}.gate"
    os.mkfifo(gate)
    command = [
        "run",
        "-m",
        "held.py:held",
        "-d",
        "shop.py:Prices",
        "--dataset-path",
        str(COUNT),
        "--out",
        f"runs/{name}",
    ]
    with (
        subprocess.Popen(
            [sys.executable, "-m", "kshot", *command],
            cwd=folder,
            env={**os.environ, "GATE": str(gate)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process,
        gate.open("wb", buffering=0) as writer,  # this waits until the model is asked for the first time
    ):
        yield lambda count: writer.write(b"." * count)
        writer.close()
        assert process.wait(60) == 0, process.stderr.read()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    (tmp_path / "held.py").write_text(HELD, encoding="utf-8")
    return tmp_path


@pytest.fixture
def own_viewer(browser, folder):
    with viewer_of("runs", cwd=folder) as link:
        yield link


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_run_appears_goes_on_and_ends_without_a_reload(own_viewer, opened, folder):
    page = opened(own_viewer)
    page.evaluate("window.loaded = 'once'")
    reader = Reader(page)
    expect(page.get_by_text("There is no run")).to_be_visible()
    with held_run(folder, "slow") as release:
        row = page.locator('tr[data-key="slow"]')
        expect(row).to_contain_text("running")
        row.get_by_role("link").click()
        expect(page.get_by_role("region", name="Progress")).to_contain_text(f"0 of {COUNT}")
        release(5)
        expect(page.get_by_role("region", name="Progress")).to_contain_text(f"5 of {COUNT}")
        expect(page.locator(".latest li")).not_to_have_count(0)  # the draft is flushed once a second
    expect(page.locator(".badge.done")).to_be_visible()
    expect(page.get_by_role("link", name=f"All {COUNT} samples")).to_be_visible()
    expect(page.locator('data[data-field="value"]').first).to_be_attached()
    page.get_by_role("link", name=f"All {COUNT} samples").click()
    expect(reader.rows).to_have_count(COUNT)
    assert page.evaluate("window.loaded") == "once"
