"""Meta templates: which roles a model knows, and how a filled dialogue is cut into turns of these roles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kshot.core.errors import DataError

Meta: TypeAlias = Mapping[str, Any]
Turn: TypeAlias = list[str | dict[str, Any]]
"""Role items in the order of the meta round, and strings."""


def mark(section: str, pos: str) -> dict[str, str]:
    """Return the mark that opens or closes a section."""
    return {"section": section, "pos": pos}


def is_mark(item: Any) -> bool:
    """Whether an item of a dialogue opens or closes a section."""
    return isinstance(item, dict) and "section" in item


def check_role(item: Any) -> None:
    """Refuse an item whose role, or the role that it falls back to, is no text."""
    for name in ("role", "fallback_role") if isinstance(item, Mapping) else ():
        if not isinstance(item.get(name), str | None):
            raise DataError(f"the {name} of an item is {item[name]!r:.60}; it must be text")


@dataclass(slots=True)
class LoosePart:
    """A part of a dialogue outside of rounds: a role item or a string."""

    item: Any


@dataclass(slots=True)
class TurnPart:
    """A part of a dialogue that is one turn of a round; only where strict are there strings among its items."""

    items: Turn
    last: bool
    """Whether the model is to write in this turn."""


@dataclass(slots=True)
class MetaTemplate:
    """The roles of a meta template, checked."""

    round: Sequence[Any]
    roles: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, meta: Meta) -> MetaTemplate:
        """Check a meta template; a faulty one is a DataError."""
        entries = meta.get("round")
        if not isinstance(entries, (list, tuple)):
            raise DataError("the meta template has no list 'round'", hint="Write round=[dict(role='HUMAN', …), …].")
        made = cls(entries)
        for place, entry in enumerate([*entries, *(meta.get("reserved_roles") or ())]):
            if isinstance(entry, str):
                continue
            if not isinstance(entry, Mapping) or "role" not in entry:
                raise DataError(f"an entry of the meta template has no role: {entry!r}")
            check_role(entry)
            if entry["role"] in made.roles:
                raise DataError(f"the meta template has the role {entry['role']!r} twice")
            made.roles[entry["role"]] = entry
            if place < len(entries):
                made.places[entry["role"]] = place
        return made

    @property
    def generates(self) -> bool:
        """Whether one of the roles is marked as the one that writes."""
        return any(isinstance(entry, Mapping) and entry.get("generate") for entry in self.round)

    def role_of(self, item: Mapping[str, Any]) -> str:
        """Return the role of an item: its own, or the one that it falls back to."""
        return _known_role(item, self.roles)

    def stands_aside(self, item: Mapping[str, Any]) -> bool:
        """Whether an item has a reserved role and names no role of the round to fall back to."""
        role = item.get("role")
        return role in self.roles and role not in self.places and item.get("fallback_role") not in self.places

    def merged(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Return an item with everything that the meta template says of its role and the item does not."""
        return {**self.roles[self.role_of(item)], **item}

    def turns(self, items: Turn, *, strict: bool = True) -> list[Turn]:
        """Cut items into turns: a new turn starts where the place of a role does not increase.

        A reserved role has no place in a round. Not strict, its item stays where it is, in the turn that it is in.
        """
        turns: list[Turn] = [[]]
        last = -1
        for item in items:
            if isinstance(item, str) or (not strict and self.stands_aside(item)):
                turns[-1].append(item)
                continue
            place = self.places[_known_role(item, self.places)]
            if place <= last:
                turns.append([])
            turns[-1].append(item)
            last = place
        return turns


def _known_role(item: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    for name in ("role", "fallback_role"):
        if item.get(name) in known:
            return str(item[name])
    raise DataError(
        f"the role {item.get('role')!r} is not in the meta template, and its item names no fallback_role that is",
        hint=f"Roles here: {', '.join(known)}.",
    )


def dialogue_parts(dialogue: Sequence[Any], meta: MetaTemplate, *, strict: bool) -> Iterator[LoosePart | TurnPart]:
    """Yield the parts of a dialogue in reading order.

    A string inside a round stays in its place where strict; the frameworks read it before the whole round.
    """
    open_sections: list[str] = []
    pending: Turn = []
    for item in dialogue:
        inside = open_sections[-1] if open_sections else "begin"
        if is_mark(item):
            opens = item["pos"] == "begin" or (item["section"] == "end" and inside != "end")
            if opens:
                if pending:  # examples in the middle of a round
                    yield from (TurnPart(turn, last=False) for turn in meta.turns(pending, strict=strict))
                    pending = []
                open_sections.append(item["section"])
                continue
            if not open_sections or open_sections.pop() != item["section"]:
                raise DataError(f"the section {item['section']!r} closes without having been opened")
            if inside in ("round", "ice"):
                turns = meta.turns(pending, strict=strict)
                pending = []
                for index, turn in enumerate(turns):
                    yield TurnPart(turn, last=inside == "round" and index == len(turns) - 1)
        elif inside in ("round", "ice") and (strict or not isinstance(item, str)):
            pending.append(item)
        else:
            yield LoosePart(item)
