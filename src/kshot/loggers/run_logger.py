"""What the loggers of all tools do: turn the events of a run into settings, figures, files and an end state."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, ClassVar

from kshot import __version__
from kshot.core.command_line import without_secrets
from kshot.core.errors import KshotError
from kshot.core.records import ResultRow
from kshot.core.shareable import well_formed
from kshot.core.text_files import path_inside, read_at_most
from kshot.core.visible import one_line
from kshot.core.watcher import Meter, PlannedTask, RunEnd, Watcher
from kshot.loggers.figures import (
    FigureNames,
    figures_of,
    sample_table,
    settings_of_run,
    usage_of,
    without_keys,
)

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
        return without_keys(content) if name == _SPEC else content.decode("utf-8")
    except (OSError, ValueError, KshotError):
        return None
