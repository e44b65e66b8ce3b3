"""Light stand-ins for packages that dataset files import, so that a preview needs none of them."""

from __future__ import annotations

import importlib.util
from functools import cache, partial
from types import ModuleType
from typing import Any

from kshot.core.extras import import_package
from kshot.datasets.llmbox.languages import Language

_PURPOSE = "this dataset file"


class LazyLibrary(ModuleType):
    """Hugging Face ``datasets``, imported when a file uses more of it than ``DownloadConfig``."""

    def __getattr__(self, name: str) -> Any:
        """Return what the library has under this name."""
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "DownloadConfig":
            return partial(partial, _download_config)
        return getattr(import_package(_PURPOSE, "datasets"), name)


def _download_config(**options: Any) -> Any:
    """Make the settings of a download, once something is downloaded."""
    return import_package(_PURPOSE, "datasets").DownloadConfig(**options)


@cache
def datasets_library() -> ModuleType:
    """Answer ``import datasets``."""
    return LazyLibrary("datasets")


@cache
def language_codes() -> ModuleType | None:
    """Answer ``import langcodes`` where that package is missing; None: it is installed."""
    if importlib.util.find_spec("langcodes") is not None and importlib.util.find_spec("language_data") is not None:
        return None
    module = ModuleType("langcodes")
    vars(module)["Language"] = Language
    return module
