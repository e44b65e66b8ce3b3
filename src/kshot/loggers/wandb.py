"""Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from kshot.core.errors import UsageError
from kshot.core.extras import import_package
from kshot.core.watcher import RunEnd
from kshot.loggers.run_logger import RunLogger

_Mode: TypeAlias = Literal["online", "offline", "disabled"]
_EXIT_CODES: Mapping[RunEnd, int] = {"done": 0, "stopped": 130, "failed": 1}
_UPLOAD_SECONDS = 60.0


class WandbLogger(RunLogger):
    """Logs a run to Weights & Biases."""

    variables: ClassVar[Mapping[str, str]] = {"WANDB_INIT_TIMEOUT": "30"}  # seconds; a run waits for it

    def __init__(
        self,
        project: str = "kshot",
        *,
        entity: str | None = None,
        group: str | None = None,
        mode: str | None = None,
        dir: str | None = None,  # noqa: A002 - as wandb calls it
        **common: Any,
    ) -> None:
        """Take where the run goes; ``mode``: online, offline or disabled (default: ``WANDB_MODE``, else online)."""
        super().__init__(**common)
        if mode is not None and mode not in get_args(_Mode):
            raise UsageError(f"mode is {mode!r}; it must be one of {', '.join(get_args(_Mode))}", where="wandb")
        self._where = {"project": project, "entity": entity, "group": group, "mode": mode, "dir": dir}
        self._wandb = import_package("wandb", "wandb")
        self._run: Any = None

    def open_run(self, name: str, config: Mapping[str, Any], tags: Sequence[str]) -> None:
        """Open a run beside any that the user has open; it records nothing that kshot does not give it.

        The metadata would hold the command, and with it the values of ``--header``.
        """
        settings = self._wandb.Settings(
            console="off",
            silent=True,
            disable_code=True,
            disable_git=True,
            x_disable_meta=True,
            x_disable_stats=True,
            finish_timeout=_UPLOAD_SECONDS,
            finish_timeout_raises=True,
        )
        given = {key: value for key, value in self._where.items() if value is not None}
        try:
            self._run = self._wandb.init(
                **given, name=name, config=dict(config), tags=list(tags), settings=settings, reinit="create_new"
            )
        except self._wandb.errors.UsageError as exc:
            hint = "Use wandb login or set WANDB_API_KEY; with --log wandb,mode=offline nothing is sent."
            raise UsageError(str(exc), where="wandb", hint=hint) from exc

    def log_figures(self, figures: Mapping[str, float]) -> None:
        """Log figures as the next step; the last value of each is in the summary."""
        self._run.log(dict(figures))

    def log_table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Log the samples as a table."""
        table = self._wandb.Table(columns=list(columns), data=[list(row) for row in rows], allow_mixed_types=True)
        self._run.log({"samples": table})

    def attach(self, files: Mapping[str, str]) -> None:
        """Log the files as an artifact."""
        artifact = self._wandb.Artifact(f"run-{self._run.id}-kshot", type="evaluation")
        for name, text in files.items():
            with artifact.new_file(name, mode="w", encoding="utf-8") as file:
                file.write(text)
        self._run.log_artifact(artifact)

    def close_run(self, state: RunEnd, texts: Mapping[str, str]) -> None:
        """Close the run; its notes are those of kshot."""
        if "notes" in texts:
            self._run.notes = texts["notes"]
        self._run.summary.update({"state": state} | ({"error": texts["error"]} if "error" in texts else {}))
        self._run.finish(exit_code=_EXIT_CODES[state])
