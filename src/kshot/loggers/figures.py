"""What a tool gets of a run: figures under names that every tool takes, and settings without secrets."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kshot.core.records import ResultRow
from kshot.core.shareable import shareable, well_formed
from kshot.core.text_files import parse_json
from kshot.core.visible import metric_label

_MOST_CHARACTERS = 100
"""Of one part of a name; MLflow takes 250 in all."""

_RULE = re.compile(r" \((\w+)\)$")
"""The rule after the name of a metric; loggers get it without brackets."""

_REFUSED = re.compile(r"[^\w.\- :]+")
"""What MLflow refuses in names; a slash separates the parts."""


class FigureNames:
    """Gives each figure a name that all tools take, and no two figures the same, also where case does not count."""

    def __init__(self) -> None:
        """Begin without names."""
        self._names: dict[tuple[str, ...], str] = {}
        self._taken: set[str] = set()

    def of(self, *parts: str, aspect: str = "") -> str:
        """Return the name of a figure: ``TASK/METRIC``, or ``TASK/METRIC_ci95_low`` for an aspect of it."""
        key = (aspect, *parts)
        if key not in self._names:
            name = "/".join(map(_part, parts)) + (f"_{aspect}" if aspect else "")
            if name.casefold() in self._taken:
                name = f"{name}_{_digest(repr(key))}"
            self._taken.add(name.casefold())
            self._names[key] = name
        return self._names[key]


def _part(text: str) -> str:
    """Return a text as one part of a name; MLflow takes the name for a path, so that dots at its ends go, too."""
    name = _REFUSED.sub("_", _RULE.sub(r" \1", text.replace("@", "_at_"))).strip(" .")
    return name if 0 < len(name) <= _MOST_CHARACTERS else f"{name[:_MOST_CHARACTERS]}_{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


def figures_of(rows: Sequence[ResultRow], names: FigureNames, *, by_model: bool) -> dict[str, float]:
    """Return the figures of rows of ``summary.json`` by name: the value, and of the headline its interval and counts.

    A value that does not exist, because no sample was scored, is left out. ``by_model``: names begin with the model.
    """
    found: dict[str, float] = {}
    for row in rows:
        parts = (*([row["model"]] if by_model else []), row["task"], metric_label(row))
        aspects: dict[str, Any] = {"": row.get("value")}
        if not row.get("detail"):
            low, high = row.get("ci95") or (None, None)
            aspects |= {"ci95_low": low, "ci95_high": high, "n": row.get("n"), "failed": row.get("failed")}
            aspects |= {name: len(row[name]) for name in ("left_out", "partly_failed") if row.get(name)}
        for aspect, value in aspects.items():
            if isinstance(value, (int, float)) and math.isfinite(value):
                found[names.of(*parts, aspect=aspect)] = value
    return found


def usage_of(usage: Sequence[ResultRow], names: FigureNames) -> dict[str, float]:
    """Return what the models used, by name, and the cost of all where prices are known."""
    found: dict[str, float] = {}
    for row in usage:
        who = row["model"] if row["role"] == "model" else f"{row['model']} as {row['role']}"
        for aspect in ("requests", "prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd"):
            if row.get(aspect) is not None:
                found[names.of("usage", who, aspect=aspect)] = row[aspect]
    costs = [row["cost_usd"] for row in usage if row.get("cost_usd") is not None]
    return found | ({names.of("usage", "cost_usd"): sum(costs)} if costs else {})


def settings_of_run(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the models, datasets and options of a run as plain values; what may be a key is replaced."""
    return {name: shareable(value, name) for name, value in settings.items()}


def without_keys(spec: bytes) -> str:
    """Return the text of a ``spec.json`` for others to see: a request option, say, may hold a key."""
    return json.dumps(shareable(parse_json(spec)), indent=2, ensure_ascii=False) + "\n"


# ---- samples ----

COLUMNS = ("task", "model", "id", "category", "prompt", "response", "answer", "target", "failed")
"""What the table of samples has, and a column for each metric."""


def sample_table(samples: Sequence[ResultRow]) -> tuple[list[str], list[list[Any]]]:
    """Return the columns and rows of a table of samples; what is neither text nor number is written as JSON."""
    metrics = dict.fromkeys(name for row in samples for name in row.get("scores") or ())
    held = [name for name in COLUMNS if any(name in row for row in samples)]
    rows = [
        [*(_cell(row.get(name)) for name in held), *((row.get("scores") or {}).get(name) for name in metrics)]
        for row in samples
    ]
    return [*held, *_distinct(metrics, held)], rows


def _distinct(metrics: Mapping[str, Any], taken: Sequence[str]) -> Iterator[str]:
    """Yield a column for each metric; one that is called like another column is told apart."""
    for name in metrics:
        yield f"score: {name}" if name in taken else name


def _cell(value: Any) -> str | None:
    if value is None:
        return None
    return well_formed(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
