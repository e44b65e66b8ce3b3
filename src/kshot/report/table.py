"""Results as a table that fits a terminal."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table

from kshot.core.records import ResultRow
from kshot.core.visible import metric_label
from kshot.report.cells import cell
from kshot.report.details_table import DetailsTable
from kshot.report.drawn_table import drawn
from kshot.report.figure_cells import figure_cell, marked_figure
from kshot.report.quantities import money
from kshot.report.sample_texts import counted
from kshot.report.view import Column, Content, TableView, Tone, words

_MAX_MODEL_COLUMNS = 2
"""Models that fit side by side."""

_MAX_NAME_WIDTH = 16
"""The width of a name that fits above its column."""

_MAX_SAID_WIDTH = 24
"""The width of what a row says of how it was scored."""

_OPTIONS = re.compile(r",\s*[A-Za-z_]\w*\s*=")
"""Where the options of a spec begin."""

_SAID = {"ranking_type": "by", "code": "code"}
"""What a row may say of how it was scored, and the title of its column: the rule, and whose code ran."""

_COUNT_TONES: dict[str, Tone] = {"ties": "warn", "unanswered": "warn", "failed_replies": "poor", "failed": "bad"}
"""Counts that are shown where there are any: samples whose options tie, unreadable replies (scored as wrong), failed
ones among several replies to a sample, and samples without a reply."""


def results_table(rows: Sequence[ResultRow]) -> Table:
    """Draw tasks down, and models across when there are several; each figure has its 95 % interval.

    Figures that break others down are in ``details_tables``.
    """
    rows = [row for row in rows if not row.get("detail")]
    models = list(dict.fromkeys(row["model"] for row in rows))
    names = short_names(models)
    wide = len(models) > 1 and max(map(len, names.values())) > _MAX_NAME_WIDTH
    if len(models) > _MAX_MODEL_COLUMNS or wide:  # too wide side by side: every model gets lines of its own
        rows = [{**row, "task": f"{names[row['model']]} · {row['task']}", "model": ""} for row in rows]
        models = [""]
    counts = {name: tone for name, tone in _COUNT_TONES.items() if any(row.get(name) for row in rows)}
    said = {key: title for key, title in _SAID.items() if any(row.get(key) for row in rows)}
    columns = [*words("task", "metric"), *(Column(title, most=_MAX_SAID_WIDTH) for title in said.values())]
    columns.append(Column("n", "number"))
    for model in models:
        columns += [Column(names[model] if len(models) > 1 else "value", "number"), Column("95 %", "interval")]
    columns += [Column(name.replace("_", " "), "number", tone=tone) for name, tone in counts.items()]
    lines: list[list[Content]] = []
    told: set[tuple[str, str]] = set()
    for (task, _), found in _by_task(rows).items():
        line: list[Content] = [task, metric_label(*found.values())]
        line += ["" if (task, key) in told else _told(found.values(), key) for key in said]
        told.update((task, key) for key in said if key == "code")  # one for all figures of a task
        sizes = [row["n"] for model in models if (row := found.get(model)) is not None]
        line.append(" / ".join(map(str, sizes)) if len(set(sizes)) > 1 else str(sizes[0]))
        for model in models:
            row = found.get(model)
            line += [None if row is None else figure_cell(row, (2, 1))] * 2
        for name in counts:
            own_counts = [found[model].get(name, 0) if model in found else 0 for model in models]
            line.append(" / ".join(map(str, own_counts)) if any(own_counts) else "")  # one for each model
        lines.append(line)
    return drawn(TableView(columns, lines))


def _told(rows: Iterable[ResultRow], key: str) -> str:
    """Return what rows say under a key."""
    return ", ".join(dict.fromkeys(str(row.get(key, "")) for row in rows))


def details_tables(rows: Sequence[ResultRow]) -> Iterator[RenderableType]:
    """Draw the figures that come with others from the same answers, side by side: one table for each kind of task.

    Where subsets have averages, or draws of examples a spread, these stand for the single ones.
    """
    names = short_names(dict.fromkeys(row["model"] for row in rows))
    averaged = {row["dataset"] for row in rows if row.get("average")}
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        single = ("subset" in row and row.get("dataset") in averaged) or "example_seed" in row
        if row.get("detail") and not single:
            lines.setdefault((row["model"], row["task"]), {})[row["metric"]] = marked_figure(row)
    ruled = {(row["model"], row["task"]) for row in rows if row.get("rule")}
    kinds: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for line, figures in lines.items():
        kinds.setdefault(tuple(figures), []).append(line)
    for metrics, some in kinds.items():
        title = "By all rules:" if any(line in ruled for line in some) else "More figures:"
        labels = [task if len(names) == 1 else f"{names[model]} · {task}" for model, task in some]
        yield Group(
            cell(title, "dim"), DetailsTable(metrics, dict(zip(labels, (lines[line] for line in some), strict=True)))
        )


def _by_task(rows: Sequence[ResultRow]) -> dict[tuple[str, str], dict[str, ResultRow]]:
    """Group the rows by task and metric; each group has a row for each model."""
    found: dict[tuple[str, str], dict[str, ResultRow]] = {}
    for row in rows:
        found.setdefault((row["task"], row["metric"]), {})[row["model"]] = row
    return found


def short_names(models: Iterable[str]) -> dict[str, str]:
    """Return a name for each model that no other has: as little of the end of its spec as that takes.

    ``hf:models/a/b`` becomes ``hf:b``, ``replay:runs.json#bm25`` becomes ``bm25``, and
    ``openai:org/m@http://host/v1,top_k=1`` becomes ``openai:m@host,top_k=1``.
    """
    forms = {model: _forms(model) for model in models}
    chosen = dict.fromkeys(forms, 0)
    while True:
        names = {model: forms[model][place] for model, place in chosen.items()}
        shared = Counter(names.values())
        longer = [model for model, name in names.items() if shared[name] > 1 and chosen[model] < len(forms[model]) - 1]
        if not longer:
            return names
        for model in longer:
            chosen[model] += 1


def _forms(model: str) -> list[str]:
    """Return the names that the spec of a model can have, from the shortest to the whole spec."""
    start = found.start() if (found := _OPTIONS.search(model)) else len(model)
    kind, colon, argument = model[:start].partition(":")
    name, _, url = argument.partition("@")
    _, slashes, address = url.partition("://")
    if kind == "replay" and "#" in argument:
        path, _, system = argument.rpartition("#")
        forms = [system, *(f"replay:{tail}#{system}" for tail in _tails(path))]
    elif slashes:
        forms = [f"{kind}:{tail}@{address.partition('/')[0]}" for tail in _tails(name)]
    else:
        forms = [f"{kind}{colon}{tail}" for tail in _tails(argument)]
    return [*(form + model[start:] for form in forms), model]


def _tails(path: str) -> list[str]:
    """Return the last part of a path, its last two parts, and so on."""
    parts = path.rstrip("/").split("/")
    return ["/".join(parts[-count:]) for count in range(1, len(parts) + 1)]


def spending(usage: Sequence[ResultRow]) -> list[str]:
    """Return a line on the tokens of every model behind a server, with their cost where prices are known."""
    lines = []
    for row in usage:
        if "cost_usd" in row or row.get("server"):
            cost = f", {money(row['cost_usd'])}" if "cost_usd" in row else ""
            read, wrote = row["prompt_tokens"], row["completion_tokens"]
            cached = f" ({row['cached_tokens']:,} cached)" if row.get("cached_tokens") else ""
            requests = f", {counted(row['requests'], 'request')}" if "requests" in row else ""
            role = "" if row["role"] == "model" else f" ({row['role']}{requests})"
            lines.append(f"{row['model']}{role}: {read:,} tokens read{cached}, {wrote:,} written{cost}")
    return lines
