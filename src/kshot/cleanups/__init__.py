"""Taking the answer out of a reply: option letters, numbers, patterns, formulas, code, and the names that configs use.

All modules but ``letters`` import the standard library and each other alone: they run in confined processes too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from kshot.cleanups.config_names import CLEANUP_FUNCTIONS
from kshot.core.errors import UsageError
from kshot.core.registry import Entry, Registry, construct, first_line, options_of, parse_spec, read_option

Cleanup: TypeAlias = Callable[[str], Any]
"""Takes the answer out of a reply."""

CLEANUPS = Registry(
    "cleanups",
    "clean-up",
    [
        Entry(name, f"{function.__module__}:{function.__name__}", first_line(function))
        for name, function in CLEANUP_FUNCTIONS.items()
    ],
)


def make_cleanup(text: str) -> Cleanup:
    """Return the clean-up that a spec names: a function with its options, or an object that can be called."""
    spec = parse_spec(text)
    found, rest = CLEANUPS.load(spec)
    made: Any
    if isinstance(found, type):
        made = construct(found, spec, *([rest] if rest else []))
    else:
        known = options_of(found, positional=1)
        for name in spec.options:
            if name not in known:
                hint = f"It knows: {', '.join(known)}." if known else "It has none."
                raise UsageError(f"there is no option {name!r}", where=text, hint=hint)
        made = partial(found, **{name: read_option(known[name], value, text) for name, value in spec.options.items()})
    if not callable(made):
        raise UsageError(
            "it cannot be called with a reply", where=text, hint="Write a function, or a class with __call__."
        )
    cleanup: Cleanup = made
    return cleanup
