"""The section of a report in which readers leaf through samples, and how many of how many there are."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from kshot.report.page.markup import Section, tag, text, together
from kshot.report.page.packed_samples import PackedRun
from kshot.report.page.samples_read import SamplesRead
from kshot.report.page.tables import table_html
from kshot.report.view import Content, TableView, count_cell, numbers, words

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
