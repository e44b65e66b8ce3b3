"""Values of a guest as plain JSON, and back. Both ends of the pipe use it; standard library only.

Text, numbers, lists and dicts stay as they are. A number that JSON has not becomes ``{"$float": "nan"}``, bytes become
``{"$bytes": …}``, a dict with other keys than texts ``{"$dict": pairs}``; tuples, arrays and tables become lists, and
sets sorted lists. Whatever else there is becomes ``{"$opaque": its class}``. Where tuples are to
stay tuples they become ``{"$tuple": items}``.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MAX_DEPTH = 60


def plain(value: Any, depth: int = 0, *, tuples: bool = False) -> Any:  # noqa: PLR0911 - one form after the other
    """Return the plain form of a value; ``tuples``: whether tuples stay tuples."""
    if value is None or type(value) in (bool, int, str):
        return value
    if depth > _MAX_DEPTH:
        raise ValueError(f"the value is nested more than {_MAX_DEPTH} deep")
    if isinstance(value, (float, str, int, bytes, bytearray)):
        return _plain_scalar(value)
    if isinstance(value, Mapping):
        if all(isinstance(name, str) for name in value):
            return {str(name): plain(each, depth + 1, tuples=tuples) for name, each in value.items()}
        pairs = value.items()
        return {"$dict": [[plain(name, depth + 1), plain(each, depth + 1, tuples=tuples)] for name, each in pairs]}
    if isinstance(value, (list, tuple, set, frozenset)):
        listed = value if isinstance(value, (list, tuple)) else sorted(value, key=repr)  # a set has no order of its own
        items = [plain(each, depth + 1, tuples=tuples) for each in listed]
        return {"$tuple": items} if tuples and isinstance(value, tuple) else items
    for method in ("tolist", "item", "isoformat"):  # arrays, their elements, times; whatever package they are of
        convert = getattr(value, method, None)
        if callable(convert):
            return plain(convert(), depth + 1, tuples=tuples)
    return {"$opaque": type(value).__name__}


def _plain_scalar(value: Any) -> Any:
    """Return the plain form of a number, a text or bytes, also of a class of their own, such as an enumeration."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": str(float(value))}
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": base64.b64encode(bytes(value)).decode("ascii")}
    return str(value) if isinstance(value, str) else int(value)


def restored(value: Any) -> Any:
    """Return the value of a plain form that the caller sent."""
    if isinstance(value, list):
        return [restored(each) for each in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (name, inner), *_ = value.items()
        if name in _MARKED:
            return _MARKED[name](inner)
    return {name: restored(each) for name, each in value.items()}


def _key(value: Any) -> Any:
    return tuple(map(_key, value)) if isinstance(value, list) else value


_MARKED: dict[str, Callable[[Any], Any]] = {
    "$float": float,
    "$bytes": base64.b64decode,
    "$tuple": lambda inner: tuple(restored(each) for each in inner),
    "$dict": lambda inner: {_key(restored(key)): restored(each) for key, each in inner},
}
