"""The worker of clean-ups: calls kshot's own functions with options that a config gives, such as regular expressions.

Runs inside a confined process, which can be killed. A pattern may take longer than the age of the universe: the process
says so and ends when it has used up its processor time (``re`` looks for signals while it searches).
"""

from __future__ import annotations

import importlib

from kshot.cleanups.config_names import SLOW_IMPORTS, cleanup_function
from kshot.sandbox._serving import NotConfinedError, limit, serve

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


def main() -> NoReturn:
    """Answer requests until the pipe is closed."""
    serve(_prepare, confined=False)


def _prepare(job: dict[str, Any]) -> Callable[[dict[str, Any], str], Any]:
    find, slow = cleanup_function, SLOW_IMPORTS

    def answer(request: dict[str, Any], lacking: str) -> Any:
        function = find(request["name"], request["framework"])
        assert function is not None  # noqa: S101 - the caller knows that there is one
        if function in slow:  # another package reads what a model wrote
            if lacking:
                raise NotConfinedError(lacking)
            importlib.import_module(slow[function])
        limit(job["seconds"])
        return function(request["text"], **request["options"])

    return answer
