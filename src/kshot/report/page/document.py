"""report.html: one file that opens from the disk, with its styles, its script and its data."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

from markupsafe import Markup

from kshot import __version__
from kshot.report.page.markup import Section, tag, text, together
from kshot.report.page.packed_samples import element_text

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


GENERATOR = '<meta name="generator" content="kshot'
"""What the beginning of every report has, and no other file: a report may be replaced by a new one."""

_NOTICE = Markup(
    "<!-- This file contains htm 3.1.1 (Apache License 2.0, Copyright 2018 Google Inc.) and Preact (MIT License, "
    "Copyright (c) 2015-present Jason Miller). -->"
)


class Page(NamedTuple):
    """What a report shows: its title, what stands below it, its sections, and the files that its script reads."""

    title: str
    about: Sequence[Markup]
    sections: Sequence[Section]
    files: Mapping[str, bytes] = {}


def document(page: Page) -> Iterator[str]:
    """Yield the pieces of the file."""
    constant = _constant()
    yield "<!doctype html>\n"
    yield '<html lang="en" data-source="report">\n<head>\n<meta charset="utf-8">\n'
    yield f'{GENERATOR} {__version__}">\n{constant.policy}\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
    yield f"{tag('title', text(page.title))}\n{constant.style}\n</head>\n"
    yield '<body class="report">\n'
    head = (tag("p", "kshot report", class_="overline"), tag("h1", text(page.title)), *page.about)
    yield f"{tag('header', *head, class_='report-head')}\n{_contents(page.sections)}\n<main>\n"
    for section in page.sections:
        yield f"{_section(section)}\n"
    made = together(("Made by kshot ", tag("span", __version__), ". This file needs no network and sends nothing."))
    yield f"</main>\n{tag('footer', tag('p', made, class_='soft'))}\n"
    for name, content in page.files.items():
        yield f"{tag('script', Markup(element_text(content)), type='application/json', id=name)}\n"  # noqa: S704 - base64
    yield f"{constant.script}\n</body>\n</html>\n"


class _Constant(NamedTuple):
    style: Markup
    script: Markup
    policy: Markup


@lru_cache(maxsize=1)
def _constant() -> _Constant:
    """Return what every report has; it is made once."""
    style = _inline("style", "\n".join(map(web_file, REPORT_STYLES)))
    script = _inline("script", "\n".join(map(web_file, REPORT_SCRIPTS)))
    allowed = {"script-src": _hash(script), "style-src": _hash(style)}
    rules = ["default-src 'none'", *(f"{name} '{each}'" for name, each in allowed.items())]
    rules += ["base-uri 'none'", "form-action 'none'"]
    policy = Markup('<meta http-equiv="Content-Security-Policy" content="{}">').format("; ".join(rules))
    return _Constant(
        Markup("<style>{}</style>").format(style), _NOTICE + Markup("\n<script>{}</script>").format(script), policy
    )


def _inline(kind: str, content: str) -> Markup:
    """Return kshot's own text for an element that ends at its end tag: none may stand within."""
    if f"</{kind}" in content.lower() or "<!--" in content:
        raise AssertionError(f"a file of kshot would end its <{kind}>")
    return Markup(content)  # noqa: S704 - kshot's own files


def _hash(content: Markup) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode("ascii")


# ---- parts of the page ----


def _contents(sections: Sequence[Section]) -> Markup:
    links = [tag("li", tag("a", text(each.title), href=f"#{each.id}")) for each in sections]
    return tag("nav", tag("ul", *links), class_="contents", aria_label="Contents")


def _section(section: Section) -> Markup:
    heading = tag("h2", text(section.title), id=f"{section.id}-title")
    labelled = f"{section.id}-title"
    return tag("section", heading, section.html, id=section.id, class_="section", aria_labelledby=labelled)
