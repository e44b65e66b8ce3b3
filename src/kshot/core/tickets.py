"""The tickets of requests: the engine numbers what it queues, and finds the request of an answer by its number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any, get_args

from kshot.core.records import Request

_without_ticket: dict[Any, Callable[[Any], tuple[Any, ...]]] = {
    cls: attrgetter(*(each.name for each in fields(cls) if each.name != "ticket")) for cls in get_args(Request)
}
"""Returns the fields of a request, of each type, apart from its ticket."""


def with_ticket(request: Request, ticket: int) -> Request:
    """Return a request with a ticket, as ``replace`` does, in half its time: every request passes here."""
    make: Callable[..., Request] = type(request)
    return make(*_without_ticket[make](request), ticket=ticket)
