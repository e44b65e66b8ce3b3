"""What stands in for small packages that functions of task files import, where they are not installed.

Runs inside the confined process; standard library only.
"""

from __future__ import annotations

import difflib
import importlib.machinery
import sys
import types
from importlib import metadata

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _ratio(first: Any, second: Any) -> int:
    """Return how alike two texts are, from 0 to 100."""
    if first is None or second is None:
        return 0
    return 100 if first == second else round(100 * difflib.SequenceMatcher(None, first, second).ratio())


def _distribution(name: str) -> types.SimpleNamespace:
    return types.SimpleNamespace(project_name=name, version=metadata.version(name))


_CONTENTS: dict[str, dict[str, Any]] = {
    "fuzzywuzzy": {},
    "fuzzywuzzy.fuzz": {"ratio": _ratio},
    "pkg_resources": {"get_distribution": _distribution},
}


def small_packages() -> dict[str, Callable[[], types.ModuleType]]:
    """Return what makes the modules of those packages that are not installed, by name."""

    def maker(called: str) -> Callable[[], types.ModuleType]:
        def make() -> types.ModuleType:
            module = types.ModuleType(called)
            vars(module).update(_CONTENTS[called])
            return module

        return make

    tops = {called.partition(".")[0] for called in _CONTENTS}
    lacking = {top for top in tops if importlib.machinery.PathFinder.find_spec(top, sys.path) is None}
    return {called: maker(called) for called in _CONTENTS if called.partition(".")[0] in lacking}
