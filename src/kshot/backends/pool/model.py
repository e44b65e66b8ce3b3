"""A model in a pool of workers: how it travels to them, what they do with it, and what the engine sees of it."""

from __future__ import annotations

import hashlib
import io
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from kshot.backends.adapters import renamed
from kshot.backends.making import open_model
from kshot.backends.pool.dispatcher import MAX_DEATHS, Dispatcher, Lost
from kshot.backends.pool.worker import OpenJob, WorkQueue
from kshot.core.errors import DataError, UsageError
from kshot.core.extras import note_versions, versions
from kshot.core.protocols import Abilities, LanguageModel, Model, RequestQueue
from kshot.core.records import Failed, Loglik, Request, Response, Search, with_ticket
from kshot.core.registry import load_plugin_file, module_name
from kshot.core.specs import option_text, parse_spec, split_options
from kshot.core.validation import responses_of
from kshot.core.work_folders import cache_folder

# ---- what goes to the workers with a model: the files of plug-ins, and objects that were made in Python ----

_MAX_BYTES = 16 << 20
"""Plug-ins are text: more than this beside one is not sent."""
_FILE_OPTIONS = {"chat_template": "", "device_map": ".json"}
"""The options of language models that may name a file, and how its name ends; a device map may be a word, too."""


@dataclass(frozen=True, slots=True)
class TravellingFiles:
    """Files by their names: a worker on another machine gets copies, one on this machine uses the same files.

    A plug-in comes with the Python files beside it, which it may import.
    """

    contents: Mapping[str, bytes] = field(default_factory=dict)
    named: Mapping[str, str] = field(default_factory=dict)
    """The path of each file that a spec or an option names → its name among the contents."""

    @classmethod
    def of(cls, spec: str, options: Mapping[str, Any]) -> TravellingFiles:
        """Read the files that a spec and its options name."""
        found = parse_spec(spec)
        chosen = (_file(name, found.options.get(name) or options.get(name)) for name in _FILE_OPTIONS)
        given = [file for file in (found.file, *chosen) if file is not None]
        named = {str(file): file.name for file in given if file.is_file()}
        beside = [] if found.file is None else sorted(found.file.resolve().parent.glob("*.py"))
        contents = {file.name: file.read_bytes() for file in (*beside, *given) if file.is_file()}
        if sum(map(len, contents.values())) > _MAX_BYTES:
            what = f"the Python files beside it have more than {_MAX_BYTES >> 20} MB"
            raise DataError(what, where=str(found.file), hint="Put it into a folder of its own.")
        return cls(contents, named)

    def placed(self, spec: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the spec and the options with paths that exist on this machine; the files are written if need be."""
        head, given = split_options(spec)
        found, changed = parse_spec(head), dict(options)
        if found.file is not None:
            argument = f":{found.argument}" if found.argument else ""
            head = f"{self._place(found.file)}{argument}"
        for chosen in (given, changed):
            for name in _FILE_OPTIONS:
                if (file := _file(name, chosen.get(name))) is not None:
                    chosen[name] = str(self._place(file))
        return head + option_text(given), changed

    def _place(self, path: Path) -> Path:
        """Return a path with the content that the file had where it came from."""
        own = self.named.get(str(path))
        content = None if own is None else self.contents[own]
        if content is None or (path.is_file() and path.read_bytes() == content):
            return path
        digest = hashlib.blake2b(repr(sorted(self.contents.items())).encode(), digest_size=12).hexdigest()
        folder = cache_folder() / "plugins" / digest  # not a temporary folder, in which others could put code
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name, body in self.contents.items():
                _write_whole(folder / name, body)
        except OSError as exc:
            raise DataError(f"the cache cannot be written: {exc}", where=str(folder), hint="Set KSHOT_CACHE.") from exc
        return folder / path.name


def _file(option: str, value: Any) -> Path | None:
    """Return the file that the value of an option names, if it is one."""
    named = isinstance(value, (str, Path)) and str(value) and str(value).endswith(_FILE_OPTIONS[option])
    return Path(value) if named else None


def _write_whole(file: Path, body: bytes) -> None:
    """Write a file so that other workers of the machine, which write the same, never see a part of it."""
    with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as draft:
        draft.write(body)
    Path(draft.name).replace(file)


@dataclass(frozen=True, slots=True)
class PackedObject:
    """A pickled object, and the plug-in files whose classes and functions it refers to."""

    body: bytes
    plugins: Mapping[str, str]
    """Module name → file."""

    @classmethod
    def of(cls, model: Model) -> PackedObject:
        """Pickle a model; one that cannot be found again in another process is refused."""
        buffer = io.BytesIO()
        pickler = _NotingPickler(buffer)
        try:
            pickler.dump(model)
        except Exception as exc:
            if isinstance(exc, UsageError):
                raise
            what = f"it cannot be sent to worker processes ({type(exc).__name__}: {exc})"
            raise UsageError(what, where=model.name, hint=_HINT) from exc
        return cls(buffer.getvalue(), pickler.plugins)

    def unpacked(self) -> Any:
        """Make the object again."""
        for name, file in self.plugins.items():
            if module_name(Path(file)) == name:
                load_plugin_file(Path(file))
        return pickle.loads(self.body)  # noqa: S301 - from the process that started this one


_HINT = "Put it into a file, and name it by its place: file.py:NAME."


class _NotingPickler(pickle.Pickler):
    """Notes the plug-in files that an object refers to, and refuses what only the main script has."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.plugins: dict[str, str] = {}

    def reducer_override(self, value: Any) -> Any:
        module = getattr(value, "__module__", None) if callable(value) else None
        if module == "__main__":
            what = f"{getattr(value, '__qualname__', value)!r} is part of the main script, which workers do not run"
            raise UsageError(what, hint=_HINT)
        file = getattr(sys.modules.get(module or ""), "__file__", None)
        if module and file and module_name(Path(file)) == module:
            self.plugins[module] = str(file)
        return NotImplemented


# ---- the model as the job of workers ----

VERSIONS = "versions"
"""The call that returns the versions of the packages that a worker uses."""
_BACKGROUND_SECONDS = 0.5
"""How long a worker waits for a model that works in the background before it asks again."""


_CALLS = ("count_tokens", "best_ranking")
"""The abilities that are asked in a worker."""
_TOKENS_READ = "tokens_read"
"""The ability that workers report together with their results."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a model says of itself; ``calls`` are the functions among its abilities, which do not travel."""

    name: str
    fingerprint: str
    answers: tuple[type, ...]
    abilities: Abilities
    calls: frozenset[str]


@dataclass(frozen=True, slots=True)
class ModelReport:
    """What a model says of its work: the tokens of all requests and those that it has read, and notes."""

    tokens: tuple[int, int] | None
    notes: tuple[str, ...]
    versions: Mapping[str, str]
    """Of the packages that its process uses."""


def open_spec(spec: str, options: Mapping[str, Any], files: TravellingFiles) -> OpenModel:
    """Open the model that a spec names in this process, under the name that the spec gives it elsewhere.

    ``files`` are those that it needs.
    """
    placed_spec, placed_options = files.placed(spec, options)
    model = open_model(placed_spec, placed_options)
    placed, written = split_options(placed_spec)[0], split_options(spec)[0]
    if placed != written and model.name.startswith(placed):  # a function is named by its place
        model = renamed(model, written + model.name.removeprefix(placed))
    return OpenModel(model)


def open_object(packed: PackedObject) -> OpenModel:
    """Make a model again in this process that was made in Python."""
    return OpenModel(packed.unpacked())


def check_poolable(model: Model) -> LanguageModel:
    """Refuse a model for which workers make no sense."""
    if not isinstance(model, LanguageModel):
        raise UsageError("it is a search engine, and --workers is for language models", where=model.name, hint=_LEAVE)
    check_computes(model.name, server=model.abilities.server, recording=model.abilities.recording is not None)
    return model


_LEAVE = "Leave --workers out."


def check_computes(where: str, *, server: bool, recording: bool) -> None:
    """Refuse a model behind a server, and recorded answers."""
    if server:
        what = "it is behind a server, and --workers is for models that run in this process"
        raise UsageError(what, where=where, hint="Use --max-concurrency.")
    if recording:
        raise UsageError("it computes nothing, and --workers is for models that do", where=where, hint=_LEAVE)


class OpenModel(OpenJob):
    """A model that is open in a worker."""

    def __init__(self, model: Model) -> None:
        self._model = model = check_poolable(model)
        own = model.abilities
        abilities = Abilities(chat_template=own.chat_template, cuts_prompts=own.cuts_prompts, media=own.media)
        calls = frozenset(name for name in (*_CALLS, _TOKENS_READ) if getattr(own, name) is not None)
        self.facts = ModelFacts(model.name, model.fingerprint, model.answers, abilities, calls)

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
        calls: dict[str, Any] = {name: partial(self._dispatcher.call, name) for name in self._facts.calls}
        if _TOKENS_READ in calls:
            calls[_TOKENS_READ] = self._tokens_read
        workers = min(len(self._dispatcher.workers), _MAX_COUNTED_WORKERS)
        return replace(self._facts.abilities, workers=workers, activity=self._activity, **calls)

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
        pairs = [report.tokens for report in self._dispatcher.reports() if report.tokens is not None]
        return sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)

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
