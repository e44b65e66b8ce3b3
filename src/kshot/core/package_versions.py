"""The versions of what a run uses: in this process, and in the workers that it has started."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from functools import cache
from importlib import metadata

from kshot import __version__

_PACKAGES = (
    *("numpy", "torch", "transformers", "tokenizers", "onnxruntime", "vllm", "datasets", "sacrebleu", "rouge_score"),
    *("nltk", "jinja2", "regex", "aiohttp", "sentence_transformers", "tantivy", "pyarrow"),
)
"""The packages that prompts, answers or figures depend on."""

_of_workers: dict[str, set[str]] = {}
"""What workers use, and this process perhaps does not; like its own modules, it stays until the process ends."""


def versions() -> dict[str, str]:
    """Return the versions of Python, of kshot, and of the packages that are in use, here or in workers."""
    found = {"python": {platform.python_version()}, "kshot": {__version__}}
    for package in _PACKAGES:
        own = _version(package) if package in sys.modules else None
        found[package] = {own} if own else set()
    joined = {name: found.get(name, set()) | _of_workers.get(name, set()) for name in {**found, **_of_workers}}
    return {name: ", ".join(sorted(several)) for name, several in joined.items() if several}


def note_versions(of_worker: Mapping[str, str]) -> None:
    """Note what a worker uses."""
    for name, version in of_worker.items():
        _of_workers.setdefault(name, set()).add(version)


@cache
def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # imported from a folder that is not installed
        return None
