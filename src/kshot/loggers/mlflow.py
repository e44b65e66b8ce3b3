"""MLflow."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar

from kshot.core.errors import UsageError
from kshot.core.extras import import_package
from kshot.core.watcher import RunEnd
from kshot.loggers.run_logger import RunLogger

_STATES: Mapping[RunEnd, str] = {"done": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
_FOLDER = "file:mlruns"
_PARAMS_AT_ONCE, _FIGURES_AT_ONCE = 100, 1000
_MOST_CHARACTERS = {"param": 6000, "tag": 8000}
"""What MLflow takes."""


class MlflowLogger(RunLogger):
    """Logs a run to MLflow."""

    variables: ClassVar[Mapping[str, str]] = {
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",  # a server that is gone would hold the run up for minutes
        "MLFLOW_ALLOW_FILE_STORE": "true",  # a folder that the user names; MLflow keeps it as it is
    }

    def __init__(self, tracking_uri: str | None = None, *, experiment: str = "kshot", **common: Any) -> None:
        """Take where the run goes: a server, or a folder.

        By default, MLflow itself decides. Its own choice is a database, which ``mlflow-skinny`` cannot open: then it is
        the folder ``mlruns`` here.
        """
        super().__init__(**common)
        self._experiment = experiment
        self._mlflow = import_package("mlflow", "mlflow-skinny")
        with self._quiet():
            try:
                self._client = self._opened(tracking_uri)
            except Exception as exc:
                hint = (
                    f"Name a server or a folder: --log mlflow,tracking_uri=http://localhost:5000 or "
                    f"mlflow,tracking_uri={_FOLDER}. A database needs all of MLflow: pip install mlflow."
                )
                what = f"it cannot be opened ({type(exc).__name__}: {exc!s:.200})"
                place = tracking_uri or self._mlflow.get_tracking_uri()
                raise UsageError(what, where=f"mlflow,tracking_uri={place}", hint=hint) from exc
        self._run = ""
        self._steps = 0

    def _opened(self, tracking_uri: str | None) -> Any:
        try:
            return self._mlflow.MlflowClient(tracking_uri=tracking_uri)
        except ModuleNotFoundError:
            if tracking_uri is not None or self._mlflow.is_tracking_uri_set():
                raise
            return self._mlflow.MlflowClient(tracking_uri=_FOLDER)

    def open_run(self, name: str, config: Mapping[str, Any], tags: Sequence[str]) -> None:
        """Create a run; runs that are active in this process stay as they are."""
        found = self._client.get_experiment_by_name(self._experiment)
        experiment = self._client.create_experiment(self._experiment) if found is None else found.experiment_id
        created = self._client.create_run(experiment, run_name=name, tags=dict.fromkeys(tags, "true"))
        self._run = created.info.run_id
        params = iter([self._param(key, value) for key, value in config.items()])
        while batch := list(islice(params, _PARAMS_AT_ONCE)):
            self._client.log_batch(self._run, params=batch)

    def _param(self, name: str, value: Any) -> Any:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return self._mlflow.entities.Param(name, _cut(text, "param"))

    def log_figures(self, figures: Mapping[str, float]) -> None:
        """Log figures as the next step."""
        now, self._steps = int(time.time() * 1000), self._steps + 1
        metrics = iter([self._mlflow.entities.Metric(*each, now, self._steps) for each in figures.items()])
        while batch := list(islice(metrics, _FIGURES_AT_ONCE)):
            self._client.log_batch(self._run, metrics=batch)

    def log_table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Log the samples as the JSON file that ``mlflow.load_table`` reads."""
        self._client.log_dict(self._run, {"columns": columns, "data": rows}, "samples.json")
        tables = json.dumps([{"path": "samples.json", "type": "json"}])
        self._client.set_tag(self._run, "mlflow.loggedArtifacts", tables)

    def attach(self, files: Mapping[str, str]) -> None:
        """Log the files as artifacts."""
        for name, text in files.items():
            self._client.log_text(self._run, text, name)

    def close_run(self, state: RunEnd, texts: Mapping[str, str]) -> None:
        """End the run; its description holds the notes."""
        if "notes" in texts:
            self._client.set_tag(self._run, "mlflow.note.content", _cut(texts["notes"], "tag"))
        if "error" in texts:
            self._client.set_tag(self._run, "error", _cut(texts["error"], "tag"))
        self._client.set_terminated(self._run, _STATES[state])


def _cut(text: str, kind: str) -> str:
    most = _MOST_CHARACTERS[kind]
    return text if len(text) <= most else f"{text[: most - 1]}…"
