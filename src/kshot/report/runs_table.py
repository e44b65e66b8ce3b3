"""Runs as a table: one line for each where everything fits, else two; and one run in full.

The name of a run is never cut.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from kshot.core.failed_parts import failure_mark, mark_legend
from kshot.core.specs import without_options
from kshot.core.visible import metric_label, one_line
from kshot.report.cells import cell, shortened
from kshot.report.figures import number, short_names
from kshot.report.quantities import abridged, dollars, duration, money, rough_duration
from kshot.report.sample_look import written
from kshot.runs.run_state import moment

if TYPE_CHECKING:
    from rich.console import RenderableType


_GAP = 2
_MIN_NAMES = 12
"""The least width of a column with models or datasets, if they are wider than that."""
_MAX_HEADLINE = 40
_MAX_FOLDER = 24
"""The width of a folder that stands before the name of every run; a longer one is said once."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_STATES = {"done": "green", "running": "bold", "failed": "red", "killed": "red", "damaged": "red"}
_WHO = ("models", "datasets")

MORE = "N more tasks or models"
"""What +N after a headline counts."""


@dataclass(frozen=True)
class Clock:
    """The present time, and the zone in which times are shown; None: that of this machine."""

    now: datetime
    zone: tzinfo | None = None


@dataclass
class _RunColumn:
    name: str
    texts: list[str]
    right: bool = False

    @property
    def width(self) -> int:
        """The width of the widest text."""
        return max(map(cell_len, (self.name, *self.texts)))


def runs_table(
    runs: Sequence[Mapping[str, Any]], folder: str | Path, width: int, clock: Clock
) -> Iterator[RenderableType]:
    """Yield the lines of a table of runs below a folder; none is wider than the terminal but for the names of runs."""
    prefix = f"{folder}/" if cell_len(f"{folder}/") > _MAX_FOLDER else ""
    if prefix:
        yield cell(f"in {folder}:", "dim")
    names = [one_line(run["run"].removeprefix(prefix)) for run in runs]
    columns = _columns(runs, clock)
    models = [list(map(one_line, short_names(run["models"]).values())) for run in runs]
    datasets = list(map(_datasets, runs))
    own = _RunColumn("run", names)
    room = width - _total([own, *columns]) - 2 * _GAP
    wanted = [_RunColumn(name, list(map(_joined, texts))) for name, texts in zip(_WHO, (models, datasets), strict=True)]
    fits = room >= sum(min(each.width, _MIN_NAMES) for each in wanted)
    if fits:
        widths = _shares([each.width for each in wanted], room)
        who = [
            _RunColumn(name, [_joined(each, share) for each in texts])
            for name, texts, share in zip(_WHO, (models, datasets), widths, strict=True)
        ]
        columns = [own, *columns, *who]
    else:  # a line for the name with what was run, and one below it for the figures
        columns = _fitting(columns, width - _GAP)
        yield _line([("run", "bold"), ("models on datasets", "bold")])
    inset = [] if fits else [("", "")]
    yield _line([*inset, *((_padded(each, each.name), "bold") for each in columns)])
    for at, (name, run) in enumerate(zip(names, runs, strict=True)):
        if not fits:
            yield _line([(name, "bold"), (_what(models[at], datasets[at], width - cell_len(name) - _GAP), "")])
        yield _line([*inset, *((_padded(each, each.texts[at]), _style(each.name, run)) for each in columns)])
        if run["why"] and run["state"] != "damaged":  # a damaged folder has it in the line of the run
            yield _line([("", ""), (shortened(one_line(run["why"]), max(width - _GAP, _MIN_NAMES)), "dim")])


def _what(models: list[str], datasets: list[str], room: int) -> str:
    """Return which models were run on which datasets, if there is room for it."""
    if not models or not datasets or room < _MIN_NAMES:
        return _joined([*models, *datasets], room) if room >= _MIN_NAMES else ""
    shares = _shares([cell_len(_joined(each)) for each in (models, datasets)], room - len(" on "))
    return " on ".join(_joined(each, share) for each, share in zip((models, datasets), shares, strict=True))


# ---- columns ----


def _columns(runs: Sequence[Mapping[str, Any]], clock: Clock) -> list[_RunColumn]:
    """Return the columns but for names, those that all runs leave empty left out; the first ones matter most."""
    found = [
        _RunColumn("started", [when(run["started"], clock) for run in runs]),
        _RunColumn("state", [run["state"] for run in runs]),
        _RunColumn("headline", [shortened(headline(run), _MAX_HEADLINE) for run in runs]),
        _RunColumn("failed", [f"{run['failed']:,}" if run["failed"] else "" for run in runs], right=True),
        _RunColumn("took", [_known(run["seconds"], rough_duration) for run in runs], right=True),
        _RunColumn("USD", [_known(run["cost_usd"], dollars) for run in runs], right=True),
    ]
    return [each for each in found if any(each.texts)]


def _shares(widths: Sequence[int], room: int) -> list[int]:
    """Share the room among texts; one that needs less than its share leaves the rest to the others."""
    shares: dict[int, int] = {}
    for at in sorted(range(len(widths)), key=lambda at: widths[at]):
        shares[at] = min(widths[at], (room - sum(shares.values())) // (len(widths) - len(shares)))
    return [shares[at] for at in range(len(widths))]


def _fitting(columns: Sequence[_RunColumn], width: int) -> list[_RunColumn]:
    """Return the columns that a narrow terminal has room for."""
    fitting = list(columns)
    while len(fitting) > 1 and _total(fitting) > width:
        fitting.pop()
    return fitting


def _total(columns: Sequence[_RunColumn]) -> int:
    return sum(each.width for each in columns) + _GAP * (len(columns) - 1)


def _padded(column: _RunColumn, text: str) -> str:
    space = " " * (column.width - cell_len(text))
    return space + text if column.right else text + space


def _line(parts: Iterable[tuple[str, str]]) -> RenderableType:
    line = cell("", no_wrap=True)
    for at, (text, style) in enumerate(parts):
        line.append(" " * _GAP if at else "")
        line.append(one_line(text), style)
    line.rstrip()
    return line


def state_style(state: str) -> str:
    """Return how the word of a state looks."""
    return _STATES.get(state, "")


def _style(column: str, run: Mapping[str, Any]) -> str:
    if column == "state" or (column == "headline" and run["state"] == "damaged"):
        return state_style(run["state"])
    return {"run": "bold", "failed": "bold red"}.get(column, "")


# ---- texts ----


def when(written: str | None, clock: Clock) -> str:
    """Return a time of a record for people: ``today 09:12``, ``12 Nov 09:12``, ``12 Nov 2025``."""
    if written is None:
        return ""
    try:
        found = datetime.fromisoformat(written).astimezone(clock.zone)
    except (ValueError, OverflowError, OSError):  # a year that the calendar of this machine does not have
        return ""
    now = clock.now.astimezone(clock.zone)
    if found.date() == now.date():
        return f"today {found:%H:%M}"
    day = f"{found.day} {_MONTHS[found.month - 1]}"
    return f"{day} {found:%H:%M}" if found.year == now.year else f"{day} {found.year}"


def headline(run: Mapping[str, Any]) -> str:
    """Return the first figure of a run, and how many more there are; or how far it has come, or what is wrong."""
    if run["progress"] is not None:
        return progress_text(run["progress"])
    if "shard" in run:
        return f"shard {run['shard']}"
    if run["headline"] is None:
        return run["why"] or "" if run["state"] == "damaged" else ""
    more = len(run["figures"]) - 1
    return figure_text(run["headline"]) + (f" +{more:,}" if has_more(run) else "")


def has_more(run: Mapping[str, Any]) -> bool:
    """Whether a run has headlines beside the first one, and the list says so."""
    return run["progress"] is None and len(run["figures"]) > 1


def progress_text(progress: Mapping[str, Any]) -> str:
    """Return how far a run has come: ``24 % of 5,000``."""
    done, total = progress["done"], progress["total"]
    if total is None:
        return f"{done:,} samples"
    return f"{math.floor(100 * done / total) if total else 100} % of {total:,}"


def figure_text(figure: Mapping[str, Any]) -> str:
    """Return a figure with its interval: ``Accuracy 63.2 (58.9–67.3)``."""
    value, ends = figure["value"], figure["ci95"] or []
    if value is None:
        return f"{metric_label(figure)} –{failure_mark(figure)}"
    digits = 1 if max(map(abs, (value, *ends))) > 1 else 3  # figures of version 0.1 may be shares
    interval = f" ({'–'.join(number(end, digits) for end in ends)})" if ends else ""
    return f"{metric_label(figure)} {number(value, digits)}{failure_mark(figure)}{interval}"


def _datasets(run: Mapping[str, Any]) -> list[str]:
    names = [(text, without_options(text)) for text in run["datasets"]]
    return [one_line((bare.rstrip("/").rpartition("/")[2] or bare) + text[len(bare) :]) for text, bare in names]


def _joined(names: Sequence[str], room: int | None = None) -> str:
    """Return names as a list; where there is no room for all, in short, and how many more there are."""
    text = ", ".join(names)
    if room is None or cell_len(text) <= room:
        return text
    short = [name.partition("@")[0].rpartition(":")[2] or name for name in names]  # m of openai:m@host
    for count in range(len(names), 0, -1):
        more = f" +{len(names) - count:,}" if count < len(names) else ""
        text = ", ".join(short[:count]) + more
        if cell_len(text) <= room:
            return text
    return shortened(short[0], room - len(more)) + more


def _known(value: float | None, written: Callable[[float], str]) -> str:
    return "" if value is None else written(value)


def counted(runs: Sequence[Mapping[str, Any]], total: int | None = None) -> str:
    """Return how many runs there are, and in which states; ``total``: with those that are not shown."""
    states = Counter(run["state"] for run in runs)
    cut = total is not None and total > len(runs)
    names = (
        f"the first {len(runs):,} of {total:,} runs" if cut else f"{len(runs):,} {'run' if len(runs) == 1 else 'runs'}"
    )
    return f"{names}: {', '.join(f'{count:,} {state}' for state, count in states.most_common())}"


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
