"""What ``kshot check`` says of one entry of a config, or of one task of a tree: what would run, and what is missing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Lack:
    """What an entry lacks to run."""

    part: str
    """The part that lacks it: ``data``, ``prompts``, ``evaluation``, ``judge``, ``name``, ``file``, ``kind``, ..."""
    message: str
    """What is wrong, and what to do, for this entry."""
    alike: tuple[str, ...]
    """What is the same for all entries that lack the same, whatever each is called."""

    def __str__(self) -> str:
        """Show the part and the message."""
        return f"{self.part}: {self.message}"


@dataclass(frozen=True, slots=True)
class EntryCheck:
    """One entry: what of it works, by whose code, and what does not."""

    entry: str
    prompts: str
    """What the model gets: ``text``, ``messages``, ``turns``, ``labels``; empty where there is no prompt."""
    data: str
    """Where its rows come from, and how many there are; empty where there are none."""
    evaluation: str
    """What scores it, and by whose code; empty where nothing can."""
    judge: str = ""
    """The model that judges its replies; empty where none is asked, or none is named."""
    missing: tuple[Lack, ...] = ()
    """What is missing."""
    notes: tuple[str, ...] = ()
    """What would run, and may be meant otherwise; a run says it, too."""

    def plain(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**asdict(self), "missing": [str(lack) for lack in self.missing], "notes": [*self.notes]}
