"""What a run writes for each of its tasks: rows of samples, passages, exported lines, facts and digests of data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any, TypeAlias

from kshot.core.budget import Budget
from kshot.core.corpus import Corpus
from kshot.core.errors import RunError
from kshot.core.records import ResultRow, Sample
from kshot.core.task import Task
from kshot.core.watcher import Watcher
from kshot.runs.data_digest import DataDigests
from kshot.runs.folder import RunFolder

Emit: TypeAlias = Callable[[Sample, ResultRow], None]


class TaskFiles:
    """Writes what belongs to a task, from before it is asked until its last sample is scored."""

    def __init__(
        self,
        folder: RunFolder | None,
        keep: Callable[[ResultRow], None],
        keep_passages: Callable[[Corpus, ResultRow], None] | None,
        *,
        watcher: Watcher,
        budget: Budget,
        data: DataDigests,
        scores_again: bool,
    ) -> None:
        """Take the run folder, what keeps rows and passages, and what a run has of its own."""
        self._folder, self._keep, self._keep_passages = folder, keep, keep_passages
        self._watcher, self._budget, self._data = watcher, budget, data
        self._scores_again = scores_again

    @contextmanager
    def open(self, task: Task[Any], model: str) -> Iterator[tuple[Task[Any], Emit]]:
        """Give the task as it is to be asked, and what writes the row of each of its samples.

        The rows go to ``samples.jsonl``, and to the files that the task itself asks for.
        """
        with self._exporting(task) as export, self._recorded(task, model) as recorded:

            def emit(sample: Sample, row: ResultRow) -> None:
                if task.corpus is not None and self._keep_passages is not None:
                    self._keep_passages(task.corpus, row)
                self._keep(row)
                self._watcher.scored(row)
                export(sample, row)

            yield recorded, emit

    def _exporting(self, task: Task[Any]) -> AbstractContextManager[Emit]:
        if task.export is None or self._folder is None:
            return nullcontext(lambda *_: None)
        return _exported(self._folder, task.export)

    @contextmanager
    def _recorded(self, task: Task[Any], model: str) -> Iterator[Task[Any]]:
        """Write the facts of a task before it runs, because the run may be killed, and as it has filled them after.

        The digest of its data joins them. A run that is scored again keeps what it recorded when it asked its models,
        and tells whether its data are still those.
        """
        if self._folder is None:
            yield task
            return
        if self._scores_again:
            yield replace(task, samples=self._data.of(task.name, task.samples))
            return
        facts = self._folder.spec.get("tasks", {})
        self._folder.write_spec(tasks={**facts, model: {**facts.get(model, {}), task.name: task.facts}})
        self._budget.record_soon()
        try:
            yield replace(task, samples=self._data.of(task.name, task.samples))
        except BaseException:
            with suppress(RunError):  # the error that ends the run is the one to show
                self._budget.record()
            raise
        self._budget.record()


@contextmanager
def _exported(folder: RunFolder, export: Callable[[Sample, ResultRow], tuple[str, Any]]) -> Iterator[Emit]:
    with folder.exporting() as write:
        yield lambda sample, row: write(*export(sample, row))
