"""What one part of kshot asks of another, with types: models, queues, sources, metrics, retrievers, chunkers, watchers.

A class need not inherit from these protocols. Plug-ins may leave members out that have an obvious default:
``backends.adapters`` supplies those of models. ``Source`` and ``Watcher`` are inherited for their defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from kshot.core.corpus import Chunk, Corpus
from kshot.core.records import Outcome, Request, RequestGenerator, Response, ResultRow, Sample, Value

if TYPE_CHECKING:  # a Task names its metrics by the protocol below
    from kshot.core.task import Task, TaskResult

SettingsT = TypeVar("SettingsT", contravariant=True)

# ---- models ----


class RequestQueue(Protocol):
    """Requests that wait for one backend. More may join while the backend works."""

    def take(self, at_most: int | None = None, /) -> list[Request]:
        """Remove and return the waiting requests: all of them, or at most this many."""
        ...

    def __iter__(self) -> Iterator[Request]:
        """Take requests one by one until none waits."""
        ...


class Backend(Protocol):
    """What the engine drives: it takes requests from a queue and yields each with its response, in any order."""

    @property
    def name(self) -> str:
        """The name in tables and files."""
        ...

    @property
    def fingerprint(self) -> str:
        """A text that differs whenever the answers may differ."""
        ...

    @property
    def answers(self) -> tuple[type, ...]:
        """The types of request that it can serve."""
        ...

    def serve(self, queue: RequestQueue, /) -> Iterator[tuple[Request, Response]]:
        """Answer the waiting requests, and those that join while it works."""
        ...


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a language model can do beyond answering requests; the defaults say that it cannot."""

    chat_template: bool = False
    """Whether it brings a chat template of its own."""
    count_tokens: Callable[[str], int] | None = None
    """The length of a text in its tokens."""
    best_ranking: Callable[[bool], str] | None = None
    """The best ranking type that it offers, asked with whether prompts are chats; None: it serves every type."""
    recording: Path | None = None
    """The file of recorded answers that it replays."""


@runtime_checkable
class LanguageModel(Backend, Protocol):
    """A language model, as ``-m hf:PATH`` names one."""

    @property
    def abilities(self) -> Abilities:
        """What it can do beyond answering requests."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What the user should know about how it worked; read after each run."""
        ...

    def close(self) -> None:
        """Give its memory and connections back; the code that opened it calls this."""
        ...


ProgressCallback: TypeAlias = Callable[[str, int, int], None]
"""Is told how far a long piece of work has come: its label, how many are done, how many there are."""


class IndexStore(Protocol):
    """Keeps index files between runs, under a name made of everything that they depend on."""

    @property
    def progress(self) -> ProgressCallback:
        """Is told how far an index has come."""
        ...

    def built(self, kind: str, key: Mapping[str, Any], build: Callable[[Path], None], /) -> Path:
        """Return the folder of an index, built now unless it is there already."""
        ...


@runtime_checkable
class SearchEngine(Protocol):
    """A search engine, as ``-m bm25`` names one: settings from which an index over any corpus is made."""

    @property
    def name(self) -> str:
        """The name in tables and files."""
        ...

    @property
    def fingerprint(self) -> str:
        """A text that differs whenever the rankings may differ, apart from the corpus."""
        ...

    def over(self, corpus: Corpus, store: IndexStore, /) -> Backend:
        """Return the backend that searches this corpus; it opens the index when it is first asked."""
        ...

    def close(self) -> None:
        """Give its memory back; the code that opened it calls this."""
        ...


Model: TypeAlias = LanguageModel | SearchEngine
"""Whatever ``-m`` can name."""

# ---- what is evaluated ----


class Source(Protocol[SettingsT]):
    """What a user named to be evaluated; every front end implements this and compiles to Tasks."""

    @property
    def label(self) -> str:
        """The source as the user wrote it."""
        ...

    def tasks(
        self, settings: SettingsT, model: Model | None = None, facts: Mapping[str, Any] | None = None, /
    ) -> Iterator[Task[Any]]:
        """Compile to Tasks. ``model`` may be asked for its abilities; ``facts`` are those of an earlier run."""
        ...

    def previews(self, settings: SettingsT, /) -> Iterator[Task[Any]]:
        """Compile to Tasks whose prompts are looked at and never scored."""
        return self.tasks(settings)

    def totals(self, results: Sequence[TaskResult], /) -> Iterator[ResultRow]:  # noqa: ARG002 - for those who override
        """Give figures over several tasks."""
        return iter(())

    def searches(self, settings: SettingsT, /) -> bool:  # noqa: ARG002 - for those who override
        """Say whether it is put to search engines rather than to language models."""
        return False

    @property
    def has_corpus(self) -> bool:
        """Whether its tasks have passages that a search engine can find."""
        return False

    @property
    def models(self) -> Sequence[str]:
        """The models that it brings along, for a user who names none, as ``-m`` would name them."""
        return ()

    @property
    def judges(self) -> Sequence[str]:
        """The judges that it brings along, for a user who names none, as ``--judge`` would name them."""
        return ()


@runtime_checkable
class Scorer(Protocol):
    """What a metric is: it scores one answer against one reference, and sums up many.

    ``score`` gives a value for each name; ``reduce`` turns the values of one name into the reported figure, so the
    figure of a single sample is ``reduce(name, [value])``.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """The names that it reports."""
        ...

    @property
    def details(self) -> tuple[str, ...]:
        """Those of its names that break another one down; systems are not compared by them."""
        ...

    @property
    def token_budgeted(self) -> tuple[str, ...]:
        """Those of its names that spend a token budget, so that passages of different sizes compare fairly."""
        ...

    @property
    def grouped(self) -> bool:
        """Whether it wants all repeats of a sample at once, as a tuple."""
        ...

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The ends of its scale, which no interval leaves."""
        ...

    @property
    def higher_is_better(self) -> bool:
        """Whether the better of two systems has the higher figure."""
        ...

    def score(self, sample: Sample, answer: Any, /) -> Mapping[str, Value] | RequestGenerator:
        """Score one answer; a metric that asks a model returns a generator of requests."""
        ...

    def reduce(self, name: str, values: Sequence[Value], /) -> float:
        """Sum up the values of one name."""
        ...


class ExampleRetriever(Protocol):
    """Chooses the examples that go into the prompt."""

    @property
    def facts(self) -> dict[str, Any]:
        """What a run records of this choice, as plain JSON values."""
        ...

    def retrieve(self) -> list[list[int]]:
        """For each test row the numbers of the training rows to show, in order."""
        ...


@runtime_checkable
class TextChunker(Protocol):
    """Cuts documents into passages; ``str()`` gives the name under which results list it."""

    def cut(self, text: str, /) -> Sequence[Chunk]:
        """Cut a text into chunks, in order."""
        ...


# ---- who watches ----


class Watcher(Protocol):
    """Shows progress: it is told of every task before the task starts, and of every sample that is answered."""

    def begin(self, task: str, model: str, total: int | None, /) -> None:
        """A task starts."""
        return

    def answered(self, outcome: Outcome[Sample], /) -> None:
        """A sample is answered, or has failed."""
        return

    def note(self, text: str, /) -> None:
        """The user should know this."""
        return

    def step(self, label: str, done: int, total: int, /) -> None:
        """Work that comes before a task, such as building an index, has come this far."""
        return
