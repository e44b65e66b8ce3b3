"""What a run has spent, by role: requests and tokens, with those of probes and of replies that no answer uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from kshot.core.errors import RunError
from kshot.core.records import Usage


@dataclass(slots=True)
class Aside:
    """The requests of probes, or the tokens of probes or unused replies, of one model."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0

    def add(self, usage: Usage | None, sign: int = 1) -> None:
        """Add tokens, or take them away."""
        if usage is not None:
            self.prompt_tokens = max(0, self.prompt_tokens + sign * usage.prompt_tokens)
            self.completion_tokens = max(0, self.completion_tokens + sign * usage.completion_tokens)
            self.cached_tokens = max(0, self.cached_tokens + sign * usage.cached_tokens)


def cost_of(read: float, written: float, cached: float, prices: Sequence[float]) -> float:
    """Return the cost in USD. ``prices``: of a million tokens read, written, and cached (default: as read)."""
    of_read, of_written, *rest = prices
    of_cached = rest[0] if rest else of_read
    return ((read - cached) * of_read + cached * of_cached + written * of_written) / 1e6


TryEnd: TypeAlias = Literal["answered", "failed", "probe"]
"""How a try ended: with a usable reply, without one, or as a probe, whatever the reply."""

PROBE, UNUSED = "probe", "unused"
"""Kinds of ``Aside``: probes, by which kshot learns what a server offers, and replies that no answer uses."""


@dataclass(slots=True)
class Spent:
    """What one role was asked, and its tokens. Each try that is sent to a server is a request.

    ``requests`` is the sum of those ``answered``, those that ``failed`` (an error, no reply, or an unusable one),
    ``probes``, and those ``unanswered`` when a call of kshot was stopped. One question of the engine may take several
    requests: ``finished`` and ``given_up`` count questions.
    """

    requests: int = 0
    answered: int = 0
    failed: int = 0
    probes: int = 0
    unanswered: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    finished: int = 0
    given_up: int = 0
    aside: dict[str, dict[str, Aside]] = field(default_factory=dict)
    """By model and kind: the tokens that belong to no answer."""

    @property
    def open(self) -> int:
        """How many requests are under way."""
        return max(0, self.requests - self.answered - self.failed - self.probes - self.unanswered)

    def add(self, usage: Usage | None) -> None:
        """Add tokens."""
        if usage is not None:
            self.prompt_tokens += usage.prompt_tokens
            self.completion_tokens += usage.completion_tokens
            self.cached_tokens += usage.cached_tokens

    def beside(self, model: str, kind: str) -> Aside:
        """Return the count of one kind for a model; it can be added to."""
        return self.aside.setdefault(model, {}).setdefault(kind, Aside())


def written(spent: Spent) -> dict[str, Any]:
    """Return what a run folder records of a role."""
    found = asdict(spent) | {"unanswered": spent.unanswered + spent.open}
    aside = {
        model: kept
        for model, kinds in spent.aside.items()
        if (kept := {kind: asdict(each) for kind, each in kinds.items() if is_paid(each, kind)})
    }
    return {name: value for name, value in found.items() if name != _ASIDE} | ({_ASIDE: aside} if aside else {})


_ASIDE = "aside"


def is_paid(aside: Aside, kind: str) -> bool:
    """Whether there is something to report: a failure without tokens was not charged."""
    return bool(aside.prompt_tokens or aside.completion_tokens or (kind == PROBE and aside.requests))


def read_spent(recorded: Any) -> dict[str, Spent]:
    """Read what a run folder has recorded, by role."""
    try:
        roles = {str(role): _read_role(each) for role, each in recorded.items()}
        counts = [value for each in roles.values() for value in _counts(asdict(each))]
    except (AttributeError, TypeError, LookupError):
        counts = [-1]
    if any(type(value) is not int or value < 0 for value in counts):
        raise RunError("spec.json is damaged: what the run has spent cannot be read")
    return roles


def _read_role(recorded: Mapping[str, Any]) -> Spent:
    """Read what was recorded for one role; earlier versions counted only the questions of the engine."""
    aside = {
        str(model): {str(kind): Aside(**each) for kind, each in kinds.items()}
        for model, kinds in recorded.get(_ASIDE, {}).items()
    }
    earlier = {"finished": recorded.get("answered", 0), "given_up": recorded.get("failed", 0)}
    spent = Spent(**{**earlier, **recorded, _ASIDE: aside})
    if "probes" not in recorded:  # a question about several options was several requests
        spent.answered = max(spent.answered, spent.requests - spent.failed - spent.unanswered)
    return spent


def _counts(recorded: Mapping[str, Any]) -> Iterator[Any]:
    for value in recorded.values():
        if isinstance(value, dict):
            yield from _counts(value)
        else:
            yield value
