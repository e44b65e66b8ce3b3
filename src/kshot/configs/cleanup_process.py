"""Clean-ups with options of a config, in a process that can be killed: the options may be regular expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kshot.cleanups.config_names import FIRST_NAMES, SLOW_IMPORTS, cleanup_function
from kshot.core.errors import DataError
from kshot.sandbox.calls import ConfinedFunction, Refused, TooSlow

_cleaned = partial(ConfinedFunction, "kshot.cleanups.config_names:cleaned", seconds=2)

CLEANED = _cleaned(work="cleans answers up", confined=False)
"""Calls kshot's own clean-ups, whose patterns may take longer than the age of the universe."""
OF_PACKAGES: Mapping[Callable[..., Any] | None, ConfinedFunction] = {
    function: _cleaned(work=f"calls {FIRST_NAMES[function]}", setup=partial(dict, package=package))
    for function, package in SLOW_IMPORTS.items()
}
"""Call those by which another package reads what a model wrote."""


class TookTooLong(DataError):  # noqa: N818 - it names what happened
    """A function that a config names, or the pattern that it gives one, did not finish on one text."""


class CleanupFailed(DataError):  # noqa: N818 - as above
    """A clean-up raised an error on one text."""


def cleaned_apart(name: str, text: Any, options: Mapping[str, Any], framework: str = "") -> Any:
    """Return what a clean-up makes of a text; ``framework``: whose clean-up of this name it is."""
    call = OF_PACKAGES.get(cleanup_function(name, framework), CLEANED)
    result = call(name, framework, text, dict(options))
    said = f"{name} with {_shown(options)}" if options else name
    if isinstance(result, Refused):
        raise CleanupFailed(f"{said} fails on {text!r:.80}: {result.shown or result.kind}")
    if isinstance(result, TooSlow):
        if result.limit:
            raise TookTooLong(f"{said} takes more than {result.limit} for the text {text!r:.40}")
        raise TookTooLong(f"{said} does not finish on the text {text!r:.40}: {result}")
    return result


def _shown(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r:.80}" for name, value in options.items())
