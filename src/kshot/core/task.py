"""A task is an evaluation as a value: samples, how they are asked, how the answers are scored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from kshot.core.corpus import Corpus
from kshot.core.records import Asking, Request, Response, Sample, Value

P = TypeVar("P")


def no_shots(sample: Sample) -> Sequence[Sample]:  # noqa: ARG001 - the selector that looks at nothing
    """Show no examples."""
    return ()


@runtime_checkable
class Scorer(Protocol):
    """Scores one answer against one reference, and sums up many.

    ``score`` gives a value per name; ``reduce`` turns the values of one name into the reported figure, so the figure of
    a single sample is ``reduce(name, [value])``. ``grouped`` metrics get all repeats of a sample as one tuple.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """The names it reports."""
        ...

    @property
    def grouped(self) -> bool:
        """Whether it wants all repeats of a sample at once."""
        ...

    def score(self, sample: Sample, answer: Any, /) -> Mapping[str, Value] | Asking:
        """Score one answer, asking a model if need be."""
        ...

    def reduce(self, name: str, values: Sequence[Value], /) -> float:
        """Sum up."""
        ...


@dataclass(frozen=True, slots=True)
class Task(Generic[P]):
    """An evaluation as a value.

    ``template(sample, shots(sample))`` gives what ``method(sample, …)`` puts to the model: a Prompt in most cases.
    ``finish`` turns the raw answers of all samples, in order, into the answers that are scored; without it the
    method's own are. ``samples`` may be any re-iterable collection: it is read as a stream.

    ``notes`` are for the user, ``facts`` for ``spec.json``, ``labels`` become columns of the task's results. ``export``
    gives, for a sample and its row of ``samples.jsonl``, a file of the run folder and a line for it: for those who
    expect results in a form of their own. ``corpus`` is what a search engine is put over before it is asked.
    """

    name: str
    samples: Iterable[Sample]
    template: Callable[[Sample, Sequence[Sample]], P]
    method: Callable[[Sample, P], Asking]
    metrics: tuple[Scorer, ...]
    shots: Callable[[Sample], Sequence[Sample]] = no_shots
    finish: Callable[[Sequence[Any]], Sequence[Any]] | None = None
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, Any] = field(default_factory=dict)
    export: Callable[[Sample, Mapping[str, Any]], tuple[str, Mapping[str, Any]]] | None = None
    corpus: Corpus | None = None

    def ask(self, sample: Sample) -> Asking:
        """Start asking one sample."""
        return self.method(sample, self.template(sample, self.shots(sample)))


class Waiting(Protocol):
    """Requests waiting for one backend. It may grow while the backend works."""

    def take(self, at_most: int | None = None, /) -> list[Request]:
        """Remove and return what is waiting (all of it, or this many)."""
        ...

    def __iter__(self) -> Iterator[Request]:
        """Take one by one until nothing waits."""
        ...


class Backend(Protocol):
    """A language model or search index: takes requests from the queue and yields each with its response, in any order.

    ``fingerprint`` covers whatever changes its answers. ``answers`` lists the request types it can serve.
    """

    @property
    def name(self) -> str:
        """How tables and files call it."""
        ...

    @property
    def fingerprint(self) -> str:
        """Whatever changes its answers, as one text."""
        ...

    @property
    def answers(self) -> tuple[type, ...]:
        """The request types it can serve."""
        ...

    def serve(self, waiting: Waiting, /) -> Iterator[tuple[Request, Response]]:
        """Answer what waits, and what joins while it works."""
        ...
