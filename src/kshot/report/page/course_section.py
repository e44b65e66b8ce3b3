"""How runs went: their sessions, what they cost, what they note, what failed first, and how they go on."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from kshot.core.shareable import shareable, without_secrets
from kshot.report.figures import short_names
from kshot.report.page.charts import folded, table_html
from kshot.report.page.markup import Section, command, tag, text, together
from kshot.report.quantities import dollars, duration
from kshot.report.runs_table import spent_lines
from kshot.report.sample_look import counted
from kshot.report.view import Cell, Content, TableView, count_cell, numbers, words
from kshot.runs.headline import finite, task_rows
from kshot.runs.record import failure_line
from kshot.runs.run_state import moment
from kshot.runs.spec_file import WHY

if TYPE_CHECKING:
    from kshot.report.page.packed_samples import SamplesRead
    from kshot.report.page.page_run import PageRun


_SHOWN = 5
"""Notes, sessions and failures that are seen without a click."""
_MOST = 100
_MAX_TEXT = 2_000
"""Characters of a note or a failure."""


def course_section(runs: Sequence[PageRun], read: Mapping[str, SamplesRead] | None) -> Section | None:
    """Return the section on how runs went; None if nothing is known of it."""
    parts: list[Markup] = []
    for run in runs:
        own = list(_run(run, None if read is None else read.get(run.key)))
        if own and len(runs) > 1:
            parts.append(tag("h3", text(run.name)))
        parts += own
    return Section("course", "How it ran", together(parts)) if parts else None


def _run(run: PageRun, read: SamplesRead | None) -> Iterator[Markup]:
    sessions = [each for each in run.spec.get("sessions", ()) if isinstance(each, Mapping)]
    if sessions:
        yield _sessions(sessions)
    if line := command_of(sessions):
        yield tag("p", "To run it again" if _words(sessions)[0] == "kshot" else "Started by", class_="label")
        yield command(line)
    yield from _listed("Requests and tokens in all sessions", spent_lines(run.spec.get("spent")))
    if run.record.usage:
        yield _usage(run)
    yield from _listed("Notes", shareable(run.record.notes))
    yield from _listed("First failures", _failures(run, read))


def _listed(title: str, lines: Iterable[str]) -> Iterator[Markup]:
    """Yield a list; of many lines the first ones, and the others folded."""
    items = [tag("li", text(line[:_MAX_TEXT])) for line in lines]
    if not items:
        return
    yield tag("p", title, class_="label")
    yield tag("ul", *items[:_SHOWN], class_="notes")
    if rest := items[_SHOWN:_MOST]:
        left = len(items) - _MOST
        more = [tag("p", f"… and {left:,} more in summary.json", class_="soft")] if left > 0 else []
        yield folded(f"{len(items) - _SHOWN:,} more", tag("ul", *rest, class_="notes"), *more)


def _sessions(sessions: Sequence[Mapping[str, Any]]) -> Markup:
    """Return the sessions of a run, the latest last; where they ran is not told, because reports are shared."""
    explained = any(each.get(WHY) for each in sessions)
    rows = [
        [*_session(each), *([str(each.get(WHY, ""))[:_MAX_TEXT]] if explained else [])] for each in sessions[-_MOST:]
    ]
    columns = [*words("started (UTC)", "state"), *numbers("took"), *words("kshot", *["ended by"] * explained)]
    table = table_html(TableView(columns, rows[-_SHOWN:]), "Sessions")
    if len(rows) <= _SHOWN:
        return table
    earlier = table_html(TableView(columns, rows[:-_SHOWN]), "Earlier sessions")
    return together((table, folded(f"{len(sessions) - _SHOWN:,} earlier sessions", earlier)))


def _session(session: Mapping[str, Any]) -> Iterator[str]:
    started, ended = (moment(session.get(name)) for name in ("started", "ended"))
    yield "–" if started is None else f"{started:%Y-%m-%d %H:%M:%S}"
    yield str(session.get("state", "–"))
    yield "–" if started is None or ended is None else duration((ended - started).total_seconds())
    versions = session.get("versions")
    yield str(versions.get("kshot", "–")) if isinstance(versions, Mapping) else "–"


def command_of(sessions: Sequence[Mapping[str, Any]]) -> str:
    """Return the command of the first session that has one, as a shell reads it, without what may be a key."""
    return shlex.join(_words(sessions))[:_MAX_TEXT]


def _words(sessions: Sequence[Mapping[str, Any]]) -> list[str]:
    for session in sessions:
        words = session.get("command")
        if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
            return [] if words[0] in _NO_COMMAND else without_secrets(words)
    return []


_NO_COMMAND = ("", "-", "-c")
"""What Python calls a program that is in no file."""


def _usage(run: PageRun) -> Markup:
    """Return the tokens of each model, and what they cost where prices are known."""
    usage = run.record.usage
    names = short_names(dict.fromkeys(str(row["model"]) for row in usage))
    priced = any(finite(row.get("cost_usd")) is not None for row in usage)
    cached = any(row.get("cached_tokens") for row in usage)
    counts = {"prompt_tokens": "tokens read", "cached_tokens": "of them cached", "completion_tokens": "tokens written"}
    if not cached:
        del counts["cached_tokens"]
    columns = [*words("model", "role"), *numbers(*counts.values(), *["cost in USD"] * priced)]
    rows = []
    for at, row in enumerate(usage[:_MOST]):
        role = f"{row['role']}, {counted(row['requests'], 'request')}" if "requests" in row else str(row["role"])
        source = f"{run.key}/usage/{at}"
        cells: list[Content] = [names[str(row["model"])], role]
        cells += [count_cell(row.get(name, 0), name, source) for name in counts]
        if priced:
            cost = finite(row.get("cost_usd"))
            cells.append(Cell("" if cost is None else dollars(cost), cost, source, "cost_usd"))
        rows.append(cells)
    return table_html(TableView(columns, rows), "Tokens and cost")


def _failures(run: PageRun, read: SamplesRead | None) -> list[str]:
    """Return why the first sample of each task failed; the samples say it, or the run that has just ended."""
    if run.record.first_failures or read is None:
        return run.record.first_failures
    told: dict[tuple[str, str], str] = {}
    for row in task_rows(run.record.results):
        key = row["task"], str(row.get("model", ""))
        if key in read.failures and row.get("failed"):
            told.setdefault(key, failure_line(*key, row["failed"], row.get("failed_replies", 0), read.failures[key]))
    return list(told.values())


_WHY = {
    "stopped": "A signal or a limit stopped this run.",
    "failed": "An error ended this run.",
    "killed": "The process of this run ended before its time.",
    "damaged": "Restore the folder of this run, or run its command again in a new one.",
    "running?": "This run seems to work on another machine: its lock cannot be seen from here.",
}
_GOES_ON = {"stopped", "failed", "killed"}
_HOW = "The same command goes on from there, and asks nothing again that is answered:"


def unfinished_section(run: Mapping[str, Any]) -> Section | None:
    """Return what to say of a run that has no figures, or old ones; None if it is done or runs here.

    ``run`` is what ``runs.listing.details`` returns.
    """
    state, progress = run["state"], run["progress"]
    if state not in _WHY:
        return None
    words = [f"{run['why']}."] if run["why"] else []
    words.append(_WHY[state])
    if progress is not None:
        whole = "" if progress["total"] is None else f" of {progress['total']:,}"
        words.append(f"{progress['done']:,}{whole} samples are done.")
    said = tag("p", text(" ".join(words)))
    line = command_of(run["sessions"])
    if state in _GOES_ON and line:
        said += tag("p", _HOW) + command(line)
    return Section("unfinished", "Not finished", tag("div", said, class_="notice wrong"))
