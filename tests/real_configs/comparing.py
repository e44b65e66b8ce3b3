"""The prompts that kshot makes of a home's entries, beside those that the home made."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tests.real_configs.home.prompts import KINDS, META, ROWS_SHOWN

NOT_RENDERED = "the home's own code raises an error"
EQUAL = "equal"
REPEATS = 64


def lines(path: Path) -> list[dict[str, Any]]:
    """What the reference environment wrote, one dict a file."""
    with path.open(encoding="utf-8") as source:
        return [json.loads(line) for line in source]


def compare_file(job: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """One file: for each entry, by kind, ``equal`` or why it is not."""
    home, line = job
    out: dict[str, Any] = {"file": line["file"], "entries": []}
    if "error" in line:
        return {**out, "home_error": line["error"]}
    from kshot.configs import load
    from kshot.core.errors import KshotError

    try:
        config = load(Path(home) / line["file"])
    except KshotError as exc:
        return {**out, "error": str(exc)[:300], "lost": len(line["entries"])}
    try:
        for entry in line["entries"]:
            found = dict.fromkeys(KINDS, NOT_RENDERED)
            if "error" not in entry:
                found = {kind: _compared(config, entry, kind) for kind in KINDS}
            named = {name: entry[name] for name in ("variable", "index", "abbr", "inferencer")}
            out["entries"].append({**named, **found})
    finally:
        config.close()
    return out


def _compared(config: Any, entry: dict[str, Any], kind: str) -> str:
    wanted = entry[kind]
    if isinstance(wanted, dict):
        return NOT_RENDERED
    try:
        ours = config.datasets[entry["variable"]][entry["index"]]
        rendered = ours.render(entry["rows"])
        given = rendered.prompts("chat" if kind == "messages" else "text", META if kind == "meta" else None)
    except Exception as exc:  # whatever happens is a difference, and is told
        return f"{type(exc).__name__}: {exc}"[:300]
    shown = _distinct(json.loads(json.dumps(given, default=_plain)))
    wanted = _distinct(wanted)
    shown = shown[: len(wanted)]
    return EQUAL if shown == wanted else f"differs: {_first_difference(shown, wanted)}"


def _distinct(prompts: list[Any]) -> list[Any]:
    """Each prompt once: the homes repeat rows in different orders where ``n`` asks a row more than once."""
    kept: list[Any] = []
    for one in prompts[: ROWS_SHOWN * REPEATS]:
        if one not in kept:
            kept.append(one)
    return kept[:ROWS_SHOWN]


def _plain(value: Any) -> Any:
    """Messages and their parts as dicts."""
    if hasattr(value, "__dict__") or hasattr(value, "_asdict"):
        return value._asdict() if hasattr(value, "_asdict") else dict(value.__dict__)
    return str(value)


def _first_difference(ours: Any, wanted: Any) -> str:
    """Where two nested lists of texts part for the first time."""
    if isinstance(ours, list) and isinstance(wanted, list):
        if len(ours) != len(wanted):
            return f"{len(ours)} parts, not {len(wanted)}"
        for number, (one, other) in enumerate(zip(ours, wanted, strict=False)):
            if one != other:
                return f"[{number}]{_first_difference(one, other)}"
    if isinstance(ours, dict) and isinstance(wanted, dict):
        for key in wanted:
            if ours.get(key) != wanted[key]:
                return f"[{key}]{_first_difference(ours.get(key), wanted[key])}"
    if isinstance(ours, str) and isinstance(wanted, str):
        place = next(
            (at for at, pair in enumerate(zip(ours, wanted, strict=False)) if pair[0] != pair[1]),
            min(len(ours), len(wanted)),
        )
        start = max(0, place - 20)
        return f" at {place}: {ours[start : place + 40]!r}, not {wanted[start : place + 40]!r}"
    return f": {ours!r:.80}, not {wanted!r:.80}"


def counted(results: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """How many entries are equal, of how many that the home renders, by kind."""
    figures = {}
    for kind in KINDS:
        said = Counter(
            entry[kind] == EQUAL for one in results for entry in one["entries"] if entry[kind] != NOT_RENDERED
        )
        lost = sum(one.get("lost", 0) for one in results)
        figures[kind] = (said[True], said[True] + said[False] + lost)
    return figures


def differences(results: list[dict[str, Any]]) -> list[str]:
    """A line for each entry that is not the same."""
    told = [f"{one['file']}: {one['error']}" for one in results if "error" in one]
    for one in results:
        for entry in one["entries"]:
            wrong = {kind: entry[kind] for kind in KINDS if entry[kind] not in (EQUAL, NOT_RENDERED)}
            if wrong:
                kind, why = next(iter(wrong.items()))
                told.append(f"{one['file']}, {entry['abbr']} ({entry['inferencer']}), {'/'.join(wrong)}: {kind} {why}")
    return told
