"""The worker of patterns: runs the filters whose regular expressions a task file writes.

Runs inside a confined process, which can be killed. A pattern may take longer than the age of the universe: the process
says so and ends when it has used up its processor time (``re`` looks for signals while it searches).
"""

from __future__ import annotations

from kshot.lmeval.filters import FILTERS, without_patterns
from kshot.sandbox._serving import limit, serve

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


def main() -> NoReturn:
    """Answer requests until the pipe is closed."""
    serve(_prepare, confined=False)


def _prepare(job: dict[str, Any]) -> Callable[[dict[str, Any], str], Any]:
    def answer(request: dict[str, Any], _: str) -> list[Any]:
        return [_one(request, *each) for each in request["items"]]

    def _one(request: dict[str, Any], given: Any, doc: Any) -> Any:
        limit(job["seconds"])  # for one item, whatever there are in all
        if "patterns" in request:
            return without_patterns(request["patterns"], given)
        return FILTERS[request["filter"]]([given], [doc], **request["options"])[0]

    return answer
