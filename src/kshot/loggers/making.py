"""Loggers by name: ``wandb``, ``mlflow,experiment=nightly``, ``mine.py:Mine``."""

from __future__ import annotations

from typing import Any, TypeGuard

from kshot.core.command_line import without_secrets
from kshot.core.errors import KshotError, UsageError
from kshot.core.extras import require_all
from kshot.core.registry import Entry, Registry
from kshot.core.specs import parse_spec
from kshot.core.watcher import Watcher
from kshot.loggers.guarded import PRINTING_TO_STDERR, GuardedLogger

LOGGERS = Registry(
    "loggers",
    "logger",
    [
        Entry(
            "wandb",
            "kshot.loggers.wandb:WandbLogger",
            "Weights & Biases, on its server or offline (project, entity, name, group, mode, dir, samples).",
            packages=("wandb",),
        ),
        Entry(
            "mlflow",
            "kshot.loggers.mlflow:MlflowLogger",
            "MLflow, on a server or in a local folder (tracking_uri, experiment, name, samples).",
            packages=("mlflow-skinny",),
        ),
        Entry(
            "trackio",
            "kshot.loggers.trackio:TrackioLogger",
            "Trackio, on this machine or in a space of the hub (project, name, group, space_id, samples).",
            packages=("trackio",),
        ),
    ],
    accepts=lambda found: isinstance(found, type) and Watcher in found.__mro__,
)


def named_loggers(log: Any) -> list[Any]:
    """Return the loggers that a user names, each once: None, a spec, a watcher, or a list of them."""
    given = [] if log is None else list(log) if isinstance(log, (list, tuple)) else [log]
    for each in given:
        if not isinstance(each, str) and not _is_watcher(each):
            hint = 'Name one, such as "wandb" or "file.py:Class", or give an object of a class that inherits Watcher.'
            raise UsageError(f"log is {each!r:.60}, which is no logger", hint=hint)
    return [each for at, each in enumerate(given) if not any(each is one or each == one for one in given[:at])]


def logger_packages(log: Any) -> dict[str, tuple[str, ...]]:
    """Return the packages of kshot's extras that each logger needs, by its name."""
    specs = [parse_spec(each) for each in named_loggers(log) if isinstance(each, str)]
    return {spec.name: LOGGERS.packages(spec) for spec in specs}


def make_loggers(log: Any) -> list[GuardedLogger]:
    """Make the loggers that a user names."""
    require_all(logger_packages(log))
    return [make_logger(each) for each in named_loggers(log)]


def make_logger(logger: Any) -> GuardedLogger:
    """Make the logger that a spec names. Nothing is sent or written before the run starts."""
    if not isinstance(logger, str):
        return GuardedLogger(logger, type(logger).__name__)
    try:
        with PRINTING_TO_STDERR:  # also what a file of the user prints when it is imported
            made = LOGGERS.make(logger)
    except KshotError as exc:
        exc.where, exc.what = without_secrets([exc.where, exc.what])  # an address may hold a password
        raise
    if not _is_watcher(made):
        raise UsageError("it is no logger", where=logger, hint="A logger is a class that inherits kshot.Watcher.")
    return GuardedLogger(made, parse_spec(logger).name or type(made).__name__)


def _is_watcher(found: Any) -> TypeGuard[Watcher]:
    """Whether an object inherits from ``Watcher``: the run calls every method of it."""
    return Watcher in type(found).__mro__
