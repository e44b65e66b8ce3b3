"""The examples before each sample: one draw for all samples, or those that a retriever chose, within a token budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from numbers import Integral
from types import SimpleNamespace
from typing import Any, Protocol, TypeAlias

from kshot.core.errors import DataError
from kshot.core.protocols import ExampleRetriever
from kshot.core.records import Message, Sample, plain
from kshot.datasets.dataset import Dataset, where_of

TokenCounter: TypeAlias = Callable[[str], int]


class ExampleWriter(Protocol):
    """Turns example rows into samples and into the messages of a prompt; the compiler of a dataset is one."""

    def example_at(self, index: int, /) -> Sample:
        """Make the sample of the example row with this number."""
        ...

    def example_messages(self, shots: Sequence[Sample], /) -> list[Message]:
        """Write examples as a conversation."""
        ...

    def note(self, text: str, /) -> None:
        """Tell the user something about this dataset."""
        ...

    def call(self, name: str, method: Callable[[], Any], /) -> Any:
        """Call code of a plug-in; an error names the dataset and ``name``."""
        ...


class ShownExamples:
    """Chooses the examples of a dataset. ``shots`` are those that every sample shows, if no retriever chooses."""

    def __init__(self, dataset: Dataset, writer: ExampleWriter) -> None:
        """Choose nothing yet: a class that constructs its own examples may never need any."""
        self._dataset, self._writer = dataset, writer
        self._chosen: Sequence[Sequence[int]] | None = None
        self._retriever: ExampleRetriever | None = None
        self._count_tokens: TokenCounter | None = None
        self._kept: dict[str, int] = {}
        self._is_unfitted = False
        self.shots: tuple[Sample, ...] = ()

    def choose(self) -> None:
        """Draw the examples once for all samples, or ask the retriever that the settings name."""
        if self._dataset.num_shots and self._dataset.args.retriever:
            self._retrieve(self._dataset.args.retriever)
        else:
            self.shots = self.drawn

    def select(self, sample: Sample) -> Sequence[Sample]:
        """Return the examples before a sample."""
        if self._chosen is None:
            return self._others(sample) if self.shots and self.among_evaluated else self.shots
        chosen = self._chosen[sample.position]
        kept = self._kept.get(str(sample.position), len(chosen))
        shots = tuple(self._writer.example_at(i) for i in chosen[len(chosen) - kept :])
        while shots and not self._fits(shots):
            shots = shots[1:]  # the nearest ones are last
        if len(shots) < len(chosen):
            self._kept[str(sample.position)] = len(shots)
        return shots

    def fit(self, count_tokens: TokenCounter | None, recorded: Mapping[str, Any] | None = None) -> None:
        """Keep the whole examples, from the front, that fit the token budget of the model's tokenizer.

        ``recorded`` are the facts of an earlier run, which say how many it kept.
        """
        self._count_tokens, recorded = count_tokens, recorded or {}
        self._kept = dict(recorded.get("kept", {}))
        shows = bool(self.shots) or self._chosen is not None
        unfitted = shows and count_tokens is None and "max_example_tokens" in self._dataset.args.changed()
        self._is_unfitted = recorded.get("unfitted", False) if recorded else unfitted
        if self._is_unfitted:
            self._writer.note("--max-example-tokens needs a model with a tokenizer and is not applied")
        drawn, kept = len(self.shots), recorded.get("shots")
        self.shots = self.shots[:kept]
        while kept is None and self.shots and not self._fits(self.shots):
            self.shots = self.shots[:-1]
        if len(self.shots) < drawn:
            self._writer.note(f"{len(self.shots)} of {drawn} examples fit {self.budget} tokens")

    @property
    def budget(self) -> int | None:
        """The most tokens that the examples may have together; None: as many as they have."""
        return self._dataset.args.max_example_tokens

    @property
    def is_provisional(self) -> bool:
        """Whether the examples are only for a rehearsal."""
        from kshot.retrievers.base import is_provisional

        return is_provisional(self._retriever)

    def facts(self) -> dict[str, Any]:
        """Return what a run records of the examples.

        ``shots`` is the number of examples before a row. ``kept`` is that of each row that has fewer than the retriever
        chose for it, and grows with the run; ``chosen`` is that of each row for which it chose fewer than for others.
        ``unfitted``: the model could not count tokens, so that none was left out.
        """
        unfitted = {"unfitted": True} if self._is_unfitted else {}
        if self._retriever is None:
            return {"shots": len(self.shots), **unfitted}
        numbers = [len(row) for row in self._chosen or ()]
        shots = max(numbers, default=0)
        fewer = {str(row): number for row, number in enumerate(numbers) if number < shots}
        chosen = {"chosen": fewer} if fewer else {}
        return {"retriever": dict(self._retriever.facts), "shots": shots, "kept": self._kept, **chosen, **unfitted}

    @cached_property
    def drawn(self) -> tuple[Sample, ...]:
        """The examples that the seed draws, the same for all samples."""
        return tuple(self._writer.example_at(i) for i in self.numbers)

    @cached_property
    def numbers(self) -> Sequence[int]:
        """The numbers of their rows."""
        wanted = self._dataset.num_shots
        if not wanted:
            return ()
        size = len(self._dataset.example_data)
        if not size or (self.among_evaluated and size == 1):
            raise DataError(
                f"it has no examples to show ({wanted} wanted)",
                where=where_of(self._dataset),
                hint="Its only row would be its own example." if size else "Set example_set.",
            )
        if wanted >= size:
            if wanted > size or self.among_evaluated:
                shown = f"the {size - 1} other rows are shown" if self.among_evaluated else f"all {size} shown"
                self._writer.note(f"{wanted} examples wanted, {shown}")
            return range(size - 1 if self.among_evaluated else size)
        return self.draw(size, wanted)

    @property
    def among_evaluated(self) -> bool:
        """Whether the examples are drawn from the evaluated rows; a row is then never an example of itself."""
        own = self._dataset
        if own.example_set is None or own.example_set != own.evaluation_set:
            return False
        size = min(len(own.evaluation_data), len(own.example_data))
        return size > 0 and all(own.example_data[number] == own.evaluation_data[number] for number in {0, size - 1})

    def _others(self, sample: Sample) -> Sequence[Sample]:
        """Return the examples before a sample that may be one of them: another row then takes its place."""
        numbers = list(self.numbers[: len(self.shots)])
        if sample.position not in numbers:
            return self.shots
        return tuple(self._writer.example_at(self._spare if each == sample.position else each) for each in numbers)

    @cached_property
    def _spare(self) -> int:
        """The number of the example row that takes the place of a row in its own examples."""
        size = len(self._dataset.example_data)
        if len(self.numbers) == size - 1:
            return next(number for number in range(size) if number not in self.numbers)
        return int(self.draw(size, len(self.numbers) + 1)[-1])  # a longer draw begins with the same rows

    def draw(self, size: int, wanted: int) -> Sequence[int]:
        """Draw the numbers of example rows, by the seed of the dataset."""
        import numpy as np

        drawn: list[int] = np.random.RandomState(self._dataset.seed).choice(size, wanted, replace=False).tolist()
        return drawn

    def _retrieve(self, spec: str) -> None:
        from kshot.retrievers import make

        splits = {self._dataset.example_set, self._dataset.evaluation_set}
        pool = SimpleNamespace(
            train=self._dataset.example_data,
            test=self._dataset.evaluation_data,
            same_split=None if splits == {None} else len(splits) == 1,  # a class without names loads rows of its own
        )
        if not len(pool.train):
            raise DataError("it has no examples to choose from", where=where_of(self._dataset), hint="Set example_set.")
        retriever: ExampleRetriever = make(spec, pool, ice_num=self._dataset.num_shots, seed=self._dataset.seed)
        self._chosen = self._writer.call(f"the retriever {spec}", retriever.retrieve)
        self._check_choice(spec, len(pool.train), len(pool.test))
        self._retriever = retriever

    def _check_choice(self, spec: str, train: int, test: int) -> None:
        """Refuse the choice of a plug-in that names no training rows, or does not fit the test rows."""
        chosen, where = self._chosen or (), where_of(self._dataset)
        if len(chosen) != test:
            raise DataError(f"the retriever {spec} chose examples for {len(chosen)} of {test} rows", where=where)
        numbers: Iterator[object] = (number for row in chosen for number in row)
        for number in numbers:
            if type(number) is bool or not isinstance(number, Integral) or not 0 <= int(number) < train:
                raise DataError(
                    f"the retriever {spec} chose the training row {number!r}; there are {train} rows", where=where
                )

    def _fits(self, shots: Sequence[Sample]) -> bool:
        if self._count_tokens is None or self.budget is None:
            return True
        return self._count_tokens(plain(self._writer.example_messages(shots))) <= self.budget
