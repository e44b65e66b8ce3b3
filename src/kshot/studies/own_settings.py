"""Settings for one dataset of a run, for the front ends that read none after a name: ``lookup:UR,length=10+20``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kshot.core.errors import UsageError
from kshot.core.protocols import Model
from kshot.core.records import ResultRow
from kshot.core.specs import split_options
from kshot.core.task import Task, TaskResult
from kshot.core.watcher import PlannedTask
from kshot.settings import Settings
from kshot.studies.wrapped import WrappedSource

_OF_A_WHOLE_RUN = ("retriever_seeds", "chat_template", "judge", "method", "search", "rewrite")
"""Settings that all datasets of a run share: its models and the number of its tasks depend on them."""


@dataclass(frozen=True, slots=True)
class OwnSettings(WrappedSource):
    """A source with settings of its own. Its tasks keep their names.

    ``own`` returns the settings of the dataset from those of the run.
    """

    own: Callable[[Settings], Settings]

    def data_names(self) -> Collection[str] | None:
        """Return the names that ``--data`` may have; the place of its own rows is among its settings."""
        return () if "data" in split_options(self.text)[1] else self.whole.data_names()

    def searches(self, settings: Settings) -> bool:
        """Whether search engines are evaluated on it."""
        return self.whole.searches(self.own(settings))

    def default_model(self, settings: Settings) -> str | None:
        """Return the built-in model that suits it."""
        return self.whole.default_model(self.own(settings))

    def packages(self, settings: Settings, *, scored: bool = True) -> Mapping[str, Sequence[str]]:
        """Return the packages that it needs."""
        return self.whole.packages(self.own(settings), scored=scored)

    def reads(self, settings: Settings) -> Collection[str]:
        """Return the names of the options of the run that matter; its own go before them."""
        return {*self.whole.reads(self.own(settings))} - split_options(self.text)[1].keys()

    def check(self, settings: Settings) -> None:
        """Refuse settings that mean nothing for it, or that belong to the whole run."""
        own = self.own(settings)
        read = self.whole.reads(own)
        for name in split_options(self.text)[1]:
            if name in _OF_A_WHOLE_RUN or name not in read:
                what = "is for a whole run" if name in read else "has no effect"
                raise UsageError(f"its setting {name} {what}", where=self.text, hint="Leave it out here.")
        self.whole.check(own)

    def tasks(
        self, settings: Settings, model: Model | None = None, facts: Mapping[str, Any] | None = None
    ) -> Iterator[Task[Any]]:
        """Compile it with its own settings."""
        return self.whole.tasks(self.own(settings), model, facts)

    def previews(self, settings: Settings) -> Iterator[Task[Any]]:
        """Compile it for its prompts."""
        return self.whole.previews(self.own(settings))

    def rehearsals(self, settings: Settings) -> Iterator[Task[Any]]:
        """Compile what a run tries out."""
        return self.whole.rehearsals(self.own(settings))

    def planned(self, settings: Settings, rehearsed: Sequence[PlannedTask]) -> Sequence[PlannedTask] | None:
        """Return all its tasks."""
        return self.whole.planned(self.own(settings), rehearsed)

    def totals(self, results: Sequence[TaskResult]) -> Iterator[ResultRow]:
        """Return figures over several tasks."""
        return self.whole.totals(results)
