"""The loaders that kshot has, by the name of the dataset class."""

from __future__ import annotations

from kshot.configs.loaders import (
    chinese,
    commonsense,
    contests,
    custom,
    exams,
    knowledge,
    long_texts,
    maths,
    options,
    programs,
    science,
    superglue,
    texts,
)
from kshot.configs.loaders.reading import Loader

LOADERS: dict[str, Loader] = {
    name: loader
    for module in (
        *(exams, options, maths, contests, programs, commonsense, chinese, superglue),
        *(texts, long_texts, knowledge, science, custom),
    )
    for name, loader in module.LOADERS.items()
}
_NOT_OF: dict[str, frozenset[str]] = {"ais_bench": frozenset({"HLEDataset"})}
"""Classes of the same name that give other rows in one framework: AISBench's HLE shows images."""


def loader_of(name: str, framework: str = "") -> Loader | None:
    """Return the loader of a dataset class; None where kshot has none."""
    return None if name in _NOT_OF.get(framework, ()) else LOADERS.get(name)
