"""Sources made from another one: what all of them have in common, and settings for one dataset of a run.

The front ends that read no settings after a name get them so: ``lookup:UR,length=10+20``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kshot.core.errors import UsageError
from kshot.core.protocols import Model, Source
from kshot.core.records import ResultRow
from kshot.core.specs import split_options
from kshot.core.task import Task, TaskResult
from kshot.core.watcher import PlannedTask
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


@dataclass(frozen=True, slots=True)
class OwnSettings(WrappedSource):
    """A source with settings of its own. Its tasks keep their names.

    ``own`` returns the settings of the dataset from those of the run. They note in ``reads`` which of them are read.
    """

    own: Callable[[Settings], Settings]
    reads: Collection[str]

    def data_names(self) -> Collection[str] | None:
        """Return the names that ``--data`` may have; the place of its own rows is among its settings."""
        return () if "data" in split_options(self.text)[1] else self.whole.data_names()

    def of_whole(self, settings: Settings) -> Settings:
        """Return the settings of the dataset."""
        return self.own(settings)

    def check(self, settings: Settings) -> None:
        """Refuse settings that belong to the whole run."""
        declared = settings.declared()
        for name in split_options(self.text)[1]:
            if declared[name].whole_run:
                raise UsageError(f"its setting {name} is for a whole run", where=self.text, hint="Leave it out here.")
        self.whole.check(self.own(settings))

    def _checked(self, tasks: Iterator[Task[Any]]) -> Iterator[Task[Any]]:
        """Yield the tasks, and refuse settings that nothing has read."""
        yield from tasks
        for name in split_options(self.text)[1]:
            if name not in self.reads:
                raise UsageError(f"its setting {name} has no effect", where=self.text, hint="Leave it out here.")

    def tasks(
        self, settings: Settings, model: Model | None = None, facts: Mapping[str, Any] | None = None
    ) -> Iterator[Task[Any]]:
        """Compile it with its own settings."""
        return self.whole.tasks(self.own(settings), model, facts)

    def previews(self, settings: Settings) -> Iterator[Task[Any]]:
        """Compile it for its prompts."""
        return self._checked(self.whole.previews(self.own(settings)))

    def rehearsals(self, settings: Settings) -> Iterator[Task[Any]]:
        """Compile what a run tries out."""
        return self._checked(self.whole.rehearsals(self.own(settings)))

    def planned(self, settings: Settings, rehearsed: Sequence[PlannedTask]) -> Sequence[PlannedTask] | None:
        """Return all its tasks."""
        return self.whole.planned(self.own(settings), rehearsed)
