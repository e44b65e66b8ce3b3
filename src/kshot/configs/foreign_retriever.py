"""A retriever of a home, which chooses examples in its confined worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshot.configs.home import Home
from kshot.configs.rows import SelectedRows
from kshot.configs.scope import Name


class ForeignRetriever:
    """Chooses examples by the code of a home."""

    def __init__(self, home: Home, name: Name, options: Mapping[str, Any], rows: SelectedRows) -> None:
        """``rows`` are those to choose from and to choose for."""
        self._home, self._name, self._options, self._rows = home, name, dict(options), rows

    @property
    def facts(self) -> dict[str, Any]:
        """What a run records about the choice."""
        return {"retriever": self._name.whole, "home": self._home.digest}

    def retrieve(self) -> list[list[int]]:
        """Return the numbers of the training rows to show before each test row."""
        rows = self._rows
        return self._home.examples(
            self._name.whole,
            self._options,
            train=rows.train,
            test=rows.test,
            columns=rows.input_columns,
            output=rows.output_column,
        )
