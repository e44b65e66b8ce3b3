"""Warnings that a dataset file logs: they become notes of the run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class Collector(logging.Handler):
    """Keeps the texts that are logged."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one text."""
        self.texts.append(record.getMessage())


@contextmanager
def logged_warnings(logger_name: str) -> Iterator[list[str]]:
    """Collect what a logger says in a block, in place of writing it to the screen."""
    logger, collector = logging.getLogger(logger_name), Collector()
    propagates = logger.propagate
    logger.addHandler(collector)
    logger.propagate = False
    try:
        yield collector.texts
    finally:
        logger.propagate = propagates
        logger.removeHandler(collector)
