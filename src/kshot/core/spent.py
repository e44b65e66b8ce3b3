"""What a run has spent, by role: requests, tokens, and what is among them beside the answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from kshot.core.errors import RunError
from kshot.core.records import Usage


@dataclass(slots=True)
class Aside:
    """What a model was paid for beside the answers: of probes the requests, and the tokens."""

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
    """Return what tokens cost in USD; prices of a million read, written, and cached (as those read, if not given)."""
    of_read, of_written, *rest = prices
    of_cached = rest[0] if rest else of_read
    return ((read - cached) * of_read + cached * of_cached + written * of_written) / 1e6


TryEnd: TypeAlias = Literal["answered", "failed", "probe"]
"""What a try was: one whose reply can be used, one whose cannot (or that brought none), or one of a probe."""

PROBE, UNUSED = "probe", "unused"
"""Kinds of ``Aside``: questions by which kshot learns what a server offers, and replies that are in no answer."""


@dataclass(slots=True)
class Spent:
    """What one role was asked. A request is one that a server is sent, each further try included.

    ``requests`` are those ``answered``, those that ``failed`` (they brought an error, nothing, or a reply that cannot
    be used), ``probes``, and those that were ``unanswered`` when a call of kshot was stopped. Tokens are those of all.
    What the engine asks may be several requests to a server: ``finished`` and ``given_up`` count by the engine's own.
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
    """By model and kind: what is among the tokens and in no answer."""

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
        """Return what a model was paid for beside its answers."""
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
    """Whether there is something to tell: a failure without tokens was not charged."""
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
    """Read what was recorded of one role; earlier versions counted what the engine asked only."""
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
