"""Functions that are called in a confined process, because a call may never end or is not trusted.

The process starts when it is first needed, stays for many calls, and starts anew after a call that it did not survive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kshot.core.errors import DataError
from kshot.sandbox.process import ProcessOptions
from kshot.sandbox.profiles import FUNCTION, Profile
from kshot.sandbox.request_process import UNREADABLE, Refused, RequestProcess, TooSlow

if TYPE_CHECKING:
    from typing_extensions import Unpack  # of typing since Python 3.11; type checkers know it everywhere

WALL_SECONDS = 60.0
"""How long a request may take on a machine that is busy with other things; the process counts its processor time."""
_WORKER = "kshot.sandbox._function_worker"
_BATCH = 200
_START_HINT = "Free memory or processes of this machine, and run the command again: what is done is kept."


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
