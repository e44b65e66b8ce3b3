"""The style sheets and scripts of pages: plain files, which a page links to or contains."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

_SHARED = ("charts.css", "sections.css", "samples.css")

STYLES = ("style.css", "viewer.css", *_SHARED)
"""Those of the viewer, in their order."""

REPORT_STYLES = ("style.css", *_SHARED, "report.css")
"""Those within ``report.html``."""

SCRIPTS = (
    "preact.js",
    "base.js",
    "sources.js",
    "differences.js",
    "sample.js",
    "samples.js",
    "home.js",
    "run.js",
    "compare.js",
    "app.js",
)
"""Those of the viewer, in their order: each defines what it gives to the later ones as a member of ``kshot``."""

STATIC_SCRIPTS = (*SCRIPTS[:3], "packed.js", *SCRIPTS[3:])
"""Those of the viewer's pages as files: without a server, the script reads the data itself."""

REPORT_SCRIPTS = (
    "preact.js",
    "base.js",
    "sources.js",
    "packed.js",
    "differences.js",
    "sample.js",
    "samples.js",
    "report.js",
)
"""Those within ``report.html``."""


LICENSES = "LICENSES.txt"
"""Those of ``preact.js``, which go along with it."""


@cache
def web_file(name: str) -> str:
    """Return the text of a style sheet or script."""
    return files(__package__).joinpath("web").joinpath(name).read_text("utf-8")
