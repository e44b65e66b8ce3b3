"""What the loggers of all tools do: turn the events of a run into settings, figures, files and an end state."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, ClassVar

from kshot import __version__
from kshot.core.errors import KshotError
from kshot.core.records import ResultRow
from kshot.core.shareable import shareable, well_formed, without_secrets
from kshot.core.text_files import parse_json, path_inside, read_at_most
from kshot.core.visible import metric_label, one_line
from kshot.core.watcher import Meter, PlannedTask, RunEnd, Watcher

_MOST_CHARACTERS = 100
"""Of one part of a name; MLflow takes 250 in all."""

_RULE = re.compile(r" \((\w+)\)$")
"""The rule after the name of a metric; loggers get it without brackets."""

_REFUSED = re.compile(r"[^\w.\- :]+")
"""What MLflow refuses in names; a slash separates the parts."""


class FigureNames:
    """Gives each figure a name that all tools take, and no two figures the same, also where case does not count."""

    def __init__(self) -> None:
        """Begin without names."""
        self._names: dict[tuple[str, ...], str] = {}
        self._taken: set[str] = set()

    def of(self, *parts: str, aspect: str = "") -> str:
        """Return the name of a figure: ``TASK/METRIC``, or ``TASK/METRIC_ci95_low`` for an aspect of it."""
        key = (aspect, *parts)
        if key not in self._names:
            name = "/".join(map(_part, parts)) + (f"_{aspect}" if aspect else "")
            if name.casefold() in self._taken:
                name = f"{name}_{_digest(repr(key))}"
            self._taken.add(name.casefold())
            self._names[key] = name
        return self._names[key]


def _part(text: str) -> str:
    """Return a text as one part of a name; MLflow takes the name for a path, so that dots at its ends go, too."""
    name = _REFUSED.sub("_", _RULE.sub(r" \1", text.replace("@", "_at_"))).strip(" .")
    return name if 0 < len(name) <= _MOST_CHARACTERS else f"{name[:_MOST_CHARACTERS]}_{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


def figures_of(rows: Sequence[ResultRow], names: FigureNames, *, by_model: bool) -> dict[str, float]:
    """Return the figures of rows of ``summary.json`` by name: the value, and of the headline its interval and counts.

    A value that does not exist, because no sample was scored, is left out. ``by_model``: names begin with the model.
    """
    found: dict[str, float] = {}
    for row in rows:
        parts = (*([row["model"]] if by_model else []), row["task"], metric_label(row))
        aspects: dict[str, Any] = {"": row.get("value")}
        if not row.get("detail"):
            low, high = row.get("ci95") or (None, None)
            aspects |= {"ci95_low": low, "ci95_high": high, "n": row.get("n"), "failed": row.get("failed")}
            aspects |= {name: len(row[name]) for name in ("left_out", "partly_failed") if row.get(name)}
        for aspect, value in aspects.items():
            if isinstance(value, (int, float)) and math.isfinite(value):
                found[names.of(*parts, aspect=aspect)] = value
    return found


def usage_of(usage: Sequence[ResultRow], names: FigureNames) -> dict[str, float]:
    """Return what the models used, by name, and the cost of all where prices are known."""
    found: dict[str, float] = {}
    for row in usage:
        who = row["model"] if row["role"] == "model" else f"{row['model']} as {row['role']}"
        for aspect in ("requests", "prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd"):
            if row.get(aspect) is not None:
                found[names.of("usage", who, aspect=aspect)] = row[aspect]
    costs = [row["cost_usd"] for row in usage if row.get("cost_usd") is not None]
    return found | ({names.of("usage", "cost_usd"): sum(costs)} if costs else {})


def settings_of_run(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the models, datasets and options of a run as plain values; what may be a key is replaced."""
    return {name: shareable(value, name) for name, value in settings.items()}


# ---- samples ----

COLUMNS = ("task", "model", "id", "category", "prompt", "response", "answer", "target", "failed")
"""What the table of samples has, and a column for each metric."""


def sample_table(samples: Sequence[ResultRow]) -> tuple[list[str], list[list[Any]]]:
    """Return the columns and rows of a table of samples; what is neither text nor number is written as JSON."""
    metrics = dict.fromkeys(name for row in samples for name in row.get("scores") or ())
    held = [name for name in COLUMNS if any(name in row for row in samples)]
    rows = [
        [*(_cell(row.get(name)) for name in held), *((row.get("scores") or {}).get(name) for name in metrics)]
        for row in samples
    ]
    return [*held, *(f"score: {name}" if name in held else name for name in metrics)], rows


def _cell(value: Any) -> str | None:
    if value is None:
        return None
    return well_formed(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


_JOURNAL, _SPEC, _SUMMARY = "journal.jsonl", "spec.json", "summary.json"
SECONDS_BETWEEN_RUNNING_FIGURES = 30.0


class RunLogger(Watcher):
    """Tells a tool of a run. A subclass says how the tool opens a run, takes figures, a table and files, and closes it.

    Each run of kshot is one run of the tool. A run that continues is a new one of the same name, tagged ``continued``.
    """

    variables: ClassVar[Mapping[str, str]] = {}
    """Environment variables that the tool is called with, where the user has not set them."""

    def __init__(self, *, name: str | None = None, samples: bool = False) -> None:
        """``name``: of the tool's run (default: the run folder's); ``samples``: log a table of all samples, too."""
        self._name, self._with_samples = name, samples
        self._names = FigureNames()
        self._folder: Path | None = None
        self._by_model = False
        self._meter: Meter | None = None
        self._task: tuple[str, ...] = ()
        self._next = 0.0
        self._samples: list[ResultRow] = []
        self._notes: dict[str, None] = {}
        self._logged: dict[str, float] = {}
        self._is_open = self._is_whole = False

    # ---- what a tool does ----

    def open_run(self, name: str, config: Mapping[str, Any], tags: Sequence[str]) -> None:
        """Open a run of the tool."""
        raise NotImplementedError

    def log_figures(self, figures: Mapping[str, float]) -> None:
        """Log figures by name."""
        raise NotImplementedError

    def log_table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Log the table of samples."""
        raise NotImplementedError

    def attach(self, files: Mapping[str, str]) -> None:
        """Attach files, whose texts are given by name."""
        raise NotImplementedError

    def close_run(self, state: RunEnd, texts: Mapping[str, str]) -> None:
        """Close the run of the tool; ``texts``: the notes of the run, and the error that ended it, if there are any."""
        raise NotImplementedError

    # ---- what the run says ----

    def started(self, settings: Mapping[str, Any], path: Path | None) -> None:
        """Open the run of the tool, with the settings that are not defaults."""
        self._folder = path
        config = settings_of_run(settings)
        self._by_model = len(config.get("models") or ()) > 1
        continued = path is not None and _size(path / _JOURNAL) > 0
        more = {"kshot_version": __version__, "run_folder": well_formed(str(path or "")), "continued": continued}
        parts = [str(each) for part in ("datasets", "models") for each in config.get(part) or ()]
        name = self._name or (path.name if path is not None else one_line(" ".join(parts)))
        self._next = time.monotonic() + SECONDS_BETWEEN_RUNNING_FIGURES
        with self._quiet():
            self.open_run(well_formed(name)[:200] or "kshot", config | more, ["kshot", *["continued"] * continued])
        self._is_open = True

    def planned(self, tasks: Sequence[PlannedTask], meter: Meter, *, complete: bool) -> None:  # noqa: ARG002 - of the protocol
        """Keep the meter, for the running figures."""
        self._meter = meter

    def begin(self, task: str, model: str, total: int | None) -> None:  # noqa: ARG002 - of the protocol
        """Note the task that the running figures belong to."""
        self._task = (model, task) if self._by_model else (task,)

    def scored(self, row: ResultRow) -> None:
        """Log the running figures now and then; keep the sample where samples are logged."""
        if self._with_samples:
            self._samples.append(row)
        if self._meter is not None and time.monotonic() >= self._next:
            self._next = time.monotonic() + SECONDS_BETWEEN_RUNNING_FIGURES
            self._log_running(self._meter)

    def _log_running(self, meter: Meter) -> None:
        now = meter.read()
        figures: dict[str, float] = {self._names.of(*self._task, "samples", aspect="done"): now.done}
        if now.value is not None:
            figures[self._names.of(*self._task, now.label, aspect="running")] = now.value
        with self._quiet():
            self.log_figures(figures)

    def finished(self, rows: Sequence[ResultRow]) -> None:
        """Log the figures of a task."""
        self._log(figures_of(rows, self._names, by_model=self._by_model))

    def ended(self, results: Sequence[ResultRow], usage: Sequence[ResultRow]) -> None:
        """Log the figures that come last: averages, gaps, and what the models used."""
        self._is_whole = True
        self._log(figures_of(results, self._names, by_model=self._by_model) | usage_of(usage, self._names))

    def _log(self, figures: Mapping[str, float]) -> None:
        new = {name: value for name, value in figures.items() if self._logged.get(name) != value}
        self._logged |= new
        if new:
            with self._quiet():
                self.log_figures(new)

    def note(self, text: str) -> None:
        """Keep a note for the end."""
        self._notes[well_formed(text)] = None

    def closed(self, state: RunEnd, error: BaseException | None) -> None:
        """Attach the files of the run folder, and close the run of the tool."""
        if not self._is_open:
            return
        self._is_open = False
        texts = {"notes": "\n".join(self._notes)} if self._notes else {}
        if error is not None:
            (shown,) = without_secrets([one_line(f"{type(error).__name__}: {error}")])
            texts["error"] = well_formed(shown)
        with self._quiet():
            try:
                if self._samples:
                    self.log_table(*sample_table(self._samples))
                if files := self._files():
                    self.attach(files)
            finally:
                self.close_run(state, texts)

    def _files(self) -> dict[str, str]:
        """Return the texts of the files that describe the run; an earlier summary is not that of this run."""
        names = (_SPEC, _SUMMARY) if self._is_whole else (_SPEC,)
        found = {name: _text_of(self._folder, name) for name in names} if self._folder is not None else {}
        return {name: text for name, text in found.items() if text is not None}

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """Call the tool: what it prints would break the screen, or JSON on stdout. It sees no terminal to ask on."""
        added = [name for name in self.variables if name not in os.environ]
        os.environ.update({name: self.variables[name] for name in added})
        try:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                yield
        finally:
            for name in added:
                os.environ.pop(name, None)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _text_of(folder: Path, name: str) -> str | None:
    """Return the text of a file of the run, for others to see; None for what kshot did not write there."""
    try:
        content = read_at_most(path_inside(folder, name))
        if name != _SPEC:
            return content.decode("utf-8")
        return (
            json.dumps(shareable(parse_json(content)), indent=2, ensure_ascii=False) + "\n"
        )  # an option may hold a key
    except (OSError, ValueError, KshotError):
        return None
