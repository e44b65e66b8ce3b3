"""Watchers of a run."""

from __future__ import annotations

from kshot.core.protocols import Watcher


class SilentWatcher(Watcher):
    """A watcher that shows nothing."""
