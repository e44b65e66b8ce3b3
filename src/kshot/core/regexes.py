"""Regular expressions of users, which run under a time limit: the standard library's ``re`` does not offer one.

A pattern such as ``(x+x+)+y`` may take longer than the age of the universe. What ``compiled`` returns has ``timeout=``
in ``search`` and ``sub``, and raises TimeoutError.
"""

from __future__ import annotations

import math
import re
from typing import Any

SECONDS = 2.0
"""How long a pattern may work on one text."""
_MAX_REPEATS = 100_000
_REPEATS = re.compile(r"\{(\d{1,30})")


def compiled(text: str) -> Any:
    """Compile a pattern; one that cannot be read is a ValueError.

    So is one that asks for very many repeats: the package ``regex`` writes the least number of them out.
    """
    import regex  # type: ignore[import-untyped,unused-ignore]  # it has no types; imported here for a quick start

    if math.prod(max(1, int(count)) for count in _REPEATS.findall(text)) > _MAX_REPEATS:
        raise ValueError(f"it asks for more than {_MAX_REPEATS:,} repeats")
    try:
        return regex.compile(text)
    except (regex.error, TypeError, RecursionError, OverflowError) as exc:
        raise ValueError(str(exc)) from exc
