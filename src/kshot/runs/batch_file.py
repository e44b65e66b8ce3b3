"""``batches.json``: the batches that a run has submitted, in its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kshot.core.errors import RunError
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
