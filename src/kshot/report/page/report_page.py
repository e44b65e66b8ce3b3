"""report.html, one file that opens from the disk: its head, its sections, and as many samples as fit beside them."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from kshot import __version__
from kshot.core.shareable import shareable
from kshot.core.specs import without_options
from kshot.report.cells import shortened
from kshot.report.figures import short_names
from kshot.report.page.charts import table_html
from kshot.report.page.comparison_section import between_runs
from kshot.report.page.markup import Section, tag, text, together
from kshot.report.page.packed_samples import (
    Counted,
    PackedRun,
    SamplePairs,
    SamplesRead,
    flipped_numbers,
    pack,
    packed_run,
    read_run_samples,
    sample_pairs,
)
from kshot.report.page.page_run import PageRun
from kshot.report.page.run_sections import run_sections
from kshot.report.view import Content, TableView, count_cell, numbers, words
from kshot.runs.run_state import moment

if TYPE_CHECKING:
    from kshot.runs.comparing import Comparison


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
    style, script, policy = _constant()
    yield "<!doctype html>\n"
    yield '<html lang="en" data-source="report">\n<head>\n<meta charset="utf-8">\n'
    yield f'{GENERATOR} {__version__}">\n{policy}\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
    yield f"{tag('title', text(page.title))}\n{style}\n</head>\n"
    yield '<body class="report">\n'
    head = (tag("p", "kshot report", class_="overline"), tag("h1", text(page.title)), *page.about)
    yield f"{tag('header', *head, class_='report-head')}\n{_contents(page.sections)}\n<main>\n"
    for section in page.sections:
        yield f"{_section(section)}\n"
    made = together(("Made by kshot ", tag("span", __version__), ". This file needs no network and sends nothing."))
    yield f"</main>\n{tag('footer', tag('p', made, class_='soft'))}\n"
    for name, content in page.files.items():
        packed = Markup(base64.b64encode(content).decode("ascii"))  # noqa: S704 - it has no sign of HTML
        yield f"{tag('script', packed, type='application/json', id=name)}\n"
    yield f"{script}\n</body>\n</html>\n"


@cache
def _constant() -> tuple[Markup, Markup, Markup]:
    """Return the style, the script and the policy that every report has; they are made once."""
    style = _inline("style", "\n".join(map(web_file, REPORT_STYLES)))
    script = _inline("script", "\n".join(map(web_file, REPORT_SCRIPTS)))
    allowed = {"script-src": _hash(script), "style-src": _hash(style)}
    rules = ["default-src 'none'", *(f"{name} '{each}'" for name, each in allowed.items())]
    rules += ["base-uri 'none'", "form-action 'none'"]
    policy = Markup('<meta http-equiv="Content-Security-Policy" content="{}">').format("; ".join(rules))
    return Markup("<style>{}</style>").format(style), _NOTICE + Markup("\n<script>{}</script>").format(script), policy


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


_MAX_NAMES, _MAX_NAME = 4, 80


def report_title(runs: Sequence[PageRun]) -> str:
    """Return the title of a report."""
    names = [run.name for run in runs]
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) <= _MAX_NAMES else f"{len(names)} runs"


def about_runs(runs: Sequence[PageRun], not_compared: str) -> list[Markup]:
    """Return the lines below the title: what was asked of whom, and when."""
    models = short_names(dict.fromkeys(str(row["model"]) for run in runs for row in run.record.results))
    named = [str(each) for run in runs for each in run.spec.get("identity", {}).get("datasets", ())]
    datasets = dict.fromkeys(map(without_options, named))  # the section of settings has the rest
    said = [_listed("model", models.values()), _listed("dataset", shareable(list(datasets)))]
    lines = [tag("p", text(" · ".join(filter(None, said))), class_="soft")]
    ends = [moment(run.spec["sessions"][-1].get("ended")) for run in runs if run.spec.get("sessions")]
    if ended := sorted({f"{when:%Y-%m-%d %H:%M}" for when in ends if when is not None}):
        told = f"run ended {ended[0]}" if len(ended) == 1 else f"runs ended {ended[0]} to {ended[-1]}"
        lines.append(tag("p", f"{told} UTC", class_="soft"))
    lines += [tag("p", text(f"The runs are not compared: {not_compared}"), class_="warning")] if not_compared else []
    return lines


def _listed(noun: str, names: Iterable[Any]) -> str:
    known = list(names)
    if not known:
        return ""
    more = f" and {len(known) - _MAX_NAMES} more" if len(known) > _MAX_NAMES else ""
    shown = (shortened(name, _MAX_NAME) for name in known[:_MAX_NAMES])
    return f"{noun if len(known) == 1 else f'{noun}s'} {', '.join(shown)}{more}"


# ---- what has no room ----


_TABLE = re.compile(r'<details class="numbers">.*?</details>', re.DOTALL)
_CHART = re.compile(r'<figure class="chart.*?</figure>', re.DOTALL)
"""Foreign texts are escaped, and neither stands within another of its kind: the first end is its own."""

_NO_TABLE = tag("p", "The table has no room in this report; summary.json has its numbers.", class_="chart-note")
_NO_CHART = tag("p", "A chart has no room in this report; kshot view shows it.", class_="chart-note")


def fitted_sections(sections: Sequence[Section], room: int) -> list[Section]:
    """Return sections of at most so many bytes together, without what is too much: the largest gives way first.

    Charts and tables are bounded; many of them, or names of many kilobytes, may still be too much.
    """
    found = [section.html for section in sections]
    for pattern, note in ((_TABLE, _NO_TABLE), (_CHART, _NO_CHART)):
        if (beyond := sum(map(_bytes, found)) - room) > 0:
            found = _without_largest(found, pattern, note, beyond)
    while sum(map(_bytes, found)) > room:
        size, at = max((_bytes(html), at) for at, html in enumerate(found))
        what = f"This section takes {size / 1e6:.1f} MB, and a report has no room for it."
        where = "kshot view shows it, and summary.json has its figures."
        told = tag("p", f"{what} {where}", class_="warning")
        if len(told) >= size:
            break  # all that is left is short
        found[at] = told
    return [replace(section, html=html) for section, html in zip(sections, found, strict=True)]


def _without_largest(found: Sequence[Markup], pattern: re.Pattern[str], note: Markup, beyond: int) -> list[Markup]:
    """Return the pages with the note in the place of pieces, the largest first, until so many bytes are gone."""
    pieces = [
        (_bytes(piece[0]), at, piece.start()) for at, html in enumerate(found) for piece in pattern.finditer(html)
    ]
    gone: set[tuple[int, int]] = set()
    for size, at, start in sorted(pieces, reverse=True):
        if beyond <= 0 or size <= len(note):
            break
        gone.add((at, start))
        beyond -= size - len(note)

    def kept(at: int, html: Markup) -> Markup:
        text = pattern.sub(lambda piece: note if (at, piece.start()) in gone else piece[0], html)
        return Markup(text)  # noqa: S704 - pieces of what was safe

    return [kept(at, html) for at, html in enumerate(found)]


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "backslashreplace"))


# ---- the section of samples ----


_KINDS = {
    "failed": "failed",
    "flipped": "flipped: one run alone is right",
    "wrong": "wrong or partly right",
    "other": "right, or not rated",
}


def samples_section(read: Sequence[SamplesRead], packed: Sequence[PackedRun]) -> Section | None:
    """Return the section; None if no run has samples. ``packed`` is empty while their size is not known."""
    if not any(map(len, read)):
        return None
    held = list(zip(read, packed, strict=True)) if packed else []
    parts = [tag("p", _how_many(held))] if held else []
    if any(each.here < each.all for _, run in held for each in run.counts.values()):
        parts.append(_counts(held))
    parts.append(_links(read))
    needs = "Leafing through the samples needs a script, and scripts are off here. Everything else is above."
    parts.append(tag("noscript", tag("p", needs, class_="soft")))
    parts.append(tag("div", id="sample-browser"))
    return Section("samples", "Samples", together(parts))


def _how_many(held: Sequence[tuple[SamplesRead, PackedRun]]) -> Markup | str:
    here, every = sum(len(packed.numbers) for _, packed in held), sum(len(read) for read, _ in held)
    cut = sum(packed.cut for _, packed in held)
    long = f" {cut:,} of them {'is' if cut == 1 else 'are'} so long that texts lost their middle." if cut else ""
    if here == every:
        whole = f"All {every:,} samples are in this file." if every > 1 else "The one sample is in this file."
        return whole + long
    commands = [
        together((tag("code", text(f"kshot view {read.run.record.path}")), " "))
        for read, _ in held[:1]
        if read.run.record.path is not None
    ]
    more = together((" ", *commands, "shows all.")) if commands else ""
    order = "failed, flipped and wrong ones first, as many as fit"
    return together((f"{here:,} of {every:,} samples are in this file: {order}.{long}", more))


def _counts(held: Sequence[tuple[SamplesRead, PackedRun]]) -> Markup:
    several = len(held) > 1
    rows: list[list[Content]] = [
        [*([read.run.name] if several else []), _KINDS[kind], count_cell(each.here), count_cell(each.all)]
        for read, packed in held
        for kind, each in packed.counts.items()
    ]
    columns = [*words(*["run"] * several, "samples"), *numbers("in this file", "in the run")]
    return table_html(TableView(columns, rows), "How many samples are in this file")


def _links(read: Sequence[SamplesRead]) -> Markup:
    """Return what opens the samples of each run."""
    links = []
    for each in read:
        if len(each):
            words = "Open the samples" if len(read) == 1 else f"Samples of {each.run.name}"
            links.append(tag("li", tag("a", text(words), href=f"#/run/{each.run.key}/samples", data_opens="")))
    return tag("ul", *links, class_="run-buttons screen-only")


_SPARE = 4_000
"""Bytes for what says how many samples there are."""
_SHARE_OF_SAMPLES = 4
"""Samples have at least this part of a report, one in so many."""


def report_page(
    runs: Sequence[PageRun], comparison: Comparison | None, not_compared: str, most_bytes: int
) -> tuple[Page, Counted]:
    """Read all samples once, and return a report within the limit of bytes, and how many samples it holds.

    ``not_compared`` says why the runs are not compared, if so.
    """
    read = [read_run_samples(run) for run in runs]
    sections = run_sections(runs, {each.run.key: each for each in read})
    if comparison is not None:
        sections.insert(1, between_runs(comparison, {run.name: run.key for run in runs}))
    pairs = sample_pairs(comparison, read)
    title, about = report_title(runs), about_runs(runs, not_compared)
    for_samples = most_bytes // _SHARE_OF_SAMPLES if any(map(len, read)) else 0
    sections = fitted_sections(sections, most_bytes - _size(Page(title, about, [])) - for_samples - _SPARE)

    def made(packed: Sequence[PackedRun]) -> Page:
        last = samples_section(read, packed)
        shown: list[Section] = [*sections, *([last] if last is not None else [])]
        return Page(title, about, shown, _files(read, packed, pairs))

    room = most_bytes - _size(made([])) - _SPARE
    packed = _packed(read, flipped_numbers(pairs), room)
    page = made(packed)
    while (beyond := _size(page) - most_bytes) > 0 and any(each.numbers for each in packed):
        room -= beyond + _SPARE  # the pairs of samples take their part too
        packed = _packed(read, flipped_numbers(pairs), room)
        page = made(packed)
    return page, Counted(sum(len(each.numbers) for each in packed), sum(map(len, read)))


def _size(page: Page) -> int:
    return sum(map(_bytes, document(page)))


def _packed(read: Sequence[SamplesRead], flipped: Mapping[str, set[int]], room: int) -> list[PackedRun]:
    """Share the room among the runs; what one does not need is left to the next."""
    found = []
    for number, each in enumerate(read):
        packed = packed_run(each, flipped.get(each.run.key, set()), room // (len(read) - number))
        room -= packed.size
        found.append(packed)
    return found


def _files(read: Sequence[SamplesRead], packed: Sequence[PackedRun], pairs: Sequence[SamplePairs]) -> dict[str, bytes]:
    files = {name: content for each in packed for name, content in each.files.items()}
    here = {each.run.key: set(own.numbers) for each, own in zip(read, packed, strict=False)}
    runs = [{"key": each.run.key, "name": each.run.name, "samples": True} for each in read if len(each)]
    listed = {"runs": runs, "comparisons": [(each.baseline, each.run) for each in pairs]}
    return files | {"data/runs.json": pack(listed)} | dict(each.file(here) for each in pairs if packed)
