"""What ``spec.json`` records of each start of a run: when, where, with which versions and command, and how it ended."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Literal, TypeAlias

from kshot.core.command_line import recorded_command
from kshot.core.errors import KshotError
from kshot.core.package_versions import versions
from kshot.core.shareable import shareable
from kshot.core.visible import one_line

State: TypeAlias = Literal["running", "done", "stopped", "failed", "killed"]
"""``stopped``: by a signal or a limit; ``failed``: by an error; ``killed``: it ended without a chance to say so."""

_MOST = 100
"""Sessions that a folder keeps: the first and the latest."""

WHY = "why"
"""The key of a session that says what stopped it or made it fail."""
_MOST_WORDS = 500

SHARD_VERSIONS = "shard_versions"
"""Where ``spec.json`` of a merged run says what its shards used."""


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


def ended(session: dict[str, Any], state: State, why: str | None = None) -> None:
    """Record how a session ends, now; ``why``: what stopped it or made it fail."""
    session |= {"ended": _now(), "state": state, "versions": versions(), **({} if why is None else {WHY: why})}


def reason(exc: BaseException) -> str:
    """Return what ended a session, on one line and without what may be a key."""
    if isinstance(exc, KshotError):
        text = f"{exc.where}: {exc.what}" if exc.where else exc.what
    elif isinstance(exc, SystemExit):
        text = "the code of a plug-in called sys.exit"
    elif isinstance(exc, KeyboardInterrupt):
        text = str(exc) or "interrupted"
    else:
        text = f"{type(exc).__name__}: {exc}"
    return str(shareable(one_line(text)))[:_MOST_WORDS]


def reason_of(sessions: Sequence[Mapping[str, Any]]) -> str | None:
    """Return what stopped the latest session or made it fail; None if it is done, running or killed."""
    last = sessions[-1] if sessions else {}
    why = last.get(WHY) if last.get("state") in {"stopped", "failed"} else None
    return one_line(why)[:_MOST_WORDS] if isinstance(why, str) else None


def without_reasons(sessions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the sessions of a run that is done, without the reasons why earlier ones ended."""
    return [{name: value for name, value in each.items() if name != WHY} for each in sessions]


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


def recorded_versions(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return what a run has used: of each package, the version of the last session that used it.

    A session that only scores again uses no torch, and yet the answers are those of the torch before it. Those of a
    merged run are of its shards. The first versions of kshot recorded no sessions.
    """
    recorded = [spec.get("versions"), *(each.get("versions") for each in _sessions(spec)), spec.get(SHARD_VERSIONS)]
    return {
        str(name): version
        for found in recorded
        if isinstance(found, Mapping)
        for name, version in found.items()
        if isinstance(version, str)
    }


def _sessions(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [each for each in spec.get("sessions", ()) if isinstance(each, Mapping)]
