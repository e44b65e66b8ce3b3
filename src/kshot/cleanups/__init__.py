"""Taking the answer out of a reply: option letters, numbers, patterns, formulas, code, and the names that configs use.

``config_names`` and what it imports run in confined processes too: they import the standard library and each other
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from kshot.cleanups.config_names import CLEANUP_FUNCTIONS, FIRST_NAMES, SLOW_IMPORTS
from kshot.cleanups.patterns import general_cn_postprocess
from kshot.cleanups.phrases import flores_postprocess_chinese
from kshot.core.errors import UsageError
from kshot.core.registry import Entry, Registry, first_line

Cleanup: TypeAlias = Callable[[str], Any]
"""Takes the answer out of a reply."""

CLEANUP_PACKAGES: Mapping[Callable[..., Any], tuple[str, ...]] = {
    **dict.fromkeys((general_cn_postprocess, flores_postprocess_chinese), ("jieba",)),
    **dict.fromkeys(SLOW_IMPORTS, ("math-verify",)),
}
"""The packages of kshot's extras that clean-ups need."""

CLEANUPS = Registry(
    "cleanups",
    "clean-up",
    [
        Entry(
            name,
            f"{function.__module__}:{function.__name__}",
            first_line(function),
            packages=CLEANUP_PACKAGES.get(function, ()),
            same_as="" if name == FIRST_NAMES[function] else FIRST_NAMES[function],
        )
        for name, function in CLEANUP_FUNCTIONS.items()
    ],
)


def make_cleanup(text: str) -> Cleanup:
    """Return the clean-up that a spec names: a function with its options, or an object that can be called."""
    made = CLEANUPS.make(text)
    if not callable(made):
        raise UsageError(
            "it cannot be called with a reply", where=text, hint="Write a function, or a class with __call__."
        )
    cleanup: Cleanup = made
    return cleanup
