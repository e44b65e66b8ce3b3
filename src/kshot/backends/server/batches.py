"""``--batch-api``: requests are submitted in batches, and a later call of the same command collects the answers.

The run folder notes each batch before it is submitted, and its id after. A process that is killed in between finds the
batch again by a mark that the server keeps: nothing is lost, and nothing is paid twice.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kshot.backends.server.batch_apis import BatchApi, BatchHttp, BatchLine, BatchResult, BatchStatus, checked_id
from kshot.backends.server.connection import Body, MalformedReplyError
from kshot.backends.server.http_errors import (
    NOT_FOUND,
    HttpReply,
    HttpStatusError,
    RequestFailedError,
    RetryableError,
    error_from,
    shortened,
)
from kshot.backends.server.parameter_changes import ParameterChanges
from kshot.core.budget import Tries
from kshot.core.errors import BackendError, RunError
from kshot.core.postponed import BatchStore, Postponed
from kshot.core.protocols import RequestQueue
from kshot.core.records import Failed, Generated, Request, Response, Usage
from kshot.core.serialization import digest, key

_MOST_TRIES = 5
"""A request that a server has failed to process so often is a failed one."""
_MARK_CHARACTERS = 12
_OK = 200
_NO_SUCH_PATH = (NOT_FOUND, 405, 501)


class ServerCall(NamedTuple):
    """How one request is put to a server: where, how its body is made and the reply is read, and how large both may be.

    ``body`` makes the body with the changes that the server has asked for; ``tokens`` is an estimate.
    """

    path: str
    body: Callable[[ParameterChanges], Body]
    read: Callable[[Any], Generated]
    tokens: float


class BatchedModel(NamedTuple):
    """What the batches need of their model.

    ``adapt`` changes how requests are written, if the server refuses a parameter; ``changes`` are those so far.
    """

    fingerprint: str
    call: Callable[[Request], ServerCall]
    adapt: Callable[[Body, HttpReply], bool]
    changes: ParameterChanges
    inspect: Callable[[Any], Usage | None]
    tries: Tries
    redacted: Callable[[Response], Response]


@dataclass(slots=True)
class _Batch:
    """A batch of this model: its mark, its id (None: it was noted, and perhaps never submitted), and its requests.

    ``keys`` are those of its lines, in their order; one is empty when nothing more is expected of its line.
    ``guessed``: the id was found, not told, so that it may be the batch of another run.
    """

    mark: str
    noted: float
    keys: list[str]
    id: str | None = None
    guessed: bool = False
    collected: bool = False
    stopped: bool = False
    """Whether an error in its results has stopped a call."""
    ended: bool = field(default=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        kept = {name: getattr(self, name) for name in ("mark", "noted", "id", "guessed", "collected", "stopped")}
        return {**kept, "keys": [] if self.collected else self.keys}


def _new_batch() -> _Batch:
    return _Batch(uuid.uuid4().hex[:_MARK_CHARACTERS], 0.0, [])


class Batches:
    """The batches of one model. It is the backend that serves its requests, and the ``BatchQueue`` of the run."""

    def __init__(self, model: BatchedModel, api: BatchApi, http: BatchHttp) -> None:
        """Take the model, the API of its provider, and the connection."""
        self._model, self._api, self._http = model, api, http
        self._store: BatchStore | None = None
        self._label = ""
        self._batches: list[_Batch] = []
        self._tries: dict[str, int] = {}
        self._failed_once: set[str] = set()
        """Requests that this call submits once more because the server has failed to process them."""
        self._failed: dict[str, Failed] = {}
        self._results: dict[str, BatchResult] = {}
        self._under_way: set[str] = set()
        self._open: dict[str, Request] = {}

    @property
    def waiting(self) -> int:
        """How many requests are in batches that have not ended."""
        return len(self._under_way)

    # ---- collecting ----

    def open(self, store: BatchStore, role: str) -> Mapping[str, Failed]:
        """Read the state, ask how far each batch is, and fetch the results of those that have ended."""
        self._store, self._label = store, f"{role} {self._model.fingerprint}"
        self._read_state(store.read())
        for batch in [each for each in self._batches if not each.collected]:
            if batch.id is None and (found := self._find(batch)) is not None:
                batch.id, batch.guessed = found, True
                self._write()
            batch.keys = ["" if store.is_answered(each) else each for each in batch.keys]
            if batch.id is None or not self._collect(batch, batch.id):
                self._batches.remove(batch)  # it was never submitted, or it is another one
        return self._failed

    def _find(self, batch: _Batch) -> str | None:
        known = frozenset(each.id for each in self._batches if each.id is not None)
        return self._api.find(self._http, batch.mark, len(batch.keys), batch.noted, known)

    def _collect(self, batch: _Batch, identifier: str) -> bool:
        """Fetch what a batch has brought; return False if it turns out to be the batch of somebody else."""
        wanted = set(filter(None, batch.keys))
        if not wanted:
            batch.ended = True
            return True
        try:
            status = self._api.status(self._http, identifier)
            results = list(self._api.results(self._http, status)) if status.ended else []
        except HttpStatusError as exc:
            if exc.status != NOT_FOUND:
                raise
            what = f"the server does not know batch {identifier}, or its results (any more)"
            hint = "Check --base-url and the key. If you delete batches.json in the run folder, it is submitted again."
            raise BackendError(what, where=self._http.address.where, hint=hint) from None
        if not status.ended:
            self._under_way.update(wanted)
            return True
        if status.files and not results:
            hint = (
                "The same command reads it again. If you delete batches.json in the run folder, it is submitted again."
            )
            what = f"batch {identifier} has ended, and its file holds no results"
            raise BackendError(what, where=self._http.address.where, hint=hint)
        ending = f"-{batch.mark}"
        best_last = sorted(results, key=lambda each: each.status == _OK)  # an answer after what else has its id
        own = {each.id.removesuffix(ending): each for each in best_last if each.id.endswith(ending)}
        if batch.guessed and results and not own:
            return False
        batch.ended = True
        missing = {each: BatchResult(each, None, {"message": "its line is missing"}) for each in wanted}
        found = self._refused(batch, status) if status.refused else missing
        self._results |= {each: result for each, result in (found | own).items() if each in wanted}
        return True

    def _refused(self, batch: _Batch, status: BatchStatus) -> dict[str, BatchResult]:
        """Return the results of a batch that a server did not take: of the lines that it names, or else of all."""
        code = None if status.later else 400
        lines = {
            batch.keys[number - 1]: why
            for number, why in status.refused.items()
            if number is not None and 1 <= number <= len(batch.keys)
        }
        lines = lines or dict.fromkeys(batch.keys, next(iter(status.refused.values())))
        return {each: BatchResult(each, code, {"error": {"message": why}}) for each, why in lines.items()}

    def serve(self, queue: RequestQueue, /) -> Iterator[tuple[Request, Response] | None]:
        """Give the answers that were collected; everything else is postponed."""
        while taken := queue.take():
            for request in taken:
                yield request, self._answer(request)

    def _answer(self, request: Request) -> Response:
        mark = key(self._model.fingerprint, digest(request))
        result = self._results.pop(mark, None)
        response = None if result is None else self._response(mark, request, result)
        if result is not None and response is not None:
            usage = self._model.inspect(result.body) if result.status == _OK else None
            self._model.tries.sent(1)
            self._model.tries.ended(usage, "failed" if isinstance(response, Failed) else "answered")
            if isinstance(response, Failed):
                self._failed[mark] = response
            return self._model.redacted(response)
        if mark not in self._under_way:
            self._open[mark] = request
        return Postponed()

    def _response(self, mark: str, request: Request, result: BatchResult) -> Response | None:
        """Return the response that a result holds; None if the request is to be submitted again."""
        if isinstance(result.body, Failed):
            return result.body
        call = self._model.call(request)
        if result.status == _OK:
            return self._read(mark, call, result.body)
        reply = HttpReply(result.status or 0, result.body, {})
        if result.status is None:
            return self._again(mark, f"the batch ended without it: {reply.error.message or 'no result'}")
        if self._model.adapt(call.body(ParameterChanges()), reply):
            return None
        address = self._http.address
        error = error_from(reply, where=address.where, key_hint=address.account.hint, answered=True)
        if isinstance(error, HttpStatusError):
            self._stop_once(result, error)
        return error.failed if isinstance(error, RequestFailedError) else self._again(mark, str(error))

    def _read(self, mark: str, call: ServerCall, body: Any) -> Response | None:
        self._model.inspect(body)
        try:
            return call.read(body)
        except RequestFailedError as exc:
            return exc.failed
        except (MalformedReplyError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as exc:
            return self._again(mark, f"the server's reply cannot be read: {shortened(repr(exc))}")

    def _stop_once(self, result: BatchResult, error: HttpStatusError) -> None:
        """Stop the run by an error that the user can mend, such as a refused key; the next call submits again."""
        batch = next((each for each in self._batches if result.id.endswith(f"-{each.mark}")), None)
        if batch is not None and not batch.stopped:
            batch.stopped = True
            self._write()
            error.hint = f"{error.hint} The same command submits it again."
            raise error

    def _again(self, mark: str, why: str) -> Failed | None:
        if self._tries.get(mark, 0) + 1 < _MOST_TRIES:
            self._failed_once.add(mark)
            return None
        return Failed("batch", f"{why}; it was submitted {_MOST_TRIES} times", retryable=True)

    # ---- submitting ----

    def submit(self) -> None:
        """Submit the postponed requests that are in no batch, in as many batches as the API needs."""
        for batch in self._batches:
            if batch.ended:
                batch.keys = [each if each in self._results else "" for each in batch.keys]
                batch.collected = not any(batch.keys)
        self._write()
        for batch, path, lines in self._chunks():
            self._submit(batch, path, lines)

    def done(self) -> None:
        """Forget which requests failed: the run is complete, and the next call asks for them again."""
        self._failed, self._tries = {}, {}
        self._write()

    def _chunks(self) -> Iterator[tuple[_Batch, str, list[bytes]]]:
        """Yield the open requests as batches, with path and lines: by path, and within the limits of the API."""
        filling: dict[str, tuple[_Batch, list[bytes]]] = {}
        sizes: Counter[str] = Counter()
        while self._open:
            asked = next(iter(self._open))
            call = self._model.call(self._open.pop(asked))  # which makes room for its line
            path, body = call.path, call.body(ParameterChanges())
            batch, lines = filling.setdefault(path, (_new_batch(), []))
            line = self._api.encoded(BatchLine(f"{asked}-{batch.mark}", path, body))
            size = len(line) + 1  # and what stands between two lines
            full = len(lines) >= self._api.most_requests or sizes[path] + size > self._api.most_bytes
            if lines and full:
                yield batch, path, lines
                batch, lines = filling[path] = _new_batch(), []
                line = self._api.encoded(BatchLine(f"{asked}-{batch.mark}", path, body))
                sizes[path] = 0
            batch.keys.append(asked)
            lines.append(line)
            sizes[path] += size
        for path, (batch, lines) in filling.items():
            yield batch, path, lines

    def _submit(self, batch: _Batch, path: str, lines: Sequence[bytes]) -> None:
        batch.noted = time.time()
        self._batches.append(batch)
        self._tries |= {each: self._tries.get(each, 0) + 1 for each in batch.keys if each in self._failed_once}
        self._write()  # before it is sent
        batch.id = self._created(path, lines, batch)
        self._write()
        self._under_way.update(batch.keys)

    def _created(self, path: str, lines: Sequence[bytes], batch: _Batch) -> str:
        where = self._http.address.where
        try:
            return self._api.create(self._http, path, lines, batch.mark)
        except (RequestFailedError, HttpStatusError) as exc:
            self._batches.remove(batch)
            self._write()
            if exc.status in _NO_SUCH_PATH:
                hint = "Leave --batch-api out, or check --base-url."
                raise BackendError(
                    f"this server has no batch API: it says {exc.status}", where=where, hint=hint
                ) from None
            if isinstance(exc, HttpStatusError):
                raise
            raise BackendError(f"the batch is refused: {exc.failed.message}", where=where) from None
        except RetryableError as exc:  # it may have arrived
            if (found := self._find(batch)) is not None:
                batch.guessed = True
                return found
            hint = "The same command looks whether it was submitted, and goes on from there."
            raise BackendError(f"the server did not confirm the batch: {exc}", where=where, hint=hint) from None

    # ---- the state ----

    def _read_state(self, state: Mapping[str, Any]) -> None:
        """Take what belongs to this model. The file may come from anybody."""
        try:
            own = state.get(self._label)
            own = own if isinstance(own, dict) else {}
            for each in own.get("batches") or ():
                keys, noted = each.get("keys"), each.get("noted")
                if isinstance(keys, list) and isinstance(each.get("mark"), str) and isinstance(noted, (int, float)):
                    batch = _Batch(each["mark"], noted, list(map(str, keys)))
                    batch.id, batch.guessed = checked_id(each.get("id")), bool(each.get("guessed", True))
                    batch.collected = bool(each.get("collected"))
                    batch.stopped = bool(each.get("stopped"))
                    self._batches.append(batch)
            self._tries = {str(mark): n for mark, n in (own.get("tries") or {}).items() if type(n) is int}
            failed = own.get("failed") or {}
            self._failed = {str(mark): Failed(str(kind), str(message)) for mark, (kind, message) in failed.items()}
            self._model.changes.add_recorded(own.get("changes") or {})
        except (AttributeError, TypeError, ValueError) as exc:
            raise RunError("kshot did not write this batches.json", hint="Delete it, or the run folder.") from exc

    def _write(self) -> None:
        if self._store is None:
            return
        own = {
            "batches": [each.to_json() for each in self._batches],
            "tries": self._tries,
            "failed": {mark: [each.kind, each.message] for mark, each in self._failed.items()},
            "changes": self._model.changes.to_json(),
        }
        self._store.write({**self._store.read(), self._label: own})
