"""Functions that are called in a confined process, because a call may never end or is not trusted.

The process starts when it is first needed, stays for many calls, and starts anew after a call that it did not survive.
Requests and answers are lines of JSON. While the process works on a request it may ask for something itself, which a
function of the caller gives or refuses.
"""

from __future__ import annotations

import json
import os
import queue
import select
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BufferedReader
from typing import TYPE_CHECKING, Any, Literal

from kshot.core.errors import DataError
from kshot.sandbox.process import FUNCTION, ConfinedProcess, ProcessOptions, Profile

if TYPE_CHECKING:
    from typing_extensions import Unpack  # of typing since Python 3.11; type checkers know it everywhere

WALL_SECONDS = 60.0
"""How long a request may take on a machine that is busy with other things; the process counts its processor time."""
_WORKER = "kshot.sandbox._function_worker"
_BATCH = 200
_START_HINT = "Free memory or processes of this machine, and run the command again: what is done is kept."
_MAX_ANSWER_BYTES = 64 << 20
_MAX_PARTS = 6_000_000
"""How many lists, objects and elements an answer may have: each takes far more memory than its bytes in JSON."""
_CHUNK_BYTES = 1 << 16
_MAX_LINES = 8
"""One answer is waited for at a time: a process that writes more lines is not heard any further."""
_MAX_WANTS = 20_000
_MAX_NAME_LETTERS, _MAX_MESSAGE_LETTERS, _MAX_LINE_NUMBER = 1000, 2000, 10**8
_SHOWN_LETTERS = 300
UNREADABLE = "the confined process gave an answer that cannot be read"


# ---- results ----


@dataclass(frozen=True, slots=True)
class TooSlow:
    """What stands for a result where there is none: the request ended the process, or must end it."""

    why: str
    kind: Literal["TooSlow", "MemoryError", "NoAnswer"] = "NoAnswer"
    """Whether it took too much time, or memory, or gave no answer that can be used."""
    limit: str = ""
    """How much of the processor's time or of memory it may take, where it took more."""
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        """Show the limit, or why there is no answer."""
        return f"it takes more than {self.limit}" if self.limit else self.why


@dataclass(frozen=True, slots=True)
class Refused:
    """What stands for a result where the code in the process raised an exception: its class and its message."""

    kind: str
    message: str
    file: str = ""
    line: int = 0
    """Where it was raised."""
    refused: bool = False
    """Whether the system refused something, or had none of it: a file, a process, the network."""
    missing: str = ""
    """The package that is not installed, if that is what the exception says."""

    @classmethod
    def of(cls, fault: Mapping[str, Any]) -> Refused:
        """Return what the process tells of an exception; nothing of it is trusted."""
        line = fault.get("line")
        return cls(
            kind=_text(fault.get("kind"))[:_MAX_NAME_LETTERS] or "Exception",
            message=_text(fault.get("message"))[:_MAX_MESSAGE_LETTERS],
            file=_text(fault.get("file"))[:_MAX_NAME_LETTERS],
            line=line if type(line) is int and 0 < line < _MAX_LINE_NUMBER else 0,
            refused=fault.get("refused") is True,
            missing=_text(fault.get("missing"))[:_MAX_NAME_LETTERS],
        )

    @property
    def shown(self) -> str:
        """The message, shortened."""
        return self.message[:_SHOWN_LETTERS]

    def __str__(self) -> str:
        """Show the class and the message."""
        return f"{self.kind}: {self.shown}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


# ---- one process ----


class RequestProcess:
    """A confined process that answers requests until it is ended.

    Each request has a number. Its answer repeats the number and has ``result``, or ``fault`` where an exception was
    raised, or ``wants``: it is then given what ``serve`` returns, and goes on. Nothing that it says is trusted.
    """

    def __init__(
        self,
        profile: Profile,
        worker: str,
        job: Mapping[str, Any],
        *,
        serve: Callable[[Any], Mapping[str, Any]] = lambda _: {"refused": "files"},
        **options: Unpack[ProcessOptions],
    ) -> None:
        """Start the process; ``serve`` gives it what it wants, the other arguments are those of ``ConfinedProcess``."""
        self._serve = serve
        self._process = ConfinedProcess(profile, worker, job, takes_requests=True, **options)
        self._answers: queue.Queue[bytes | None] = queue.Queue(_MAX_LINES)
        self._number = 0
        self.answer_bytes = 0
        """The size of the last answer."""
        threading.Thread(target=_listen, args=(self._process.stdout, self._answers), daemon=True).start()

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.alive

    def ask(self, request: Mapping[str, Any], seconds: float) -> Any:
        """Return the result of a request, or ``Refused``, or ``TooSlow``: then it should be ended."""
        self._number += 1
        until = time.monotonic() + seconds
        message: Mapping[str, Any] = {**request, "id": self._number}
        for _ in range(_MAX_WANTS):
            self._send(json.dumps(message).encode("ascii") + b"\n", until)
            answer = self._next_answer(until, seconds)
            if isinstance(answer, TooSlow):
                return answer
            if answer.get("id") != self._number:
                break
            if isinstance(answer.get("fault"), dict):
                return Refused.of(answer["fault"])
            if "result" in answer:
                return answer["result"]
            if "wants" not in answer:
                break
            message = self._serve(answer["wants"])
        else:
            return TooSlow(f"it asks for more than {_MAX_WANTS:,} files")
        return TooSlow(UNREADABLE)

    def _send(self, line: bytes, until: float) -> None:
        """Write a line; a process that does not read it may not hold the caller up."""
        pipe = self._process.stdin
        if pipe is None or not hasattr(select, "poll"):  # Windows
            self._process.send(line)
            return
        with suppress(OSError, ValueError):  # it has ended, which its output shows
            os.set_blocking(pipe.fileno(), False)
            ready = select.poll()
            ready.register(pipe.fileno(), select.POLLOUT)
            rest = memoryview(line)
            while rest and (left := until - time.monotonic()) > 0:
                if ready.poll(left * 1000):
                    with suppress(BlockingIOError):
                        rest = rest[os.write(pipe.fileno(), rest[:_CHUNK_BYTES]) :]

    def _next_answer(self, until: float, seconds: float) -> dict[str, Any] | TooSlow:
        try:
            line = self._answers.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            return TooSlow(f"it did not end within {seconds:g} s, the time that it may take", "TooSlow")
        if line is None:
            return TooSlow(f"its process ended before it was done ({self._process.ending()})")
        self.answer_bytes = len(line)
        if len(line) > _MAX_ANSWER_BYTES:
            return TooSlow(f"it gives more than {_MAX_ANSWER_BYTES >> 20} MB of data")
        if sum(map(line.count, (b"[", b"{", b","))) > _MAX_PARTS:
            return TooSlow(f"it gives more than {_MAX_PARTS:,} values")
        with suppress(ValueError, RecursionError):
            if isinstance(answer := json.loads(line), dict):
                return answer
        return TooSlow(UNREADABLE)

    def end(self) -> None:
        """Kill the process and remove its folder."""
        self._process.end()


def _listen(pipe: BufferedReader, answers: queue.Queue[bytes | None]) -> None:
    """Pass whole lines on, not too many and none too long, so that no memory fills; None follows the last."""
    buffer = bytearray()
    with pipe, suppress(queue.Full):
        while chunk := pipe.read1(_CHUNK_BYTES):
            searched = len(buffer)  # a long line is not searched again with every chunk
            buffer += chunk
            while (end := buffer.find(b"\n", searched)) >= 0:
                answers.put_nowait(bytes(buffer[:end]))
                del buffer[: end + 1]
                searched = 0
            if len(buffer) > _MAX_ANSWER_BYTES:
                answers.put_nowait(bytes(buffer))
                break
        answers.put_nowait(None)


# ---- a process that is kept ----


class KeptProcess:
    """One process for all threads; a request that it does not survive, or that takes too much, ends it."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._lock = threading.RLock()
        self._process: RequestProcess | None = None
        self.answered_bytes = 0
        """How much it has answered in all."""

    def _started(self) -> RequestProcess:
        raise NotImplementedError

    @property
    def alive(self) -> bool:
        """Whether there is a process that waits for requests."""
        return self._process is not None and self._process.alive

    def ask(self, request: Mapping[str, Any], seconds: float) -> Any:
        """Return the result of a request, or ``TooSlow`` or ``Refused``."""
        with self._lock:
            if not self.alive:
                self.close()
            process = self._process = self._process or self._started()
            answer = process.ask(request, seconds)
            if isinstance(answer, TooSlow):
                self.close()
            else:
                self.answered_bytes += process.answer_bytes
            return answer

    def close(self) -> None:
        """End the process; the next request starts another."""
        with self._lock:
            process, self._process = self._process, None
            if process is not None:
                process.end()


class NotConfinedError(DataError):
    """This system cannot confine the process of a function that is called in no other."""

    def __init__(self, work: str, lacking: str) -> None:
        """``work`` says what the process does; ``lacking``, what the system lacks."""
        what = f"this system cannot confine the process that {work}: it lacks {lacking}"
        super().__init__(what, hint="Use Linux 6.2 or later with seccomp and Landlock.")
        self.lacking = lacking


class ConfinedFunction(KeptProcess):
    """A function of kshot, by name: ``ConfinedFunction("module:function", seconds=2, …)(*args)``.

    Values are plain: what JSON has. A call returns the function's value, ``Refused`` where the function raises an
    exception, or ``TooSlow``. That the process cannot start is no fault of any call, and an error.
    """

    def __init__(
        self,
        function: str,
        *,
        seconds: float = 0,
        work: str,
        packages: Sequence[str] = (),
        profile: Profile = FUNCTION,
        setup: Callable[[], Mapping[str, Any]] = dict,
        confined: bool = True,
        hint: str = _START_HINT,
        **options: Unpack[ProcessOptions],
    ) -> None:
        """``seconds``: how much processor time a call may take; 0: as much as it wants.

        ``work`` says what the process does, for messages: "the process that WORK cannot start". ``packages``: those of
        kshot, beside the function's own, whose modules it imports. ``setup`` returns what ``prepare`` of the function's
        module is given before the process is confined. ``confined``: it is called in no process that the system cannot
        confine. The other arguments are those of ``ConfinedProcess``.
        """
        super().__init__()
        self.function, self.seconds, self.options = function, seconds, options
        self._work, self._setup, self._confined, self._hint = work, setup, confined, hint
        own = function.partition(":")[0].rpartition(".")[0]
        self._profile = replace(profile, packages=tuple(dict.fromkeys((*profile.packages, own, *packages))))

    def __call__(self, *args: Any, wall_seconds: float = WALL_SECONDS) -> Any:
        """Return the value of a call, ``TooSlow`` or ``Refused``; ``wall_seconds``: its time by the clock."""
        (result,) = self._asked([args], wall_seconds)
        return result

    def each(self, calls: Sequence[Sequence[Any]]) -> Iterator[Any]:
        """Yield the value of each of many calls, ``TooSlow`` or ``Refused``."""
        for start in range(0, len(calls), _BATCH):
            left = calls[start : start + _BATCH]
            together = len(left)
            while left:
                found = self._asked(left[:together], WALL_SECONDS)
                yield from found
                left = left[len(found) :]
                if not found:  # one of them was too much: which?
                    together = 1

    def _asked(self, calls: Sequence[Sequence[Any]], wall_seconds: float) -> list[Any]:
        """Return the results of the first calls; none where nobody knows which of several calls was too much."""
        with self._lock:
            answer = self.ask({"calls": calls, "seconds": self.seconds}, wall_seconds)
            if isinstance(answer, (TooSlow, Refused)):
                return [answer] if len(calls) == 1 else []
            right = isinstance(answer, list) and 0 < len(answer) <= len(calls)
            results = [self.result(entry) for entry in answer] if right else [TooSlow(UNREADABLE)]
            if any(isinstance(each, TooSlow) for each in results):
                self.close()
            return results

    def result(self, entry: Any) -> Any:
        """Return the value that an entry of an answer has, ``TooSlow`` or ``Refused``."""
        match entry:
            case {"value": value}:
                return value
            case {"fault": {"kind": "MemoryError"} as fault}:
                limit = f"{(self.options.get('limits') or self._profile.limits).memory_mb} MB"
                told = Refused.of(fault)
                why = f"it wants more memory than the {limit} that it may have"
                return TooSlow(why, "MemoryError", limit, told.file, told.line)
            case {"fault": dict(fault)}:
                return Refused.of(fault)
            case {"slow": True} if self.seconds:
                return TooSlow("it did not end within its time", "TooSlow", f"{self.seconds:g} s")
        return TooSlow(UNREADABLE)

    def _started(self) -> RequestProcess:
        job = {"function": self.function, "confined": self._confined, **self._setup()}
        try:
            process = RequestProcess(self._profile, _WORKER, job, **self.options)
            answer = process.ask({"calls": [], "seconds": 0}, WALL_SECONDS)
        except OSError as exc:
            raise DataError(f"the process that {self._work} cannot start: {exc}", hint=self._hint) from exc
        if isinstance(answer, Refused):
            process.end()
            raise NotConfinedError(self._work, answer.message)
        if isinstance(answer, TooSlow):
            process.end()
            raise DataError(f"the process that {self._work} cannot start: {answer.why}", hint=self._hint)
        return process
