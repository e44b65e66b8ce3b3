"""Resuming a method that waits for the responses to its requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kshot.core.records import AskFailed, Failed, Request, RequestGenerator, Response


def resume(method: RequestGenerator, responses: Sequence[Response]) -> Sequence[Request]:
    """Send a method its responses, or raise their first failure where it asked; return what it asks next."""
    failed = next((response for response in responses if isinstance(response, Failed)), None)
    if failed is None:
        return method.send(responses)
    requests: Sequence[Request] = method.throw(AskFailed(failed, responses))
    return requests


def translated(
    method: RequestGenerator,
    request: Callable[[Request], Request] = lambda asked: asked,
    response: Callable[[Request, Response], Response] = lambda _, given: given,
) -> RequestGenerator:
    """Drive a method, changing each of its requests, and each response to it, on the way."""
    try:
        requests = next(method)
        while True:
            # The engine refuses anything but a list of requests.
            asked = [request(each) for each in requests] if isinstance(requests, (list, tuple)) else requests
            try:
                responses = yield asked
            except AskFailed as exc:
                exc.responses = tuple(map(response, asked, exc.responses))
                requests = method.throw(exc)
            except Exception as exc:  # noqa: BLE001 - whatever the engine raises is for the method
                requests = method.throw(exc)
            else:
                requests = method.send(tuple(map(response, asked, responses)))
    except StopIteration as stop:
        return stop.value
    finally:
        method.close()


def of_evaluated(request: Request) -> bool:
    """Whether a request is for the evaluated model, and not for a judge or another helper."""
    return request.role == "model"
