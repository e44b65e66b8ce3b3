"""What stands in for small packages and modules that functions of task files import, where there are none.

Runs inside the confined process; standard library only.
"""

from __future__ import annotations

import difflib
import importlib.machinery
import os
import re
import string
import sys
import types
from collections import Counter
from importlib import metadata

from kshot.sandbox._guest_deferred import no_equivalent, stand_in_modules

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


def _normalize_answer(text: str) -> str:
    """Return a text without case, punctuation, articles and needless space, as SQuAD compares them."""
    kept = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())


def _compute_exact(gold: str, prediction: str) -> int:
    return int(_normalize_answer(gold) == _normalize_answer(prediction))


def _compute_f1(gold: str, prediction: str) -> float:
    """Return how well the words of two texts agree."""
    words, found = (_normalize_answer(text).split() if text else [] for text in (gold, prediction))
    if not words or not found:
        return int(words == found)
    same = sum((Counter(words) & Counter(found)).values())
    return 0 if same == 0 else 2 * (same / len(found)) * (same / len(words)) / (same / len(found) + same / len(words))


_CONTENTS: dict[str, dict[str, Any]] = {
    "fuzzywuzzy": {},
    "fuzzywuzzy.fuzz": {"ratio": _ratio},
    "pkg_resources": {"get_distribution": _distribution},
    "transformers": {},
    "transformers.data": {},
    "transformers.data.metrics": {},
    "transformers.data.metrics.squad_metrics": {
        "normalize_answer": _normalize_answer,
        "compute_exact": _compute_exact,
        "compute_f1": _compute_f1,
    },
}


def small_packages() -> dict[str, Callable[[], types.ModuleType]]:
    """Return what makes those of the modules that are not installed, by name."""
    return stand_in_modules({called: held for called, held in _CONTENTS.items() if not _installed(called)}, _absent)


def _installed(called: str) -> bool:
    """Whether there is a module; nothing is imported."""
    top, *below = called.split(".")
    spec = importlib.machinery.PathFinder.find_spec(top, sys.path)
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    if not below:
        return spec is not None
    return any(os.path.exists(os.path.join(place, *below) + end) for place in places for end in ("", ".py"))  # noqa: PTH110, PTH118 - pathlib takes long to load


def _absent(called: str, name: str) -> Any:
    """Return what stands for a name that a stand-in lacks: using it is an error."""
    if name.startswith("__") or f"{called}.{name}" in _CONTENTS:
        raise AttributeError(name)
    return no_equivalent(called, name)
