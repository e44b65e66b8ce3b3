"""Values of a guest as plain JSON, and back: standard library only, inside the confined process.

Text, numbers, lists and dicts stay as they are. A number that JSON has not becomes ``{"$float": "nan"}``, bytes become
``{"$bytes": …}``; arrays and tables become lists. Whatever else there is becomes ``{"$opaque": its class}``.
"""

from __future__ import annotations

import base64
import math

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from typing import Any

_MAX_DEPTH = 60


def plain(value: Any, depth: int = 0) -> Any:  # noqa: PLR0911 - one form after the other
    """Return the plain form of a value."""
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": str(float(value))}
    if isinstance(value, (str, int)):  # of a class of their own, such as an enumeration
        return str(value) if isinstance(value, str) else int(value)
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": base64.b64encode(bytes(value)).decode("ascii")}
    if depth > _MAX_DEPTH:
        raise ValueError(f"the value is nested more than {_MAX_DEPTH} deep")
    if isinstance(value, dict):
        return {name if isinstance(name, str) else str(name): plain(each, depth + 1) for name, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each, depth + 1) for each in value]
    for method in ("tolist", "item", "isoformat"):  # arrays, their elements, times; whatever package they are of
        convert = getattr(value, method, None)
        if callable(convert):
            return plain(convert(), depth + 1)
    return {"$opaque": type(value).__name__}


def restored(value: Any) -> Any:  # noqa: PLR0911 - as above
    """Return the value of a plain form that the caller sent."""
    if isinstance(value, list):
        return [restored(each) for each in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (name, inner), *_ = value.items()
        if name == "$float":
            return float(inner)
        if name == "$bytes":
            return base64.b64decode(inner)
        if name == "$tuple":
            return tuple(restored(each) for each in inner)
        if name == "$dict":
            return {restored(key): restored(each) for key, each in inner}
    return {name: restored(each) for name, each in value.items()}
