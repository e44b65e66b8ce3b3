"""Examples that share a label with the row: those of its first label, then of the next, until there are enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kshot.core.errors import BadValue
from kshot.retrievers.base import Retriever, column_name

_LABELS = "labels"


class XiezhiRetriever(Retriever):
    """The training rows that have a label of the test row, in the order of its labels, then in their own.

    Each row has a list of labels in the column ``labels_column``; Xiezhi's go from fine to coarse. As in OpenCompass, a
    row that shares two labels is there twice, and a label that no training row has is an error; strict leaves out both.
    """

    def __init__(self, dataset: Any, *positional: Any, labels_column: str = _LABELS, **options: Any) -> None:
        """Take the options of every retriever, and the column of the labels."""
        super().__init__(dataset, *positional, **options)
        self.labels_column = column_name("labels_column", labels_column)

    @classmethod
    def list_columns(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the column of the labels."""
        return (str(options.get("labels_column", _LABELS)),)

    def ranked(self) -> Iterator[Sequence[int]]:
        """Take rows label by label."""
        holding: dict[Any, list[int]] = {}
        for index, row in enumerate(self.train):
            for label in self._labels(row, "training", index):
                holding.setdefault(label, []).append(index)
        for index, row in enumerate(self.test):
            yield self._sharing(self._labels(row, "test", index), holding, index)

    def _sharing(self, labels: Sequence[Any], holding: Mapping[Any, list[int]], row: int) -> list[int]:
        hidden = set(self.excluded(row))
        found: list[int] = []
        for label in labels:
            if len(found) >= self.ice_num:
                break
            if label not in holding and not self.strict:
                raise BadValue(
                    f"no training row has the label {label!r} of test row {row}",
                    where=type(self).__name__,
                    hint="Give training rows with all labels of the test rows.",
                )
            found += [index for index in holding.get(label, ()) if index not in hidden]
            if self.strict:
                found = list(dict.fromkeys(found))
        return found[: self.ice_num]

    def _labels(self, row: Any, split: str, index: int) -> Sequence[Any]:
        labels = row.get(self.labels_column) if isinstance(row, Mapping) else None
        if not isinstance(labels, (list, tuple)) or any(isinstance(label, (list, dict)) for label in labels):
            raise BadValue(
                f"{split} row {index} has no list of labels in the column {self.labels_column!r}",
                where=type(self).__name__,
            )
        return labels
