"""What ``spec.json`` records of each start of a run: when, where, with which versions and command, and how it ended."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timezone
from importlib import metadata
from typing import Any, Literal, TypeAlias

from kshot import __version__
from kshot.core.command_line import recorded_command

State: TypeAlias = Literal["running", "done", "stopped", "failed", "killed"]
"""``stopped``: by a signal or a limit; ``failed``: by an error; ``killed``: it ended without a chance to say so."""

_MOST = 100
"""Sessions that a folder keeps: the first and the latest."""

_PACKAGES = (
    *("numpy", "torch", "transformers", "tokenizers", "onnxruntime", "vllm", "datasets", "sacrebleu", "rouge_score"),
    *("nltk", "jinja2", "regex", "aiohttp", "sentence_transformers", "tantivy", "pyarrow"),
)
"""The packages that prompts, answers or figures depend on."""


def versions() -> dict[str, str]:
    """Return the versions of Python, of kshot, and of the packages that are in use."""
    found = {"python": platform.python_version(), "kshot": __version__}
    for package in _PACKAGES:
        if package in sys.modules:
            with suppress(metadata.PackageNotFoundError):  # imported from a folder that is not installed
                found[package] = metadata.version(package)
    return found


def new_session() -> dict[str, Any]:
    """Return the record of a session that begins now."""
    return {
        "started": _now(),
        "ended": None,
        "state": "running",
        "command": recorded_command(),
        "host": platform.node(),
        "platform": platform.platform(),
        "versions": versions(),
    }


def ended(session: dict[str, Any], state: State) -> None:
    """Record how a session ends, now."""
    session |= {"ended": _now(), "state": state, "versions": versions()}


def with_session(earlier: list[Mapping[str, Any]], session: dict[str, Any]) -> list[Mapping[str, Any]]:
    """Return the sessions of a folder and a new one. An earlier one that seems to run was killed: the lock is ours."""
    before = [{**each, "state": "killed"} if each.get("state") == "running" else each for each in earlier]
    return [*before[:1], *before[1:][-(_MOST - 2) :], session]


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def interrupted(spec: Mapping[str, Any]) -> str | None:
    """Say that the latest session of a run did not come to its end, if so: then its figures are of an earlier one."""
    sessions = spec.get("sessions", [])
    state = sessions[-1].get("state") if sessions else "done"  # a folder of version 0.1 has none
    if state == "done":
        return None
    return f"its latest session did not come to its end ({state!r:.20}), so its figures are older"
