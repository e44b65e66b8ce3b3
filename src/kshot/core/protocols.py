"""The protocols between the parts of kshot: models, queues, sources, retrievers, chunkers, and work for processes.

A class need not inherit from these protocols. A plug-in may leave out members that have an obvious default:
``backends.adapters`` supplies those of models. Classes inherit from ``Source`` to get its defaults.
The protocol of metrics is in ``core.metric``, that of those who watch a run in ``core.watcher``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from kshot.core.corpus import Chunk, Corpus
from kshot.core.records import Request, Response, ResultRow
from kshot.core.watcher import PlannedTask

if TYPE_CHECKING:
    from kshot.core.budget import Tries
    from kshot.core.postponed import BatchQueue
    from kshot.core.task import Task, TaskResult

SettingsT = TypeVar("SettingsT", contravariant=True)  # noqa: PLC0105 - signatures read better without a suffix

# ---- models ----


class RequestQueue(Protocol):
    """Requests that wait for one backend. More may join while the backend works."""

    def take(self, at_most: int | None = None, /) -> list[Request]:
        """Remove and return the waiting requests: all of them, or at most this many. None may wait now."""
        ...

    def __iter__(self) -> Iterator[Request]:
        """Take requests one by one until none waits."""
        ...

    @property
    def more_expected(self) -> bool:
        """Whether more requests may come while the backend yields None: other roles are at work.

        If nothing waits and this is False, nothing more comes until the backend has answered what it took. It is False
        for a backend that does not work in the background: other roles wait while it computes.
        """
        ...

    def notify(self) -> None:
        """Wake the engine: a backend that works in the background has an answer. Any thread may call this."""
        ...


class Backend(Protocol):
    """What the engine drives. It takes requests from a queue and yields each with its response, in any order.

    The engine finds what was asked by the request's ticket, so a copy that went through another process will do.
    """

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
        """The types of request that it can answer."""
        ...

    def serve(self, queue: RequestQueue, /) -> Iterator[tuple[Request, Response] | None]:
        """Answer the waiting requests, and those that join while it works; the engine may close the iterator early."""
        ...


@runtime_checkable
class BackgroundBackend(Backend, Protocol):
    """A backend that can work in the background, as one behind a server does, while the engine serves other roles.

    Its ``serve`` yields None while no answer is ready, and ``queue.notify`` wakes the engine when one is.
    """

    @property
    def in_background(self) -> bool:
        """Whether it works in the background."""
        ...


@runtime_checkable
class RecordedBackend(Backend, Protocol):
    """A backend that can answer only the questions that it has recorded, by their ids."""

    def notes_on(self, topics: Sequence[str], /) -> Sequence[str]:
        """Refuse topics of which it has none; else return notes on those that it lacks, without its name."""
        ...


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a language model can do beyond answering requests. By default it can do nothing more."""

    chat_template: bool = False
    """Whether the model has a chat template of its own."""
    count_tokens: Callable[[str], int] | None = None
    """Returns the length of a text in the model's tokens."""
    best_ranking: Callable[[bool], str] | None = None
    """Returns the best ranking type for prompts that are chats, or not (its argument); None: it offers every one."""
    recording: Path | None = None
    """The file of recorded answers that the model replays."""
    server: bool = False
    """Whether the model is behind a server: a run then shows how many tokens it used."""
    tries: Tries | None = None
    """Counts the tries of a model behind a server, for ``--max-requests``."""
    cuts_prompts: bool = False
    """Whether the model cuts prompts that are too long from the left, as ``--truncate left`` asks."""
    media: frozenset[str] = frozenset()
    """What it reads beside text: ``image``, ``audio``, ``video``; ``url``: also by address, which it fetches."""
    batches: BatchQueue | None = None
    """Its requests are submitted in batches, and later calls collect the answers."""
    tokens_read: Callable[[], tuple[int, int]] | None = None
    """Returns the tokens of all requests so far, and those that it has read: fewer, if it reads shared ones once."""
    workers: int = 1
    """In how many processes it works; the engine keeps so many times as many samples alive."""
    activity: Callable[[], str] | None = None
    """Says in a line what its workers do now. Any thread may call this."""


@runtime_checkable
class LanguageModel(Backend, Protocol):
    """A language model, as ``-m hf:PATH`` names one."""

    @property
    def abilities(self) -> Abilities:
        """What it can do beyond answering requests."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """Notes for the user on how it worked, without its name; they are read after each run."""
        ...

    def close(self) -> None:
        """Release memory and connections; the code that opened the model calls this."""
        ...


ProgressCallback: TypeAlias = Callable[[str, int, int], None]
"""Receives the progress of long work: its label, the number of steps done, the number of all steps."""


class IndexStore(Protocol):
    """Stores index files between runs, under a name made of everything that they depend on."""

    @property
    def progress(self) -> ProgressCallback:
        """Receives the progress of an index."""
        ...

    def built(self, kind: str, key: Mapping[str, Any], build: Callable[[Path], None], /) -> Path:
        """Return the folder of an index; build the index first if it is not there."""
        ...

    def sharded(self, kind: str, key: Mapping[str, Any], index: ShardedIndex, /) -> Path:
        """Return the folder of an index; build it in shards if it is not there, or finish an interrupted build."""
        ...


@runtime_checkable
class SearchEngine(Protocol):
    """A search engine, as ``-m bm25`` names one. From its settings it can make an index over any corpus."""

    @property
    def name(self) -> str:
        """The name in tables and files."""
        ...

    @property
    def fingerprint(self) -> str:
        """A text that differs whenever the rankings may differ, apart from the corpus."""
        ...

    def over(self, corpus: Corpus, store: IndexStore, /) -> Backend:
        """Return the backend that searches this corpus; the backend opens the index at its first request."""
        ...

    def close(self) -> None:
        """Release memory; the code that opened the search engine calls this."""
        ...


Model: TypeAlias = LanguageModel | SearchEngine
"""Everything that ``-m`` can name."""

# ---- what is evaluated ----


class Source(Protocol[SettingsT]):
    """What a user names to be evaluated. Every front end implements this, and compiles it to Tasks."""

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
        """Compile to Tasks that are previewed and never scored."""
        return self.tasks(settings)

    def rehearsals(self, settings: SettingsT, /) -> Iterator[Task[Any]]:
        """Compile the tasks that a run tries out before it opens a model: all of them, unless that takes long."""
        return self.tasks(settings)

    def planned(self, settings: SettingsT, rehearsed: Sequence[PlannedTask], /) -> Sequence[PlannedTask] | None:  # noqa: ARG002 - for classes that override it
        """Return all tasks of a run, given those of its rehearsal; None if they cannot be told before it."""
        return rehearsed

    def data_names(self) -> Collection[str] | None:
        """Return the names that ``--data NAME=PLACE`` may have; None if it takes places without names."""
        return None

    def totals(self, results: Sequence[TaskResult], /) -> Iterator[ResultRow]:  # noqa: ARG002 - for classes that override it
        """Return figures over several tasks."""
        return iter(())

    def searches(self, settings: SettingsT, /) -> bool:  # noqa: ARG002 - for classes that override it
        """Return whether search engines are evaluated on it, rather than language models."""
        return False

    def packages(self, settings: SettingsT, /, *, scored: bool = True) -> Mapping[str, Sequence[str]]:  # noqa: ARG002 - for classes that override it
        """Return the packages of kshot's extras that it needs, by what needs them; no row is read for that.

        ``scored``: those of scoring too; a preview does without them.
        """
        return {}

    def default_model(self, settings: SettingsT, /) -> str | None:
        """Return the built-in model to evaluate if the user names none; None if there is none that makes sense."""
        return "fts5" if self.searches(settings) else None

    def check(self, settings: SettingsT, /) -> None:  # noqa: ARG002 - for classes that override it
        """Refuse settings that cannot mean anything for it, before a model is opened."""
        return

    def announcements(self) -> Sequence[str]:
        """Return what the user should see when it is run or previewed; the results do not depend on it."""
        return ()

    def close(self) -> None:
        """End what runs beside kshot for it, such as confined processes; what is needed again starts again."""
        return

    def with_seed(self, seed: int, /) -> Source[SettingsT]:  # noqa: ARG002 - for classes that override it
        """Return the source for one draw of examples: a retriever that it names itself may have a seed of its own."""
        return self

    @property
    def has_corpus(self) -> bool:
        """Whether its tasks have passages for a search engine."""
        return False

    @property
    def models(self) -> Sequence[str]:
        """The specs of the models to evaluate if the user names none."""
        return ()

    @property
    def model_names(self) -> Mapping[str, str]:
        """What the results call these models, by spec; one that is not among them gives itself a name."""
        return {}

    def wants_chat(self, model: Model, /) -> bool:  # noqa: ARG002 - for classes that override it
        """Whether a model gets messages unless the user says otherwise, because a config says what it is."""
        return False

    @property
    def without_logprobs(self) -> str:
        """What the user can do if a model gives no log-probabilities, and it asks for them."""
        return "Ask by generation instead: --ranking-type generation."

    @property
    def judges(self) -> Sequence[str]:
        """The specs of the judges to use if the user names none."""
        return ()


class ExampleRetriever(Protocol):
    """Chooses the examples that go into the prompt."""

    @property
    def facts(self) -> dict[str, Any]:
        """What a run records about the choice, as plain JSON values."""
        ...

    def retrieve(self) -> list[list[int]]:
        """Return, for each test row, the numbers of the training rows to show, in order."""
        ...


@runtime_checkable
class TextChunker(Protocol):
    """Cuts documents into passages; ``str()`` gives the name under which results list it."""

    def cut(self, text: str, /) -> Sequence[Chunk]:
        """Cut a text into chunks, in order."""
        ...


class Work(Protocol):
    """What an ``Executor`` does with each item. It is pickled where the executor has other processes."""

    def open(self) -> Callable[[Any], Any]:
        """Prepare for work in this process, once, and return what turns an item into its result."""
        ...


class Executor(Protocol):
    """Does pieces of work that need nothing of each other: one after the other, or in several processes."""

    def map(
        self, work: Work, numbers: Sequence[int], item: Callable[[int], Any], /
    ) -> Generator[tuple[int, Any], None, None]:
        """Yield each number with the result of its item, in any order; an item is made when a worker is free for it.

        Closing the generator ends what it has started.
        """
        ...


class ShardedIndex(Protocol):
    """An index that is built in shards, which need nothing of each other and are joined at the end."""

    @property
    def label(self) -> str:
        """What progress is shown under."""
        ...

    @property
    def work(self) -> Work:
        """Turns the item of a shard into its part: arrays of numpy, by name."""
        ...

    @property
    def shards(self) -> Sequence[range]:
        """The passages of each shard, by position; they must not depend on who does the work."""
        ...

    def item(self, shard: range, /) -> Any:
        """Return what the work needs of these passages."""
        ...

    def join(self, folder: Path, parts: Iterable[Mapping[str, Any]], /) -> None:
        """Write the index into an empty folder. The parts are in order, and may be read several times."""
        ...


class InlineExecutor:
    """Does one piece of work after the other, in this process."""

    def map(
        self, work: Work, numbers: Sequence[int], item: Callable[[int], Any], /
    ) -> Generator[tuple[int, Any], None, None]:
        """Yield each number with the result of its item, in order."""
        do = work.open()
        for number in numbers:
            yield number, do(item(number))
