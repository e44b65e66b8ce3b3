"""What a page is answered while its samples are not ready; it asks again."""

from __future__ import annotations

from typing import Any

from kshot.runs.sample_filters import HEADLINE
from kshot.viewer.index_file import VERDICTS


class NotReadyError(Exception):
    """Something is still being made."""

    def __init__(self, state: str, share: float) -> None:
        """Say what is made, and how far it is."""
        super().__init__(state)
        self.state, self.share = state, share

    def page(self) -> dict[str, Any]:
        """Return the JSON of ``…/samples``."""
        return {"state": self.state, "share": self.share, "total": 0, "matching": 0, "rows": []}

    def facets(self) -> dict[str, Any]:
        """Return the JSON of ``…/facets``; every state but "ready" has the page ask again."""
        named: dict[str, Any] = {name: [] for name in ("tasks", "models", "categories", "answers")}
        counts = {"total": 0, "metrics": [HEADLINE], "verdicts": dict.fromkeys(VERDICTS, 0)}
        return {"state": "indexing", "share": self.share} | counts | named
