"""Resuming a method that waits for the responses to its requests."""

from __future__ import annotations

from collections.abc import Sequence

from kshot.core.records import AskFailed, Failed, Request, RequestGenerator, Response


def resume(method: RequestGenerator, responses: Sequence[Response]) -> Sequence[Request]:
    """Send a method its responses, or raise their first failure where it asked; return what it asks next."""
    failed = next((response for response in responses if isinstance(response, Failed)), None)
    if failed is None:
        return method.send(responses)
    requests: Sequence[Request] = method.throw(AskFailed(failed, responses))
    return requests
