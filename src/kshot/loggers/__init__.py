"""Loggers: a run told to an experiment tracker. Each is a watcher; an error in one never stops a run."""

from __future__ import annotations

from kshot.loggers.making import LOGGERS, logger_packages, make_logger, make_loggers, named_loggers

__all__ = ["LOGGERS", "logger_packages", "make_logger", "make_loggers", "named_loggers"]
