"""Look at two runs of 100,000 samples with ``kshot view``; then at 10,000 beside inspect_ai's viewer.

    python benchmarks/viewer.py [--samples N] [--peer-samples N] [--runs FOLDER] [--no-peers]

It makes the runs (two minutes), opens them in headless Chromium, and prints seconds until things are on the screen
(medians), the memory of the server, and the bytes of script. It stops where kshot is slower or larger than it may be.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from viewer_pages import Served, chromium, new_page, seconds, served, violations

HERE = Path(__file__).parent
ROUNDS = 5
MOST = {"index": 10.0, "first screen": 1.0, "filter": 0.4, "jump": 0.4}
"""Seconds that kshot may take with 100,000 samples."""
MOST_MIB = 150
GROWTH_MIB = 15
"""How much the memory of the server may grow in a thousand requests."""


def view(folder: Path) -> Any:
    """Start ``kshot view``."""
    return served(sys.executable, "-u", "-m", "kshot", "view", str(folder), "--no-browser", "--port", "0")


def index_seconds(folder: Path) -> float:
    """Make the index of a run that has none, in a process of its own."""
    script = (
        "import sys, time; from pathlib import Path; from kshot.viewer.sample_index import SampleIndex\n"
        "index = SampleIndex(Path(sys.argv[1])); began = time.perf_counter(); index.start(); state = index.wait()\n"
        "assert state.state == 'ready', state; print(time.perf_counter() - began)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(folder)], check=True, capture_output=True, text=True)
    return float(done.stdout)


class Reader:
    """Somebody who looks at runs in ``kshot view``."""

    def __init__(self, page: Any, link: str) -> None:
        self.page, self.link = page, link
        self.rows = page.get_by_role("list", name="List of samples").get_by_role("listitem")
        self.count = page.get_by_role("status")

    def enter(self) -> float:
        """Open the link; the table of runs is the first screen."""
        return seconds(lambda: self.page.goto(self.link), self.page.get_by_role("link", name="after").first)

    def go(self, state: str, *shown: Any) -> float:
        """Go to a state by its link, within the page."""
        return seconds(lambda: self.page.evaluate("link => { location.hash = link }", state), *shown)

    def samples(self, query: str = "") -> float:
        """Open the list of samples."""
        return self.go(f"#/run/after/samples{query}", self.rows.first)

    def filter(self, verdict: str) -> float:
        """Press a button of the outcomes, and wait for the new list: its rows have this outcome."""
        button = self.page.get_by_role("group", name="Outcome").get_by_role("button", name=verdict)
        first = self.rows.first.locator(f".verdict.{verdict}")
        return seconds(button.click, first)

    def jump(self, number: int) -> float:
        """Go to a row by its number."""
        field = self.page.get_by_role("spinbutton", name="Go to number")

        def act() -> None:
            field.fill(str(number))
            field.press("Enter")

        return seconds(act, self.page.locator(f'[role=listitem][aria-posinset="{number}"] a'))


def look_at_many(browser: Any, folder: Path, samples: int) -> dict[str, float]:
    """Measure kshot on two large runs."""
    found = {"index": max(index_seconds(folder / name) for name in ("before", "after"))}
    with view(folder) as server, new_page(browser) as (page, traffic):
        reader = Reader(page, server.link)
        reader.enter()
        found["script"] = traffic.script
        found["compare, first"] = reader.go(
            "#/compare/before/after", page.get_by_role("list", name="Samples of both runs")
        )
        reader.samples()
        wanted = f"q{samples // 20}"
        found["first search"] = reader.go(f"#/run/after/samples?q={wanted}", reader.rows.first.filter(has_text=wanted))
        won = reader.rows.first.get_by_text("won", exact=True)
        found["first flips"] = reader.go("#/run/after/samples?other=before&flip=won", won)
        steps: dict[str, list[float]] = {}
        for at in range(ROUNDS):
            for name, spent in one_round(browser, server, at, samples).items():
                steps.setdefault(name, []).append(spent)
        found.update({name: median(values) for name, values in steps.items()})
        found.update(memory(reader, server, samples))
    return found


def one_round(browser: Any, server: Served, at: int, samples: int) -> dict[str, float]:
    """Take each step once, in a page with nothing cached."""
    with new_page(browser) as (page, _):
        reader = Reader(page, server.link)
        home = reader.enter()
        first = reader.samples()
        wrong = reader.filter("wrong")
        reader.go("#/run/after/samples", page.get_by_text(f"{samples:,} samples", exact=True))
        jump = reader.jump(samples * (at + 3) // (ROUNDS + 4))
        wanted = f"q{samples // 10 + at}"
        search = reader.go(f"#/run/after/samples?q={wanted}", reader.rows.first.filter(has_text=wanted))
        flip = "won" if at % 2 else "lost"
        flipped = reader.rows.first.get_by_text(flip, exact=True)
        flips = reader.go(f"#/run/after/samples?other=before&flip={flip}", flipped)
        both = reader.go(
            f"#/run/after/samples/{samples * at // ROUNDS + 7}?other=before", page.locator(".side-by-side article").last
        )
    return {
        "home": home,
        "first screen": first,
        "filter": wrong,
        "jump": jump,
        "search": search,
        "flips": flips,
        "side by side": both,
    }


def memory(reader: Reader, server: Served, samples: int) -> dict[str, float]:
    """Ask the server for a thousand lists and samples; return what it holds after 200, after all, and held at most."""
    draws, held = random.Random(1), []
    ask = "paths => Promise.all(paths.map(path => fetch(path).then(answer => answer.arrayBuffer())))"
    for _ in range(50):
        lists = [
            f"api/runs/after/samples?verdict={draws.choice(['wrong', 'right', 'failed'])}"
            f"&offset={draws.randrange(samples // 3)}&sort={draws.choice(['score', 'id', 'run', 'answer'])}"
            for _ in range(4)
        ]
        singles = [f"api/runs/after/samples/{draws.randrange(samples)}?other=before" for _ in range(16)]
        reader.page.evaluate(ask, lists + singles)
        held.append(server.mib())
    return {"MiB early": max(held[:10]), "MiB late": max(held[-10:]), "MiB at most": server.mib("VmHWM")}


def look_with_both(browser: Any, folder: Path) -> dict[str, dict[str, Any]]:
    """Open the same 10,000 samples with kshot and with inspect_ai's viewer."""
    logs = folder / "inspect"
    export = ["export", str(folder / "after"), "--to", "inspect", "--out", str(logs)]
    subprocess.run([sys.executable, "-m", "kshot", *export], check=True, capture_output=True)
    inspect = [str(Path(sys.executable).with_name("inspect")), "view", "--log-dir", str(logs), "--port", "7599"]
    found: dict[str, dict[str, Any]] = {}
    for name, command, look in (("kshot", None, with_kshot), ("inspect_ai", inspect, with_inspect)):
        rounds: list[dict[str, Any]] = []
        with view(folder) if command is None else served(*command) as server:
            for _ in range(ROUNDS):
                with new_page(browser) as (page, traffic):
                    spent = look(page, server.link)
                    time.sleep(0.5)  # what is still on its way belongs to the page too
                    rounds.append({**spent, "bytes": traffic.bytes, "script": traffic.script, "axe": spent.pop("axe")})
            mib = server.mib("VmHWM")
        found[name] = {key: median(each[key] for each in rounds) for key in rounds[0] if key != "axe"}
        found[name] |= {"MiB": mib, "first time": rounds[0]["open the samples"], "axe": sorted(rounds[0]["axe"])}
    return found


def with_kshot(page: Any, link: str) -> dict[str, Any]:
    """Open the viewer, the samples of a run, and one of them."""
    reader = Reader(page, link)
    return {
        "first screen": reader.enter(),
        "open the samples": reader.samples(),
        "open a sample": seconds(reader.rows.nth(3).get_by_role("link").click, page.get_by_role("article").first),
        "axe": violations(page),
    }


def with_inspect(page: Any, link: str) -> dict[str, Any]:
    """Open the viewer, the samples of a log, and one of them."""
    log = page.get_by_text("reading", exact=True).first
    return {
        "first screen": seconds(lambda: page.goto(link), log),
        "open the samples": seconds(log.click, page.get_by_text("q0", exact=True).first),
        "open a sample": seconds(page.get_by_text("q1", exact=True).first.click, page.get_by_text("Transcript").first),
        "axe": violations(page),
    }


def tell(found: dict[str, Any]) -> None:
    """Print figures, one a line."""
    for name, value in found.items():
        print(f"  {name:20} {value if isinstance(value, list) else f'{value:,.2f}'}", flush=True)


def check(found: dict[str, float]) -> None:
    """Stop where kshot takes more than it may."""
    faults = [f"{name}: {found[name]:.2f} s, above {most}" for name, most in MOST.items() if found[name] > most]
    if found["MiB at most"] > MOST_MIB or found["MiB late"] - found["MiB early"] > GROWTH_MIB:
        faults.append(
            f"memory: {found['MiB early']:.0f}, then {found['MiB late']:.0f}, at most {found['MiB at most']:.0f}"
        )
    if faults:
        sys.exit("\n".join(faults))


def made(folder: Path, *counts: int) -> Path:
    """Make runs in a process of its own, unless they are there; they have no index yet."""
    if not (folder / "after" / "summary.json").exists():
        subprocess.run([sys.executable, HERE / "viewer_runs.py", folder, *map(str, counts)], check=True)
    for index in folder.glob("*/samples*.sqlite"):
        index.unlink()
    return folder


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--peer-samples", type=int, default=10_000)
    parser.add_argument("--runs", type=Path, help="folder in which the runs are, or are made and stay")
    parser.add_argument("--no-peers", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, chromium() as browser:
        folder = given.runs or Path(place)
        many = made(folder / "many", given.samples)
        found = look_at_many(browser, many, given.samples)
        print(f"kshot view, two runs of {given.samples:,} samples")
        tell(found)
        if not given.no_peers:
            for name, figures in look_with_both(browser, made(folder / "peer", given.peer_samples, 0)).items():
                print(f"{name}, {given.peer_samples:,} samples")
                tell(figures)
        check(found)


if __name__ == "__main__":
    main()
