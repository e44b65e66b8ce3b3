"""A confined process that answers requests: one line of JSON each way."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Any

from kshot.sandbox.process import ConfinedProcess
from kshot.sandbox.profiles import LAYERS, ProcessLimits, Profile

_MAX_ANSWER_BYTES = 128 << 20
_CHUNK_BYTES = 1 << 16
_MAX_LINES = 8
"""One answer is waited for at a time: a process that writes more lines is not heard any further."""
UNREADABLE = "the confined process gave an answer that cannot be read"


class NoAnswer(Exception):  # noqa: N818 - it names what is missing
    """The process gave no answer that can be used; the message says why. It should be ended."""


class RequestFailed(Exception):  # noqa: N818 - it names what happened
    """The code in the process raised an exception while it served the request."""

    def __init__(self, fault: Mapping[str, Any]) -> None:
        """Take what the process tells of the exception: its class, its message, and where it was raised."""
        line = fault.get("line")
        self.kind, self.message = str(fault.get("kind")), str(fault.get("message"))
        self.file, self.line = str(fault.get("file") or ""), line if isinstance(line, int) else 0
        super().__init__(f"{self.kind}: {self.message}")


class RequestProcess:
    """A confined process that answers requests until it is ended.

    Each request has a number. Its answer repeats the number and has ``result``, or ``fault`` where an exception was
    raised.
    """

    def __init__(
        self,
        profile: Profile,
        worker: str,
        job: Mapping[str, Any],
        *,
        layers: Sequence[str] = LAYERS,
        limits: ProcessLimits | None = None,
        readable: Sequence[Path] = (),
        cwd: Path | None = None,
    ) -> None:
        """Start the process; the arguments are those of ``ConfinedProcess``."""
        self._process = ConfinedProcess(
            profile, worker, job, layers=layers, limits=limits, readable=readable, cwd=cwd, takes_requests=True
        )
        self._answers: queue.Queue[bytes | None] = queue.Queue(_MAX_LINES)
        self._number = 0
        threading.Thread(target=_listen, args=(self._process.stdout, self._answers), daemon=True).start()

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.alive

    def ask(self, request: Mapping[str, Any], seconds: float) -> Any:
        """Return the result of a request, or raise ``RequestFailed`` or ``NoAnswer``."""
        self._number += 1
        self._process.send(json.dumps({**request, "id": self._number}).encode("ascii") + b"\n")
        answer = self._next_answer(seconds)
        if answer.get("id") != self._number:
            raise NoAnswer(UNREADABLE)
        if isinstance(answer.get("fault"), dict):
            raise RequestFailed(answer["fault"])
        if "result" not in answer:
            raise NoAnswer(UNREADABLE)
        return answer["result"]

    def _next_answer(self, seconds: float) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=seconds)
        except queue.Empty:
            raise NoAnswer(f"it did not end within {seconds:g} s, the time that it may take") from None
        if line is None:
            raise NoAnswer(f"its process ended before it was done ({self._process.ending()})")
        if len(line) > _MAX_ANSWER_BYTES:
            raise NoAnswer(f"it gives more than {_MAX_ANSWER_BYTES >> 20} MB of data")
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            raise NoAnswer(UNREADABLE) from None
        if not isinstance(answer, dict):
            raise NoAnswer(UNREADABLE)
        return answer

    def end(self) -> None:
        """Kill the process and remove its folder."""
        self._process.end()


def _listen(pipe: BufferedReader, answers: queue.Queue[bytes | None]) -> None:
    """Pass whole lines on, not too many and none too long, so that no memory fills; None follows the last."""
    buffer = bytearray()
    with pipe, suppress(queue.Full):
        while chunk := pipe.read1(_CHUNK_BYTES):
            buffer += chunk
            while (end := buffer.find(b"\n")) >= 0:
                answers.put_nowait(bytes(buffer[:end]))
                del buffer[: end + 1]
            if len(buffer) > _MAX_ANSWER_BYTES:
                answers.put_nowait(bytes(buffer))
                break
        answers.put_nowait(None)
