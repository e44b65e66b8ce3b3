"""The loaders that kshot has, by the name of the dataset class."""

from __future__ import annotations

from kshot.configs.loaders import (
    chinese,
    commonsense,
    contests,
    copies,
    custom,
    exams,
    functions,
    long_texts,
    maths,
    media,
    options,
    programs,
    science,
    superglue,
    texts,
)
from kshot.configs.loaders.reading import Loader
from kshot.configs.names import merged

LOADERS: dict[str, Loader] = merged(
    *(each.LOADERS for each in (exams, options, maths, contests, programs, commonsense, chinese, superglue)),
    *(each.LOADERS for each in (texts, long_texts, science, functions, copies, custom, media)),
)
_OF: dict[str, dict[str, Loader]] = {"ais_bench": {"HLEDataset": media.HLE}}
"""Classes of the same name that give other rows in one framework."""


def loader_of(name: str, framework: str = "") -> Loader | None:
    """Return the loader of a dataset class; None where kshot has none."""
    return _OF.get(framework, {}).get(name) or LOADERS.get(name)
