"""One run in full: how it ended, its figures, sessions, settings and files."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kshot.core.failed_parts import mark_legend
from kshot.core.visible import one_line
from kshot.report.cells import cell
from kshot.report.figures import short_names
from kshot.report.quantities import abridged, duration, money
from kshot.report.runs_table import Clock, figure_text, progress_text, state_style, when
from kshot.report.sample_texts import written
from kshot.runs.run_state import moment

if TYPE_CHECKING:
    from rich.console import RenderableType

_LABEL_WIDTH = 10
_MAX_FIGURES = 8
_MAX_COUNT = 1 << 63
"""More tokens than there are."""
_UNITS = ("B", "kB", "MB", "GB")
_THOUSAND = 1000


def run_details(run: Mapping[str, Any], clock: Clock) -> Iterator[RenderableType]:
    """Yield the lines on a run: what it is, then each of its sessions with its command."""
    yield cell(run["run"], "bold")
    for label, values in _facts(run, clock):
        for at, value in enumerate(value for value in values if value):
            line = cell(f"  {label if at == 0 else '':{_LABEL_WIDTH}}", "dim")
            yield line.append(one_line(value), state_style(run["state"]) if label == "state" else "")
    if run["sessions"]:
        yield cell("sessions", "bold")
    for session in run["sessions"]:
        yield cell("  " + " · ".join(filter(None, _session(session, clock))))
        if command := _command(session):
            yield cell(f"    {command}", "dim")


def _facts(run: Mapping[str, Any], clock: Clock) -> Iterator[tuple[str, Sequence[str]]]:
    count = len(run["sessions"])
    took = "" if run["seconds"] is None else duration(run["seconds"])
    if took and any(_seconds(each) is None for each in run["sessions"][:-1]):  # one was killed: nobody knows when
        took = f"at least {took}"
    names = short_names(each["model"] for each in run["figures"])
    figures = [
        f"{figure_text(each)}  {each['task']}" + (f" · {names[each['model']]}" if len(names) > 1 else "")
        for each in run["figures"][:_MAX_FIGURES]
    ]
    if len(run["figures"]) > _MAX_FIGURES:
        figures.append(f"… and {len(run['figures']) - _MAX_FIGURES:,} more: kshot show {shlex.quote(run['run'])}")
    figures += mark_legend(run["figures"][:_MAX_FIGURES])
    yield "state", [" – ".join(filter(None, (run["state"], run["why"])))]
    yield "started", [when(run["started"], clock)]
    yield "took", [f"{took} in {count} sessions" if took and count > 1 else took]
    yield "models", run["models"]
    yield "datasets", run["datasets"]
    yield "progress", [] if run["progress"] is None else [progress_text(run["progress"])]
    yield "figures", figures
    yield "failed", [f"{run['failed']:,} samples"] if run["failed"] else []
    yield "cost", [] if run["cost_usd"] is None else [money(run["cost_usd"])]
    yield "settings", [f"{name} = {written(value)}" for name, value in run["settings"].items()]
    yield "spent", list(spent_lines(run["spent"]))
    yield "versions", [", ".join(f"{name} {version}" for name, version in run["versions"].items())]
    yield "files", [", ".join(f"{file['name']} {_size(file['bytes'])}" for file in run["files"])]


def _session(session: Mapping[str, Any], clock: Clock) -> Iterator[str]:
    started, seconds = session.get("started"), _seconds(session)
    yield when(started if isinstance(started, str) else None, clock)
    yield str(session.get("state"))
    yield "" if seconds is None else duration(seconds)
    yield f"on {session['host']}" if session.get("host") else ""
    versions = session.get("versions")
    yield f"kshot {versions.get('kshot')}" if isinstance(versions, Mapping) else ""


def _seconds(session: Mapping[str, Any]) -> float | None:
    """Return how long a session took; None if it has not ended, or nobody knows when."""
    started, ended = (moment(session.get(name)) for name in ("started", "ended"))
    return None if started is None or ended is None else max(0.0, (ended - started).total_seconds())


def _command(session: Mapping[str, Any]) -> str:
    """Return the command of a session as a shell reads it; one that Python called has none."""
    words = session.get("command")
    return shlex.join(map(str, words)) if isinstance(words, list) else ""


def spent_lines(spent: Any) -> Iterator[str]:
    """Yield what each role has asked and read; the file may hold anything."""
    for role, counts in spent.items() if isinstance(spent, Mapping) else ():
        if not isinstance(counts, Mapping):
            continue
        found = {name: count for name, count in counts.items() if type(count) is int and 0 <= count < _MAX_COUNT}
        parts = [f"{found.get('requests', 0):,} requests{_kinds(found)}"]
        read, wrote = (abridged(found.get(name, 0)) for name in ("prompt_tokens", "completion_tokens"))
        cached = f" ({abridged(found['cached_tokens'])} cached)" if found.get("cached_tokens") else ""
        yield f"{role}: {', '.join(parts)}, {read} tokens read{cached}, {wrote} written"


def _kinds(found: Mapping[str, int]) -> str:
    """Return what became of requests, if not all of them were answered."""
    names = [name for name in ("answered", "failed", "probes", "unanswered") if found.get(name)]
    return "" if names == ["answered"] else "".join(f", {found[name]:,} {name}" for name in names)


def _size(count: int | None) -> str:
    """Return the size of a file; a folder has none."""
    if count is None:
        return "(folder)"
    size = float(count)
    for unit in _UNITS:
        if size < _THOUSAND or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= _THOUSAND
    raise AssertionError("every size has a unit")
