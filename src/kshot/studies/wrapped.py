"""What a study around a source says as that source does: its models and judges, its data, what it announces."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kshot.core.protocols import Model, Source
from kshot.settings import Settings


@dataclass(frozen=True, slots=True)
class WrappedSource(Source[Settings]):
    """A source made from another one. What does not depend on settings is as the other one says.

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
