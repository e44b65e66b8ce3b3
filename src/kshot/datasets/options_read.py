"""Which options change what a dataset class does under given settings. The others are noted: see ``Source.reads``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import CodeType, FunctionType
from typing import Any

from kshot.core.errors import KshotError
from kshot.core.options import settings_names
from kshot.core.specs import split_names
from kshot.datasets.dataset import Dataset
from kshot.datasets.generation import GenerationDataset
from kshot.datasets.llmbox.classes import LLMBoxDataset, LLMBoxGeneration, LLMBoxMultipleChoice
from kshot.datasets.multiple_choice import MultipleChoiceDataset
from kshot.datasets.rows.settings import RowSettings
from kshot.datasets.settings import DatasetSettings
from kshot.metrics import Greedy, Perplexity, make_metric

_OF_CHOICE = frozenset({"ranking_type", "accuracy", "letters"})
_OF_REPLIES = frozenset({"max_tokens", "temperature", "top_p", "top_k", "stop"})
_OF_SAMPLING = frozenset({"top_p", "top_k"})
_OF_EXAMPLES = frozenset({"max_example_tokens", "retriever", "examples_as"})
_SHOTS = {"num_shots", "max_num_shots"}
_OF_PROMPTS = frozenset({"instruction", "system_prompt", "model_type", "description"})


def options_read(
    cls: type[Dataset], settings: DatasetSettings, subsets: Callable[[], Sequence[str | None]]
) -> frozenset[str]:
    """Return the names of the options that matter; those that the class itself names may matter too.

    ``subsets`` finds those that run; it is called only if the user says how to average them.
    """
    averaged = settings.average is None or len(subsets()) > 1
    unread = frozenset(_Use(cls, settings).unread()) | (frozenset() if averaged else {"average"})
    known = settings_names(DatasetSettings) - settings_names(RowSettings)  # a class may call its own fields so
    return known - unread | names_in(cls) & known


@dataclass(frozen=True)
class _Use:
    """What a class does under some settings, as far as it can be told before its rows are read."""

    cls: type[Dataset]
    settings: DatasetSettings

    def unread(self) -> Iterator[str]:
        """Yield the options that nothing reads."""
        chosen, own = issubclass(self.cls, MultipleChoiceDataset), self.settings
        yield from () if chosen else _OF_CHOICE
        yield from ("pass_at_k",) if chosen else ()
        yield from () if self._rolls else ("rolling_start",)
        if not self._generates:
            yield from _OF_REPLIES
            yield from () if chosen else ("sample_num",)
        elif not self._samples:
            yield from _OF_SAMPLING
        if not self._shows_examples:
            yield from _OF_EXAMPLES
            yield from ("example_set",) if self.cls.load_raw_dataset is Dataset.load_raw_dataset else ()
        chat, as_text = own.model_type == "chat", own.examples_as == "text"
        yield from () if chat else ("examples_as",)
        yield from _OF_PROMPTS if self._only_rolls else ()
        joined = self._shows_examples and (as_text or not chat)
        if not joined and (chat or not self._measures_after_delimiter):
            yield "target_delimiter"
        if not joined and not self._constructs_examples and (chat or not self._has_head):
            yield "fewshot_delimiter"

    @cached_property
    def _names(self) -> frozenset[str]:
        return names_in(self.cls)

    @cached_property
    def _ranking(self) -> str:
        """How options are ranked; ``auto``: only the model or the class can say."""
        if self._names & {"ranking_type", "ranking_with_options"} or self.cls.__dict__.get("ranking_type") is not None:
            return "auto"
        return "generation" if self.settings.sample_num > 1 else self.settings.ranking_type or "ppl_no_option"

    @cached_property
    def _measured(self) -> set[bool]:
        """Whether the target of a dataset of generation is measured; both, if that cannot be told."""
        given: Sequence[Any] = [name for names in self.settings.metric or () for name in split_names(names)]
        if not given and ("metrics" in self._names or isinstance(self.cls.metrics, property)):
            return {True, False}
        try:
            metrics = [make_metric(each) if isinstance(each, str) else each for each in given or self.cls.metrics]
        except (KshotError, TypeError):  # the compiler says what is wrong
            return {True, False}
        return {any(isinstance(metric, Perplexity | Greedy) for metric in metrics)}

    @property
    def _generates(self) -> bool:
        """Whether replies may be asked for."""
        if issubclass(self.cls, MultipleChoiceDataset):
            return self._ranking in {"generation", "auto"}
        return False in self._measured and not self._only_rolls

    @property
    def _samples(self) -> bool:
        """Whether replies may be sampled, rather than made of the likeliest tokens."""
        own = self.settings
        given = self.cls.extra_model_args
        usual = given.get("temperature") if isinstance(given, dict) else None
        temperature = usual if own.temperature is None else own.temperature
        return bool(temperature) or own.sample_num > 1 or "extra_model_args" in self._names

    @property
    def _rolls(self) -> bool:
        """Whether documents may be measured by themselves."""
        return self._only_rolls or (issubclass(self.cls, GenerationDataset) and "rolling" in self._names)

    @property
    def _only_rolls(self) -> bool:
        return issubclass(self.cls, GenerationDataset) and bool(self.settings.rolling or self.cls.rolling)

    @property
    def _constructs_examples(self) -> bool:
        return self.cls.construct_examples is not Dataset.construct_examples

    @property
    def _shows_examples(self) -> bool:
        shown = bool(self.settings.num_shots) or self._constructs_examples or bool(self._names & _SHOTS)
        return shown and not self._only_rolls

    @property
    def _has_head(self) -> bool:
        """Whether something may come before examples and question."""
        head = self.settings.system_prompt or self.settings.description or self.cls.description
        return (bool(head) or "description" in self._names) and not self._only_rolls

    @property
    def _measures_after_delimiter(self) -> bool:
        """Whether answers may be measured after a prompt and the delimiter."""
        if not issubclass(self.cls, MultipleChoiceDataset):
            return True in self._measured and not self._only_rolls
        if self._ranking in {"prob", "first_token"}:
            return (self.settings.letters or self.cls.letters) == "spaced"
        return self._ranking != "generation"


def names_in(cls: type[Dataset]) -> frozenset[str]:
    """Return the names that the methods of a class use, apart from those of kshot's own base classes."""
    own = [each for each in cls.__mro__ if issubclass(each, Dataset) and each not in _BASES]
    return frozenset(name for each in own for found in vars(each).values() for name in _names_of(found))


_BASES = (Dataset, MultipleChoiceDataset, GenerationDataset, LLMBoxDataset, LLMBoxMultipleChoice, LLMBoxGeneration)


def _names_of(found: Any) -> Iterator[str]:
    match found:
        case property():
            for part in (found.fget, found.fset):
                yield from _names_of(part)
        case classmethod() | staticmethod():
            yield from _names_of(found.__func__)
        case cached_property():
            yield from _names_of(found.func)
        case FunctionType():
            yield from _names_of(found.__code__)
        case CodeType():
            yield from found.co_names
            for constant in found.co_consts:
                yield from (constant,) if isinstance(constant, str) else _names_of(constant)
