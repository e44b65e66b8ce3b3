"""Retrievers that compare no texts: no examples, named rows, draws, a window, and rows of the same label.

Two choose as lm-evaluation-harness does: drawn anew for every row by one stream, or the first of the pool.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from operator import index as as_index
from typing import Any

from kshot.core.errors import BadValue
from kshot.retrievers.base import Retriever, equal


class ZeroRetriever(Retriever):
    """No examples; a template may contain some of its own."""

    shows_examples = False

    def __init__(self, dataset: Any, ice_eos_token: str = "", ice_separator: str = "", **options: Any) -> None:
        """Take the dataset; ``ice_num`` is always 0."""
        super().__init__(dataset, ice_separator, ice_eos_token, **{**options, "ice_num": 0})

    def ranked(self) -> Iterator[Sequence[int]]:
        """Choose nothing for every test row."""
        return (() for _ in range(len(self.test)))


class FixKRetriever(Retriever):
    """The training rows named by ``fix_id_list``, in that order, repeats kept, for every test row.

    A row that is itself among them is shown the others (strict).
    """

    def __init__(
        self,
        dataset: Any,
        fix_id_list: Sequence[int],
        ice_separator: str = "\n",
        ice_eos_token: str = "\n",  # noqa: S107 - a mark in a prompt
        ice_num: int = 1,
        **options: Any,
    ) -> None:
        """Check that every id is a training row; ``ice_num`` is accepted, but the list decides."""
        super().__init__(dataset, ice_separator, ice_eos_token, ice_num, **options)
        self.fix_id_list = tuple(self._checked(each) for each in fix_id_list)
        self.ice_num = len(self.fix_id_list)

    def _checked(self, given: Any) -> int:
        size = len(self.train)
        try:
            number = as_index(given)
        except TypeError:
            number = -1
        if isinstance(given, bool) or not 0 <= number < size:
            raise BadValue(
                f"fix_id_list has {given!r}; the training set has {size} rows",
                where=type(self).__name__,
                hint=f"Ids go from 0 to {size - 1}." if size else "",
            )
        return number

    def ranked(self) -> Iterator[Sequence[int]]:
        """Give the list, without the row itself."""
        for row in range(len(self.test)):
            hidden = self.excluded(row)
            yield tuple(index for index in self.fix_id_list if index not in hidden)


class RandomRetriever(Retriever):
    """For each test row an independent draw without replacement, the same for the same ``seed``.

    Each row takes ``choice(n, ice_num, replace=False)`` from one ``RandomState(seed)``: numpy's legacy stream, and a
    generator of its own. Where a row is itself a training row (strict), the draw is from the n - 1 others: numbers from
    its own on move up by one.
    """

    def ranked(self) -> Iterator[Sequence[int]]:
        """Draw once for each row, in order."""
        import numpy as np

        self.check_pool()
        stream, size = np.random.RandomState(self.seed), len(self.train)
        for own in self.own:
            if own is None:
                yield stream.choice(size, self.ice_num, replace=False).tolist()
            else:
                drawn = stream.choice(size - 1, self.ice_num, replace=False).tolist()
                yield [index + (index >= own) for index in drawn]


class SlidingWindowRetriever(Retriever):
    """The ``k`` training rows just before the test row's own number, the nearest last; before row 0 comes the last row.

    ``around`` takes them from both sides instead, by distance, the earlier one of two equally far.
    """

    default_order = ("nearest_last", "nearest_last")

    def __init__(
        self,
        dataset: Any,
        k: int | None = None,
        ice_separator: str = "\n",
        ice_eos_token: str = "\n",  # noqa: S107 - a mark in a prompt
        ice_num: int = 1,
        *,
        around: bool = False,
        **options: Any,
    ) -> None:
        """Take ``k``, or ``ice_num`` where it is not given."""
        super().__init__(dataset, ice_separator, ice_eos_token, ice_num if k is None else k, **options)
        self.around = around

    def ranked(self) -> Iterator[Sequence[int]]:
        """Take rows by their distance until there are enough."""
        self.check_pool()
        size = len(self.train)
        for row, own in enumerate(self.own):
            at = row if own is None else own
            found: dict[int, None] = {}
            for place in self._places(at, size):
                if len(found) == self.ice_num:
                    break
                if place not in self.excluded(row):
                    found[place] = None
            yield tuple(found)

    def _places(self, at: int, size: int) -> Iterator[int]:
        """Yield row numbers by distance from a place; the place itself comes last, as the farthest on the ring."""
        for step in range(1, size + 1):
            yield (at - step) % size
            if self.around:
                yield (at + step) % size


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


_LABELS = "labels"


class XiezhiRetriever(Retriever):
    """The training rows that have a label of the test row, in the order of its labels, then in their own.

    Each row has a list of labels in the column ``labels_column``; Xiezhi's go from fine to coarse. As in OpenCompass, a
    row that shares two labels is there twice, and a label that no training row has is an error; strict leaves out both.
    """

    def __init__(self, dataset: Any, *positional: Any, labels_column: str = _LABELS, **options: Any) -> None:
        """Take the options of every retriever, and the column of the labels."""
        super().__init__(dataset, *positional, **options)
        if not isinstance(labels_column, str):
            raise BadValue(f"labels_column is {labels_column!r:.60}; it must be the name of a column")
        self.labels_column = labels_column

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


LM_EVAL_SEED = 1234
"""The seed of lm-eval's own draws."""


class LMEvalRetriever(Retriever):
    """For each test row a new draw from one ``random.Random(seed)``, in the order of the rows: lm-eval's ``default``.

    A row takes ``sample(pool, k)``. Where examples and test rows are of the same split, it takes ``sample(pool, k +
    1)`` and shows the first ``k`` that differ from it; if copies of it leave fewer, it draws ``k`` again among the rows
    that differ from it. The seed is an option of this retriever alone (1234, as in lm-eval): ``--seed`` does not change
    it.
    """

    takes_run_seed = False

    def __init__(self, dataset: Any, *positional: Any, seed: int | None = LM_EVAL_SEED, **options: Any) -> None:
        """Take the seed. Which rows are hidden is lm-eval's own rule: ``exclude_self`` is refused."""
        if options.get("exclude_self") is not None:
            raise BadValue(
                "exclude_self has no effect: rows are hidden from themselves by lm-eval's own rule",
                where=type(self).__name__,
                hint="Leave it out.",
            )
        super().__init__(dataset, *positional, seed=seed, **options)

    def ranked(self) -> Iterator[Sequence[int]]:
        """Draw for each row, in order."""
        stream, pool = random.Random(self.seed), range(len(self.train))  # noqa: S311 - a reproducible draw, no secret
        same = self.pool.same_split
        wanted = self.ice_num + same if self.ice_num else 0
        self._check_size(
            wanted, len(pool), "drawn (one more than shown, in case the row itself is among them)" if same else "drawn"
        )
        for row in self.test:
            drawn: Sequence[int] = stream.sample(pool, wanted)
            if same:
                drawn = self._others(drawn, row)[: self.ice_num]
                if len(drawn) < self.ice_num:
                    others = self._others(pool, row)
                    self._check_size(self.ice_num, len(others), "drawn among those that differ from it")
                    drawn = stream.sample(others, self.ice_num)
            yield drawn

    def _others(self, candidates: Sequence[int], row: Any) -> list[int]:
        """Return the candidates that are not equal to the row."""
        return [index for index in candidates if not equal(self.train[index], row)]

    def _check_size(self, wanted: int, size: int, how: str) -> None:
        if wanted > size:
            raise BadValue(
                f"{wanted} examples for each row are {how}; there are {size} rows",
                where=type(self).__name__,
                hint="Ask for fewer examples.",
            )


class FirstNRetriever(LMEvalRetriever):
    """The first ``ice_num`` rows of the pool, the same for every row: lm-eval's ``first_n``.

    Where examples and test rows are of the same split, a row is shown the first ones that differ from it.
    """

    def ranked(self) -> Iterator[Sequence[int]]:
        """Give the first rows."""
        same = self.pool.same_split
        for row in self.test:
            pool = self._others(range(len(self.train)), row) if same else range(len(self.train))
            self._check_size(self.ice_num, len(pool), "shown")
            yield pool[: self.ice_num]
