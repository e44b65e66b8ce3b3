"""A source made from another one: its models and judges, its data, and what it announces are those of the other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kshot.core.protocols import Model, Source
from kshot.core.records import ResultRow
from kshot.core.task import TaskResult
from kshot.settings import Settings


@dataclass(frozen=True, slots=True)
class WrappedSource(Source[Settings]):
    """A source made from another one; a subclass says what differs.

    ``text`` is what the user wrote; ``whole`` is the source for the settings of the run.
    """

    text: str
    whole: Source[Settings]

    @property
    def label(self) -> str:
        """The source as the user wrote it."""
        return self.text

    @property
    def has_corpus(self) -> bool:
        """Whether its tasks have passages."""
        return self.whole.has_corpus

    @property
    def models(self) -> Sequence[str]:
        """The models that the source names."""
        return self.whole.models

    @property
    def model_names(self) -> Mapping[str, str]:
        """What the results call these models."""
        return self.whole.model_names

    @property
    def judges(self) -> Sequence[str]:
        """The judges that the source names."""
        return self.whole.judges

    @property
    def without_logprobs(self) -> str:
        """What the user can do if a model gives no log-probabilities."""
        return self.whole.without_logprobs

    def of_whole(self, settings: Settings) -> Settings:
        """Return the settings that the other source gets."""
        return settings

    def searches(self, settings: Settings) -> bool:
        """Whether search engines are evaluated on the source."""
        return self.whole.searches(self.of_whole(settings))

    def default_model(self, settings: Settings) -> str | None:
        """Return the built-in model that suits the source."""
        return self.whole.default_model(self.of_whole(settings))

    def packages(self, settings: Settings, *, scored: bool = True) -> Mapping[str, Sequence[str]]:
        """Return the packages that the source needs."""
        return self.whole.packages(self.of_whole(settings), scored=scored)

    def totals(self, results: Sequence[TaskResult]) -> Iterator[ResultRow]:
        """Return the figures over several tasks."""
        return self.whole.totals(results)

    def wants_chat(self, model: Model) -> bool:
        """Whether a model gets messages unless the user says otherwise."""
        return self.whole.wants_chat(model)

    def data_names(self) -> Collection[str] | None:
        """Return the names that ``--data`` may have."""
        return self.whole.data_names()

    def announcements(self) -> Sequence[str]:
        """Return what the source announces."""
        return self.whole.announcements()

    def close(self) -> None:
        """End what runs beside kshot for it."""
        self.whole.close()
