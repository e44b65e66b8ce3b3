"""Reading ``spec.json``, the description of a run, also in its earlier forms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kshot.core.errors import RunError
from kshot.core.serialization import FORMAT, newer_version
from kshot.core.text_files import parse_json, path_inside, read_at_most

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
