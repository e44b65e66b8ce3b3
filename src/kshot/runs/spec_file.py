"""Reading ``spec.json``, the description of a run, also in its earlier forms, and what it records of each start."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal, TypeAlias

from kshot.core.errors import KshotError, RunError
from kshot.core.extras import versions
from kshot.core.serialization import FORMAT, newer_version
from kshot.core.shareable import recorded_command, shareable
from kshot.core.text_files import parse_json, path_inside, read_at_most
from kshot.core.visible import one_line

SPEC = "spec.json"


def read_spec(path: str | Path) -> dict[str, Any]:
    """Read the ``spec.json`` of a run folder."""
    try:
        spec = parse_json(read_at_most(path_inside(Path(path).expanduser(), SPEC)))
    except OSError as exc:
        raise RunError(f"this is not a run folder: spec.json cannot be read ({exc.strerror})", where=str(path)) from exc
    except ValueError as exc:
        raise _damaged(path) from exc
    if not isinstance(spec, dict) or not isinstance(spec.get("identity"), dict):
        raise RunError("kshot did not write this spec.json", where=str(path))
    found = spec.get("format", 1)
    if type(found) is not int:
        raise _damaged(path)
    if found > FORMAT:
        raise newer_version(f"{path}/{SPEC}", found)
    parts = {"options": dict, "tasks": dict, "models": list, "fingerprints": dict, "data": dict, "sessions": list}
    whole = all(isinstance(spec.get(name, kind()), kind) for name, kind in parts.items())
    if whole:
        _name_roles(spec)
    if not whole or not _is_complete(spec):
        raise _damaged(path)
    return spec


def _damaged(path: str | Path) -> RunError:
    return RunError("spec.json is damaged", where=str(path), hint="Delete it and run the command again.")


def _is_complete(spec: dict[str, Any]) -> bool:
    """Whether the parts of a ``spec.json`` have the types that kshot writes."""
    datasets, fields = spec["identity"].get("datasets", []), ("role", "name", "fingerprint")
    return (
        isinstance(datasets, list)
        and all(isinstance(label, str) for label in datasets)
        and all(_are_facts(each) for facts in spec.get("tasks", {}).values() for each in _values(facts))
        and all(isinstance(session, dict) for session in spec.get("sessions", ()))
        and all(
            isinstance(each, dict) and all(isinstance(each.get(name), str) for name in fields)
            for each in spec.get("models", ())
        )
    )


def _are_facts(found: Any) -> bool:
    """Whether these are facts of a task as kshot writes them: scoring uses them as they are."""
    return isinstance(found, dict) and all(is_fact(found[name]) for name, is_fact in _FACTS.items() if name in found)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _are_counts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_count, value.values()))


_FACTS: dict[str, Callable[[Any], bool]] = {
    "shots": _is_count,
    "kept": _are_counts,
    "chosen": _are_counts,
    "token_lengths": _are_counts,
    "unfitted": lambda value: isinstance(value, bool),
    "ranking_type": lambda value: isinstance(value, str),
    "corpus": lambda value: isinstance(value, str),
    "within": lambda value: isinstance(value, str),
    "recordings": lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
}


def _values(facts: Any) -> Iterable[Any]:
    return facts.values() if isinstance(facts, dict) else (facts,)


_EARLY_ROLES = {"engine": "search_engine", "judge": "judge", "rewriter": "rewriter", "corpus": "corpus"}


def _name_roles(spec: dict[str, Any]) -> None:
    """Convert the models of a folder of version 0.1 to the present form: it had ``"ROLE NAME": fingerprint``."""
    early = spec.pop("fingerprints", None)
    if early is None:
        return
    models = []
    for label, fingerprint in early.items():
        word, _, rest = label.partition(" ")
        role = _EARLY_ROLES.get(word) if rest else None
        noted = {"role": role or "model", "name": rest if role else label, "fingerprint": fingerprint}
        models.append(noted | _early_marks(noted["role"], noted["name"]))
    spec["models"] = models


def _early_marks(role: str, name: str) -> dict[str, bool]:
    """Return what ``note_model`` would have marked in a folder of version 0.1, by the role and name of a model."""
    kind = name.partition(":")[0]
    if kind in {"openai", "anthropic"}:
        return {"server": True}
    return {"searches": True} if (role, kind) == ("model", "replay") else {}


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
