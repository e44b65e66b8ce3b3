"""Trackio."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from pathlib import Path
from typing import Any

from kshot.core.extras import import_package
from kshot.core.watcher import RunEnd
from kshot.loggers.run_logger import RunLogger


class TrackioLogger(RunLogger):
    """Logs a run to Trackio."""

    def __init__(
        self, project: str = "kshot", *, group: str | None = None, space_id: str | None = None, **common: Any
    ) -> None:
        """Take where the run goes: this machine, or a space of the hub."""
        super().__init__(**common)
        self._where = {"project": project, "group": group, "space_id": space_id}
        self._trackio = import_package("trackio", "trackio")
        self._context = copy_context()

    def _call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call Trackio where our run is the current one; a run that the user has open stays the current one outside."""
        return self._context.run(lambda: function(*args, **options))

    def open_run(self, name: str, config: Mapping[str, Any], tags: Sequence[str]) -> None:
        """Open a run; the machine itself is not measured."""
        del tags  # Trackio has none: the settings say whether the run is continued
        more = {"embed": False, "auto_log_gpu": False, "auto_log_cpu": False}
        self._call(self._trackio.init, **self._where, name=name, config=dict(config), **more)

    def log_figures(self, figures: Mapping[str, float]) -> None:
        """Log figures as the next step."""
        self._call(self._trackio.log, dict(figures))

    def log_table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Log the samples as a table."""
        table = self._trackio.Table(columns=list(columns), data=[list(row) for row in rows])
        self._call(self._trackio.log, {"samples": table})

    def attach(self, files: Mapping[str, str]) -> None:
        """Log the files as an artifact."""
        artifact = self._trackio.Artifact("kshot-run", type="evaluation")
        with tempfile.TemporaryDirectory(prefix="kshot-") as folder:
            for name, text in files.items():
                path = Path(folder, name)
                path.write_text(text, encoding="utf-8")
                artifact.add_file(str(path), name=name)
            self._call(self._trackio.log_artifact, artifact)

    def close_run(self, state: RunEnd, texts: Mapping[str, str]) -> None:
        """Log how the run ended and its notes, and finish it: Trackio has no states of its own."""
        text = "\n\n".join([f"state: {state}", *texts.values()])
        try:
            self._call(self._trackio.log, {"state": self._trackio.Markdown(text)})
        finally:
            self._call(self._trackio.finish)
