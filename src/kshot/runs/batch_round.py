"""One call of a run with ``--batch-api``: collect answers, let all tasks go as far as they can, submit the rest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kshot.core.budget import LimitReached
from kshot.core.errors import RunError, UsageError
from kshot.core.postponed import BatchesOpen, BatchQueue, RequestsPostponed
from kshot.core.protocols import LanguageModel, Model
from kshot.core.text_files import parse_json, path_inside, read_at_most
from kshot.runs.folder import RunFolder

BATCHES = "batches.json"


class BatchFile:
    """The state of the batches of a run; each version of the file is complete and on the disk before it is used."""

    def __init__(self, folder: RunFolder) -> None:
        """Take the folder."""
        self._folder = folder

    def read(self) -> dict[str, Any]:
        """Return the state; an empty one if there is none."""
        place = path_inside(self._folder.path, BATCHES)
        try:
            found = parse_json(read_at_most(place))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as exc:
            raise self._damaged() from exc
        if not isinstance(found, dict):
            raise self._damaged()
        return found

    def write(self, state: Mapping[str, Any]) -> None:
        """Store the state."""
        with self._folder.replacing(BATCHES) as file:
            file.write(json.dumps(state) + "\n")

    def is_answered(self, key: str) -> bool:
        """Whether the journal of the run has the answer to a request."""
        return self._folder.journal.get(key) is not None

    def _damaged(self) -> RunError:
        hint = "Delete it to submit again what is not in the journal; batches that are under way are then paid twice."
        return RunError(f"{BATCHES} is damaged", where=str(self._folder.path), hint=hint)


class BatchRound:
    """The batches of all models of a run. Without ``--batch-api`` there are none, and nothing is done here."""

    def __init__(self, folder: RunFolder | None) -> None:
        """Take the run folder, which keeps the state of the batches."""
        self._folder = folder
        self._opened: dict[int, BatchQueue] = {}  # by their id
        self.postponed = False
        """Whether a task of this call waits for a batch."""

    @property
    def in_use(self) -> bool:
        """Whether a model of this run has a batch API."""
        return bool(self._opened)

    def open(self, models: Mapping[str, Model]) -> None:
        """Collect what the batches of these models, given by role, have brought."""
        for role, model in models.items():
            batches = _batches_of(model)
            if batches is None or id(batches) in self._opened:
                continue
            if self._folder is None:
                raise UsageError("--batch-api needs a run folder: a later call collects the answers", hint="Give out.")
            self._folder.failures |= batches.open(BatchFile(self._folder), role)
            self._opened[id(batches)] = batches

    @contextmanager
    def postponing(self) -> Iterator[None]:
        """Run a task of which a part may be postponed; the next one is then tried all the same."""
        try:
            yield
        except RequestsPostponed:
            self.postponed = True
        except LimitReached:
            if not self.postponed:  # else what was taken before the limit is submitted first
                raise

    def submit(self, models: Iterable[Model]) -> None:
        """Submit what these models were asked and have not answered."""
        for model in models:
            batches = _batches_of(model)
            if batches is not None:
                batches.submit()

    def end(self) -> None:
        """Stop the run if it waits for batches; a complete one asks again for what failed when it is called again."""
        if self.postponed:
            waiting = sum(batches.waiting for batches in self._opened.values())
            raise BatchesOpen(
                f"{waiting:,} {'request waits' if waiting == 1 else 'requests wait'} in batches",
                where="" if self._folder is None else str(self._folder.path),
                hint="The same command collects the answers when they are there, which may take 24 hours.",
            )
        for batches in self._opened.values():
            batches.done()


def _batches_of(model: Model) -> BatchQueue | None:
    return model.abilities.batches if isinstance(model, LanguageModel) else None
