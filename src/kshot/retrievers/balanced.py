"""Every label as often as the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kshot.core.errors import BadValue
from kshot.retrievers.base import Retriever


class BalancedRetriever(Retriever):
    """For each test row a seeded draw in which label counts differ by at most one, while rows of a label last.

    ``label`` names the column (by default the output column). Labels take turns in an order drawn anew for each row, so
    that with fewer examples than labels none is favoured. The examples are shown in random order by default;
    ``nearest_first`` shows them in the order of turns.
    """

    default_order = ("random", "random")

    def __init__(
        self,
        dataset: Any,
        *positional: Any,
        label: str | None = None,
        **options: Any,
    ) -> None:
        """Sort the training rows by label."""
        super().__init__(dataset, *positional, **options)
        self.label = self._label_column(label)
        self._rows_of: dict[str, list[int]] = {}
        for index, row in enumerate(self.train):
            if not isinstance(row, Mapping) or self.label not in row:
                raise BadValue(f"row {index} of the training set has no label column {self.label!r}")
            self._rows_of.setdefault(str(row[self.label]), []).append(index)

    def _label_column(self, label: str | None) -> str:
        name = self.pool.output_column if label is None else label
        if name is not None:
            return name
        first = self.train[0] if len(self.train) else {}
        guesses = [key for key in ("label", "answer", "target") if isinstance(first, Mapping) and key in first]
        if not guesses:
            raise BadValue("the column that holds the label is not known", hint="Name it: label='…'.")
        return guesses[0]

    def ranked(self) -> Iterator[Sequence[int]]:
        """Draw rows of each label, by turns."""
        self.check_pool()
        for row in range(len(self.test)):
            hidden = set(self.excluded(row))
            draw = self.generator(row, "labels")
            labels = sorted(self._rows_of)
            draw.shuffle(labels)
            quotas = self._quotas(labels, hidden)
            drawn = {}
            for label in labels:  # one more than the quota, in case the row itself is among them
                rows = self._rows_of[label]
                places = draw.sample(range(len(rows)), min(len(rows), quotas[label] + len(hidden)))
                drawn[label] = [rows[at] for at in places if rows[at] not in hidden][: quotas[label]]
            rounds = max(quotas.values(), default=0)
            yield [drawn[label][turn] for turn in range(rounds) for label in labels if turn < quotas[label]]

    def _quotas(self, labels: Sequence[str], hidden: set[int]) -> dict[str, int]:
        """Return how many rows of each label to draw: one each by turns, while a label has any, until enough."""
        left = {label: len(self._rows_of[label]) for label in labels}
        for index in hidden:
            left[str(self.train[index][self.label])] -= 1
        quotas = dict.fromkeys(labels, 0)
        wanted = self.ice_num
        while wanted:
            open_labels = [label for label in labels if quotas[label] < left[label]]
            for label in open_labels[:wanted]:
                quotas[label] += 1
            wanted -= len(open_labels[:wanted])
        return quotas
