"""Which rows of a test set models may have seen: the annotations that the ``…Clean`` loaders read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshot.configs.loaders.reading import DataPlace, MissingFileError
from kshot.core.errors import DataError

_UNKNOWN = "not labeled"
"""What the frameworks write for a row without an annotation."""


def read_annotations(place: DataPlace, *parts: str) -> Mapping[str, Any]:
    """Read a file of annotations: lists by the name of a row, whose first value says what was found."""
    try:
        path = place.file(*parts)
    except MissingFileError as exc:
        exc.hint = "Put the annotations of github.com/liyucheng09/Contamination_Detector there."
        raise
    found = place.json(path)
    if not isinstance(found, Mapping):
        raise DataError("it must hold an object: a list for the name of each row", where=str(path))
    return found


def verdict(known: Mapping[str, Any], name: str) -> Any:
    """Return what was found about a row."""
    found = known.get(name)
    return found[0] if isinstance(found, list) and found else _UNKNOWN
