"""The limits of a run, ``--max-requests`` and ``--max-cost``: what it has spent, and what it may still start.

A run folder records what was spent in it, so the limits hold for the folder, however often the command is given.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Any, Literal, TypeAlias

from kshot.core.errors import KshotError, RunError
from kshot.core.records import Failed, Generate, Loglik, Ranking, Request, Response, Search, Usage

# ---- what was spent ----


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
    del found[_ASIDE]
    for model, kinds in spent.aside.items():
        if paid := {kind: asdict(each) for kind, each in kinds.items() if is_paid(each, kind)}:
            found.setdefault(_ASIDE, {})[model] = paid
    return found


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


# ---- the limits ----

Prices: TypeAlias = Mapping[str, Sequence[float]]
"""By role: USD per million tokens read, written, and (if it differs) read from the cache of a server."""

_RECORD_REQUESTS = 100
"""A run with a limit records what it has spent each time after so many requests: a kill loses at most their count."""

_RECORD_SECONDS = 1.0
"""Any run records it with the first answer after so many seconds: a later call may set a limit."""


class LimitReached(KshotError):  # noqa: N818 - it is no fault: the run stops where the user wants it to
    """A run stopped at ``--max-requests`` or ``--max-cost``; its answers are in the journal."""


class Budget:
    """Counts what all roles of a run spend, and says how many requests may start.

    ``--max-requests`` is never passed: a request has its place from its start, and counts when it is sent. What a
    server has not been sent when the run stops does not count. The cost of a request shows when it is
    answered. Until then it counts as much as the average one of its role; before the first answer of a role, one
    request is under way. So ``--max-cost`` is passed at most by what requests under way cost above the average.
    """

    def __init__(
        self,
        max_requests: int | None = None,
        max_cost: float | None = None,
        prices: Prices | None = None,
        *,
        earlier: Mapping[str, Any] | None = None,
        record: Callable[[dict[str, Any]], None] = lambda _: None,
        kept: bool = True,
    ) -> None:
        """Take the limits; ``earlier`` is what ``record`` was given before. ``kept``: answers outlive the process."""
        self._max_requests, self._max_cost, self._prices = max_requests, max_cost, dict(prices or {})
        self._roles = read_spent(earlier) if earlier else {}
        self._record, self._kept = record, kept
        self._recorded, self._recorded_at = self._requests, -math.inf
        self._under_way: dict[str, int] = {}  # started and not answered, by role
        self._metered: dict[str, str] = {}  # the roles of the models that count their own requests, by name
        self._unsent: dict[str, int] = {}  # those of them that no server was sent yet
        self._refused = False
        self._lock = threading.Lock()  # servers count their tries in a thread of their own

    # ---- before a request ----

    def may_start(self, role: str) -> bool:
        """Whether a request of this role may start now."""
        if not self.limited:
            return True
        with self._lock:
            return self._room(role) > 0

    def start(self, role: str, wanted: int, *, sent: bool = True) -> int:
        """Start requests: as many of those wanted as the limits allow. Return their number.

        They count now, or, unless they are ``sent``, when ``sent`` is called for each.
        """
        with self._lock:
            count = int(min(wanted, self._room(role)))
            if sent:
                self._of(role).requests += count
            else:
                self._unsent[role] = self._unsent.get(role, 0) + count
            self._under_way[role] = self._under_way.get(role, 0) + count
            return count

    def sent(self, role: str, count: int = 1) -> None:
        """Count a request that is sent now; 0: one that was answered without being sent gives its place back."""
        with self._lock:
            self._unsent[role] = max(0, self._unsent.get(role, 0) - 1)
            self._of(role).requests += count

    def try_again(self, role: str) -> bool:
        """Count one more try of a request that has started, unless a limit forbids it; return whether it may be made.

        After a refusal nothing more starts, and the run stops when all that is under way is answered.
        """
        with self._lock:
            if self._max_requests is not None and self._requests + sum(self._unsent.values()) >= self._max_requests:
                self._refused = True
                return False
            self._of(role).requests += 1
            return True

    # ---- after it ----

    def follow(self, role: str, model: str, tries: Tries) -> None:
        """Let the tries of a server count what they are sent and what they bring."""
        self._metered[model] = role
        tries.allow, tries.ended = partial(self.try_again, role), partial(self.ended, role, model)

    def ended(self, role: str, model: str, usage: Usage | None, end: TryEnd) -> None:
        """Count a finished try of a server, with the tokens of its reply."""
        with self._lock:
            spent = self._of(role)
            spent.add(usage)
            if end == PROBE:
                spent.probes += 1
                found = spent.beside(model, PROBE)
                found.requests += 1
                found.add(usage)
                return
            spent.answered += end == "answered"
            spent.failed += end == "failed"
            if usage is not None:  # ``answered`` takes the tokens of a used reply off again
                spent.beside(model, UNUSED).add(usage)

    def answered(self, role: str, request: Request, response: Response, model: str = "") -> None:
        """Count an answer of a model. Without token counts it counts as the most tokens that it can have.

        A failed request counts as much as an average one: the server may have charged it.
        """
        failed = isinstance(response, Failed)
        usage = None if isinstance(response, (Failed, Ranking)) else response.usage
        with self._lock:
            spent = self._of(role)
            self._under_way[role] = max(0, self._under_way.get(role, 0) - 1)
            spent.given_up += failed
            spent.finished += not failed
            if usage is None and role in self._prices and not failed:
                spent.add(_most(request))
            if (metered := self._metered.get(model)) is not None:
                if usage is not None:
                    self._of(metered).beside(model, UNUSED).add(usage, -1)
            else:
                spent.failed += failed
                spent.answered += not failed
                spent.add(usage)
            many = self.limited and self._requests - self._recorded >= _RECORD_REQUESTS
            due = many or monotonic() - self._recorded_at >= _RECORD_SECONDS
        if due:
            self.record()

    def record_soon(self) -> None:
        """Record what was spent with the next answer."""
        with self._lock:
            self._recorded_at = -math.inf

    def record(self) -> None:
        """Record what was spent. What was sent and not answered stays unanswered if the run stops here."""
        with self._lock:
            self._recorded, self._recorded_at = self._requests, monotonic()
            spent = {role: written(each) for role, each in self._roles.items()}
        self._record(spent)

    def record_rest(self) -> None:
        """Record what was spent since it was last recorded, if anything was."""
        with self._lock:
            is_new = self._recorded != self._requests
        if is_new:
            self.record()

    def beside(self) -> Iterator[tuple[str, str, str, Aside]]:
        """Yield role, model, kind and tokens of what was paid for, but belongs to no answer."""
        with self._lock:
            found = [
                (role, model, kind, replace(aside))
                for role, spent in self._roles.items()
                for model, kinds in spent.aside.items()
                for kind, aside in kinds.items()
            ]
        yield from (each for each in found if is_paid(each[3], each[2]))

    # ---- the limits ----

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self._max_requests is not None or self._max_cost is not None

    @property
    def refused(self) -> bool:
        """Whether a further try was refused, so that the run must stop."""
        return self._refused

    @property
    def requests(self) -> int:
        """The requests of all roles, each try of a server counted."""
        with self._lock:
            return self._requests

    def tokens(self, *, of_probes: bool = False) -> tuple[int, int, float]:
        """Return the tokens that all roles have read and written, as far as the replies tell them, and their cost.

        ``of_probes``: those of probes alone. The limit also counts failed requests, which may have been charged.
        """
        read, written, cost = 0, 0, 0.0
        with self._lock:
            for role, spent in self._roles.items():
                probes = (kinds.get(PROBE, Aside()) for kinds in spent.aside.values())
                for each in probes if of_probes else (spent,):
                    read += each.prompt_tokens
                    written += each.completion_tokens
                    cost += self._price(role, each)
        return read, written, cost

    @property
    def priced(self) -> bool:
        """Whether the tokens of a role have a price."""
        return bool(self._prices)

    def reached(self) -> LimitReached:
        """Return the error that ends the run."""
        with self._lock:
            full = self._max_requests is not None and self._requests >= self._max_requests
            by_count = full or self._max_cost is None
            said = (
                f"--max-requests {self._max_requests} is reached"
                if by_count
                else f"--max-cost {self._max_cost:g} is reached: the answers so far cost {self._cost():.6g} USD, and "
                "another request may pass it"
            )
        kept = "Every answer is in the journal: the same command with a higher limit goes on."
        return LimitReached(said, hint=kept if self._kept else "Nothing is kept without a run folder (out).")

    @property
    def _requests(self) -> int:
        return sum(each.requests for each in self._roles.values())

    def _of(self, role: str) -> Spent:
        return self._roles.setdefault(role, Spent())

    def _room(self, role: str) -> float:
        """Return how many requests of a role may start now."""
        if self._refused:
            return 0
        started = self._requests + sum(self._unsent.values())
        room = math.inf if self._max_requests is None else self._max_requests - started
        if self._max_cost is None or role not in self._prices:
            return max(0, room)
        left = self._max_cost - self._cost() - sum((self._mean(r) or 0) * n for r, n in self._under_way.items())
        mean = self._mean(role)
        if mean is None:  # the first answer tells what the others may cost
            return min(max(0, room), 0 if self._under_way.get(role) or left <= 0 else 1)
        # Sums of floats are not exact: what fits but for the last digits fits.
        fits = math.inf if mean == 0 else math.floor(left / mean + 1e-9)
        return max(0, min(room, fits))

    def _cost(self) -> float:
        return sum(self._cost_of(role) for role in self._roles)

    def _cost_of(self, role: str) -> float:
        """Return the cost of a role; what failed or was left unanswered counts as much as the average."""
        spent, cost = self._roles[role], self._price(role, self._roles[role])
        return cost + (spent.given_up + spent.unanswered) * cost / spent.finished if spent.finished else cost

    def _price(self, role: str, spent: Spent | Aside) -> float:
        prices = self._prices.get(role, (0.0, 0.0))
        return cost_of(spent.prompt_tokens, spent.completion_tokens, spent.cached_tokens, prices)

    def _mean(self, role: str) -> float | None:
        """Return the average cost of an answer; None before the first one."""
        spent = self._roles.get(role)
        if spent is None or not spent.finished:
            return None
        return self._cost_of(role) / (spent.finished + spent.given_up + spent.unanswered)


_MOST_MEDIA_TOKENS = {"image": 1 << 14, "audio": 1 << 17, "video": 1 << 17}
"""The most tokens that models are known to make of one image, and of a sound or video that fits into their windows."""


def _most(request: Request) -> Usage:
    """Return the most tokens that a request can have: one for each byte that is read, and as many as may be written."""
    if isinstance(request, Search):
        return Usage(0, 0)
    texts = [request.prompt.text, *(message.text for message in request.prompt.messages)]
    if isinstance(request, Loglik):
        texts += request.continuations
    read = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    read += sum(_MOST_MEDIA_TOKENS[part.kind] for part in request.prompt.media)
    return Usage(read, request.max_tokens if isinstance(request, Generate) else 0)


# ---- the tries of a server ----


_PREPAID: ContextVar[list[None] | None] = ContextVar("prepaid", default=None)


class Tries:
    """Counts what a model behind a server sends: the first try of each request, further tries, questions of its own.

    A run sets ``allow``, ``sent`` and ``ended``; before each try the server calls ``may_send``, after it ``ended``.
    """

    def __init__(self) -> None:
        self.allow: Callable[[], bool] = lambda: True
        """Counts a try beyond the first, or refuses it."""
        self.sent: Callable[[int], None] = lambda _: None
        """Counts the first try of a request, which has its place since it started; see ``Budget.sent``."""
        self.ended: Callable[[Usage | None, TryEnd], None] = lambda *_: None
        """Counts a finished try; see ``Budget.ended``."""
        self.retries = 0
        """What was sent again after an error."""

    @contextmanager
    def request(self) -> Iterator[None]:
        """Answer a request in this task of the event loop: its first try has a place."""
        prepaid: list[None] = [None]  # a list, because the tasks that a request starts share it
        _PREPAID.set(prepaid)
        yield
        if prepaid:  # it was answered without a try; one that is broken off ends with its run
            prepaid.pop()
            self.sent(0)

    def may_send(self) -> bool:
        """Whether one more try may be sent now; it counts."""
        prepaid = _PREPAID.get()
        if prepaid:
            prepaid.pop()
            self.sent(1)
            return True
        return self.allow()
