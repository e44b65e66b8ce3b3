"""The modules of LLMBox's package that kshot answers itself, by their names below the package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import Any

from kshot.datasets.llmbox import metrics
from kshot.datasets.llmbox.classes import LLMBoxDataset, LLMBoxGeneration, LLMBoxMultipleChoice
from kshot.datasets.llmbox.drop_answers import get_answers
from kshot.datasets.llmbox.equivalence import equivalent
from kshot.datasets.llmbox.loading import raw_dataset_loader
from kshot.datasets.llmbox.stand_ins import datasets_library, language_codes
from kshot.tables.files import load_raw_dataset_from_file

_BASES: Mapping[str, Any] = {
    "Dataset": LLMBoxDataset,
    "GenerationDataset": LLMBoxGeneration,
    "MultipleChoiceDataset": LLMBoxMultipleChoice,
}
_LOADING: Mapping[str, Any] = {
    "get_raw_dataset_loader": raw_dataset_loader,
    "load_raw_dataset_from_file": load_raw_dataset_from_file,
}


class CallableModule(ModuleType):
    """A module that can be called too: whether a file imports the module or its function, it gets the function."""

    def __call__(self, *given: Any, **options: Any) -> Any:
        """Call the function that has the name of the module."""
        return vars(self)[self.__name__](*given, **options)


def _module(name: str, contents: Mapping[str, Any], kind: type[ModuleType] = ModuleType) -> Callable[[], ModuleType]:
    @cache
    def made() -> ModuleType:
        module = kind(name)
        vars(module).update(contents)
        return module

    return made


_math_equiv = _module("math_equiv", {"math_equiv": equivalent, "is_equiv": equivalent}, CallableModule)

ANSWERED: Mapping[str, Callable[[], ModuleType]] = {
    "dataset.dataset": _module("dataset", _BASES),
    "dataset.generation_dataset": _module("generation_dataset", _BASES),
    "dataset.multiple_choice_dataset": _module("multiple_choice_dataset", _BASES),
    "dataset.dataset_utils": _module("dataset_utils", _LOADING),
    "dataset.utils": _module("utils", _LOADING),
    "metric": _module("metric", metrics.BY_NAME),
    "metric.drop_utils": _module("drop_utils", {"get_answers": get_answers}),
    "utils": _module("utils", {"math_equiv": _math_equiv()}),
    "utils.math_equiv": _math_equiv,
}

STAND_INS: Mapping[str, Callable[[], ModuleType | None]] = {
    "datasets": datasets_library,
    "langcodes": language_codes,
}
"""What answers the import of a package that is not of LLMBox; None: the package itself."""
