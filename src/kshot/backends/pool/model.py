"""A model in a pool of workers: to the engine it is the model itself, and works in the background."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

from kshot.backends.pool.dispatcher import MAX_DEATHS, Dispatcher, Lost
from kshot.backends.pool.model_job import VERSIONS, ModelFacts, summed
from kshot.core.package_versions import note_versions
from kshot.core.protocols import Abilities, RequestQueue
from kshot.core.records import Failed, Loglik, Request, Response, Search

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
        note_versions(dispatcher.call(VERSIONS))

    @property
    def name(self) -> str:
        """The name of the model inside."""
        return self._facts.name

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the model inside: its answers are the same."""
        return self._facts.fingerprint

    @property
    def answers(self) -> tuple[type, ...]:
        """What the model inside answers."""
        return self._facts.answers

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
