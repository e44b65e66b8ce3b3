"""Settings for one dataset of a run, for the front ends that read none after a name: ``lookup:UR,length=10+20``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kshot.core.errors import UsageError
from kshot.core.protocols import Model
from kshot.core.specs import split_options
from kshot.core.task import Task
from kshot.core.watcher import PlannedTask
from kshot.settings import Settings
from kshot.studies.wrapped import WrappedSource


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
