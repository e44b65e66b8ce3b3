"""The folder in which kshot keeps what can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return ``$KSHOT_CACHE``, or ``kshot`` in the user's cache folder."""
    own = os.environ.get("KSHOT_CACHE")
    return Path(own or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "kshot").expanduser()
