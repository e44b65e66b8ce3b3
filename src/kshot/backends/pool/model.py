"""A model in a pool of workers: how it travels to them, what they do with it, and what the engine sees of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from kshot.backends.adapters import renamed
from kshot.backends.making import open_model
from kshot.backends.pool.contract import WorkQueue
from kshot.backends.pool.dispatcher import MAX_DEATHS, Dispatcher, Lost
from kshot.backends.pool.travelling import PackedObject, TravellingFiles
from kshot.core.errors import UsageError
from kshot.core.extras import note_versions, versions
from kshot.core.protocols import Abilities, LanguageModel, Model, RequestQueue
from kshot.core.records import Failed, Loglik, Request, Response, Search, with_ticket
from kshot.core.specs import split_options
from kshot.core.validation import responses_of

# ---- the model as the job of workers ----

VERSIONS = "versions"
"""The call that returns the versions of the packages that a worker uses."""
_BACKGROUND_SECONDS = 0.5
"""How long a worker waits for a model that works in the background before it asks again."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a model says of itself; ``calls`` are the abilities that are asked in a worker."""

    name: str
    fingerprint: str
    answers: tuple[type, ...]
    chat_template: bool
    cuts_prompts: bool
    media: frozenset[str]
    calls: frozenset[str]
    counts_tokens_read: bool


@dataclass(frozen=True, slots=True)
class ModelReport:
    """What a model says of its work: the tokens of all requests and those that it has read, and notes."""

    tokens: tuple[int, int] | None
    notes: tuple[str, ...]
    versions: Mapping[str, str]
    """Of the packages that its process uses."""


@dataclass(frozen=True, slots=True)
class SpecJob:
    """The model that a spec names, opened with options; ``files`` are those that it needs."""

    spec: str
    options: Mapping[str, Any]
    files: TravellingFiles

    def open(self) -> OpenModel:
        """Open the model in this process, under the name that the spec gives it elsewhere."""
        spec, options = self.files.placed(self.spec, self.options)
        model = open_model(spec, options)
        placed, written = split_options(spec)[0], split_options(self.spec)[0]
        if placed != written and model.name.startswith(placed):  # a function is named by its place
            model = renamed(model, written + model.name.removeprefix(placed))
        return OpenModel(model)


@dataclass(frozen=True, slots=True)
class ObjectJob:
    """A model that was made in Python."""

    packed: PackedObject

    def open(self) -> OpenModel:
        """Make the model again in this process."""
        return OpenModel(self.packed.unpacked())


def check_poolable(model: Model) -> LanguageModel:
    """Refuse a model for which workers make no sense."""
    if not isinstance(model, LanguageModel):
        raise UsageError("it is a search engine, and --workers is for language models", where=model.name, hint=_LEAVE)
    if model.abilities.server:
        raise refused_server(model.name)
    if model.abilities.recording is not None:
        raise refused_recording(model.name)
    return model


_LEAVE = "Leave --workers out."


def refused_server(where: str) -> UsageError:
    """Return the error for a model behind a server."""
    what = "it is behind a server, and --workers is for models that run in this process"
    return UsageError(what, where=where, hint="Use --max-concurrency.")


def refused_recording(where: str) -> UsageError:
    """Return the error for recorded answers."""
    return UsageError("it computes nothing, and --workers is for models that do", where=where, hint=_LEAVE)


class OpenModel:
    """A model that is open in a worker."""

    def __init__(self, model: Model) -> None:
        self._model = check_poolable(model)

    @property
    def facts(self) -> ModelFacts:
        """Name, fingerprint and abilities."""
        model, abilities = self._model, self._model.abilities
        calls = {"count_tokens": abilities.count_tokens, "best_ranking": abilities.best_ranking}
        return ModelFacts(
            model.name,
            model.fingerprint,
            model.answers,
            abilities.chat_template,
            abilities.cuts_prompts,
            abilities.media,
            frozenset(name for name, function in calls.items() if function is not None),
            abilities.tokens_read is not None,
        )

    def work(self, queue: WorkQueue, /) -> Iterator[tuple[int, Response]]:
        """Answer requests; a model that works in the background is waited for."""
        for pair in responses_of(self._model, _NumberedRequests(queue)):
            if pair is None:
                queue.wait(_BACKGROUND_SECONDS)
            else:
                yield pair[0].ticket, pair[1]

    def call(self, name: str, *arguments: Any) -> Any:
        """Ask an ability, or for ``VERSIONS``."""
        if name == VERSIONS:
            return versions()
        function: Callable[..., Any] = getattr(self._model.abilities, name)
        return function(*arguments)

    def report(self) -> ModelReport:
        """Return the tokens that were read, notes, and versions."""
        count = self._model.abilities.tokens_read
        return ModelReport(None if count is None else count(), tuple(self._model.notes), versions())

    def close(self) -> None:
        """Close the model."""
        self._model.close()


class _NumberedRequests:
    """The items of a worker as the queue of a model: a request's ticket is the number of its item."""

    more_expected = False

    def __init__(self, queue: WorkQueue) -> None:
        self._queue = queue

    def take(self, at_most: int | None = None, /) -> list[Request]:
        return [with_ticket(request, number) for number, request in self._queue.take(at_most)]

    def __iter__(self) -> Iterator[Request]:
        while taken := self.take(1):
            yield taken[0]

    def notify(self) -> None:
        self._queue.wake()


def summed(reports: Sequence[ModelReport]) -> tuple[int, int]:
    """Return the tokens of all requests, and those that were read, in all workers."""
    pairs = [report.tokens for report in reports if report.tokens is not None]
    return sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)


# ---- the pool as a model: it works in the background ----

_TAKEN_ITEMS = 64
"""Requests taken from the queue at once, for each worker: to take them renders their prompts."""
_MAX_WAITING_ITEMS = 512
"""No more are taken if so many wait for each worker."""
_MAX_COUNTED_WORKERS = 16


class PooledModel:
    """A language model that runs in the workers of a dispatcher."""

    in_background = True

    def __init__(self, dispatcher: Dispatcher) -> None:
        """Wait until a worker has opened the model."""
        self._dispatcher = dispatcher
        self._facts: ModelFacts = dispatcher.facts()
        # Those of the model inside: the answers are the same.
        self.name, self.fingerprint, self.answers = self._facts.name, self._facts.fingerprint, self._facts.answers
        note_versions(dispatcher.call(VERSIONS))

    @property
    def abilities(self) -> Abilities:
        """Those of the model inside, which a worker is asked for."""
        facts = self._facts
        calls: dict[str, Any] = {name: partial(self._dispatcher.call, name) for name in facts.calls}
        return Abilities(
            chat_template=facts.chat_template,
            cuts_prompts=facts.cuts_prompts,
            media=facts.media,
            tokens_read=self._tokens_read if facts.counts_tokens_read else None,
            workers=min(len(self._dispatcher.workers), _MAX_COUNTED_WORKERS),
            activity=self._activity,
            **calls,
        )

    @property
    def notes(self) -> list[str]:
        """The notes of all workers, each once."""
        return list(dict.fromkeys(note for report in self._dispatcher.reports() for note in report.notes))

    def close(self) -> None:
        """End the workers."""
        for report in self._dispatcher.reports():
            note_versions(report.versions)
        self._dispatcher.close()

    def serve(self, queue: RequestQueue, /) -> Iterator[tuple[Request, Response] | None]:
        """Hand requests to the workers, and yield their answers as they come."""
        dispatcher = self._dispatcher
        dispatcher.notify = queue.notify
        portion = _TAKEN_ITEMS * min(len(dispatcher.workers), _MAX_COUNTED_WORKERS)
        try:
            while True:
                taken = 0
                if dispatcher.waiting < _MAX_WAITING_ITEMS * len(dispatcher.workers):
                    for request in (requests := queue.take(portion)):
                        dispatcher.add(request, _beginning(request))
                    taken = len(requests)
                answered = False
                for request, result in dispatcher.step():
                    answered = True
                    yield request, _response(result)
                if answered or taken:
                    continue
                if not dispatcher.unanswered and not queue.more_expected:
                    return
                yield None
        finally:
            dispatcher.cancel()

    def _tokens_read(self) -> tuple[int, int]:
        return summed(self._dispatcher.reports())

    def _activity(self) -> str:
        """Say what the workers do, equal words together."""
        words = [worker.activity() for worker in self._dispatcher.workers]
        counted = {word: words.count(word) for word in words}
        parts = [f"{count} × {word}" if count > 1 else word for word, count in islice(counted.items(), 8)]
        died = f", {self._dispatcher.deaths} died" if self._dispatcher.deaths else ""
        return f"{len(words)} workers: {', '.join(parts)}{', …' if len(counted) > 8 else ''}{died}"  # noqa: PLR2004


def _beginning(request: Request) -> str:
    """Return the text that decides which worker gets a request."""
    if isinstance(request, Search):
        return request.query
    first = request.continuations[:1] if isinstance(request, Loglik) else ()
    return "".join((request.prompt.text, *first))


def _response(result: Response | Lost) -> Response:
    if not isinstance(result, Lost):
        return result
    what = f"{MAX_DEATHS} workers died while they had this request; the last one: {result.reason}"
    return Failed("worker_died", what, retryable=True)
