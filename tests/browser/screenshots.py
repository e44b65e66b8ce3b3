"""Takes the pictures of README and docs from real runs: light and dark, at the width of a desk and of a phone.

    python tests/browser/screenshots.py [--runs FOLDER] [--to docs/images] [SCENE ...]

It makes the runs (a minute), or takes those that FOLDER has. A picture has a palette of its own, to be small.
"""

import argparse
import io
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.browser.chromium import chromium  # noqa: E402
from tests.browser.viewers import viewer_of  # noqa: E402

MAX_BYTES, MAX_TOTAL = 150_000, 1_200_000
COLOURS = 144
LOOKUP = ("-d", "lookup:UR,NLFirst", "--length", "20,40,80", "--variant", "sep|small|bare", "--samples", "100")
PLANETS = ("-m", "embedded", "-d", "examples/planets.py:Planets", "-d", "examples/planets.py:PlanetNames")
CURVE = ("-d", "lookup:UR,NLFirst", "--length", "120", "--variant", "sep|small|bare")
COMMANDS = {
    "starter": (),
    "zero": (*LOOKUP, "--shots", "0"),
    "five": (*LOOKUP, "--shots", "5"),
    "planets": (*PLANETS, "-k", "2", "--token-logprobs"),
    "curve": (*CURVE, "--shots", "0,1,2,5", "--samples", "50"),
    "handbook": ("-d", "handbook", "-m", "fts5", "-m", "bm25", "-m", "hybrid"),
}
"""The runs, by name; all but ``hybrid`` take seconds."""


class Scene(NamedTuple):
    """What a picture shows: a state of the viewer, or report.html (``state`` is empty), and what must be there.

    ``opened``: what is folded, and is opened for the picture.
    """

    state: str
    shown: str
    height: int = 800
    phone: bool = True
    opened: str = ""


SCENES = {
    "home": Scene("#/?chosen=zero,five", "tr[data-key] .interval", 560),
    "run": Scene("#/run/starter", ".section figure svg", phone=False),
    "compare": Scene("#/compare/zero/five", ".section svg"),
    "samples": Scene("#/run/five/samples/0?other=zero&flip=won&at=0", ".side-by-side article"),
    "passages": Scene("#/run/handbook/samples/123?model=bm25&at=1", "article mark", phone=False),
    "logprobs": Scene("#/run/planets/samples/0", "article .tokens", phone=False, opened="Tokens of the options"),
    "curve": Scene("#/run/curve", "#sweeps figure svg", 830),
    "report": Scene("", "figure svg", phone=False),
}
SIZES = {"": (1280, 1), "-phone": (390, 2)}
"""The widths in pixels, by the end of a picture's name, and how many dots a pixel has."""


def make_runs(folder):
    """Make the runs that are not there."""
    for name, command in COMMANDS.items():
        if not (folder / "runs" / name / "summary.json").exists():
            out = ("--out", str(folder / "runs" / name))
            subprocess.run([sys.executable, "-m", "kshot", "run", *command, *out], cwd=ROOT, check=True)


def small(png):
    """Return a picture with a palette."""
    whole = Image.open(io.BytesIO(png)).convert("RGB")
    out = io.BytesIO()
    whole.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return out.getvalue()


def take(browser, link, report, scene, scheme, size):
    """Take one picture."""
    width, dots = SIZES[size]
    height = scene.height if not size else 844
    context = browser.new_context(
        viewport={"width": width, "height": height},
        device_scale_factor=dots,
        is_mobile=bool(size),
        color_scheme=scheme,
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(link if scene.state else report.as_uri())
    if scene.state:
        page.evaluate("state => { location.hash = state }", scene.state)
    page.locator(scene.shown).first.wait_for(state="attached")
    if scene.opened:
        page.get_by_text(scene.opened).click()
    page.wait_for_load_state("networkidle")
    page.mouse.move(0, 0)
    png = page.screenshot(animations="disabled")
    context.close()
    return small(png)


def main():
    """Take all pictures, or those of the scenes named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenes", nargs="*", metavar="SCENE", help=f"one of {', '.join(SCENES)} (default: all)")
    parser.add_argument("--runs", type=Path, help="folder in which the runs are, or are made and stay")
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "images")
    given = parser.parse_args()
    given.to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        folder = (given.runs or Path(place)).resolve()
        make_runs(folder)
        browser = playwright.chromium.launch(executable_path=chromium(playwright), args=["--no-sandbox"])
        with viewer_of("runs", cwd=folder) as link:
            for name in given.scenes or SCENES:
                scene = SCENES[name]
                for size in SIZES if scene.phone else ("",):
                    for scheme in ("light", "dark"):
                        picture = take(browser, link, folder / "runs" / "starter" / "report.html", scene, scheme, size)
                        path = given.to / f"{name}{size}-{scheme}.png"
                        path.write_bytes(picture)
                        print(f"{path} {len(picture):,}", flush=True)
                        if len(picture) > MAX_BYTES:
                            sys.exit(f"{path.name} is larger than {MAX_BYTES:,} bytes")
        browser.close()
    total = sum(path.stat().st_size for path in given.to.glob("*.png"))
    if total > MAX_TOTAL:
        sys.exit(f"all pictures have {total:,} bytes, more than {MAX_TOTAL:,}")


if __name__ == "__main__":
    main()
