"""Patterns of task files, run in a confined process that can be killed: a pattern may take forever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kshot.core.errors import DataError
from kshot.core.records import Failed
from kshot.sandbox.calls import ConfinedFunction, Refused, TooSlow

MAX_SLOW = 20
"""After so many responses on which patterns do not finish, the task is refused."""
FILTERED = ConfinedFunction("kshot.lmeval.filters:filtered_alone", seconds=2, work="runs the patterns of task files")
WITHOUT = ConfinedFunction(
    "kshot.lmeval.filters:without_patterns", seconds=2, work="removes what patterns of task files match"
)


def filtered_by_pattern(
    name: str, options: Mapping[str, Any], responses: Sequence[Any], docs: Sequence[Any]
) -> list[Any]:
    """Return what a filter makes of the responses to each request; ``Failed`` where it does not finish.

    Of a document only its ``choices`` are used.
    """
    shown = [{"choices": doc["choices"]} if name == "multi_choice_regex" else None for doc in docs]
    calls = [(name, dict(options), *each) for each in zip(responses, shown, strict=True)]
    what = f"the filter {name} with {', '.join(f'{key}={value!r:.80}' for key, value in options.items())}"
    return _results(FILTERED, calls, what)


def without_patterns(patterns: Sequence[str], texts: Sequence[Sequence[str]]) -> list[Any]:
    """Remove what patterns match from each list of texts; ``Failed`` where they do not finish."""
    calls = [(list(patterns), each) for each in texts]
    return _results(WITHOUT, calls, f"regexes_to_ignore {list(patterns)!r:.160}")


def _results(function: ConfinedFunction, calls: Sequence[tuple[Any, ...]], what: str) -> list[Any]:
    """Return the results of calls, for each of which the time counts anew."""
    results: list[Any] = []
    slow = 0
    for result in function.each(calls):
        if isinstance(result, Refused):
            raise DataError(f"{what} fails: {result}")
        if not isinstance(result, TooSlow):
            results.append(result)
            continue
        too_slow = f"{what} does not finish within {function.seconds:g} s"
        results.append(Failed("filter", too_slow))
        slow += 1
        if slow > MAX_SLOW:
            raise DataError(f"{too_slow} on more than {MAX_SLOW} responses")
    return results
