"""Comparisons of two runs, each made in a process of its own, which reads all samples and gives the memory back."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from kshot.core.visible import one_line
from kshot.runs.folder import SUMMARY
from kshot.runs.samples_file import SAMPLES
from kshot.runs.spec_file import SPEC
from kshot.viewer.catalog import ListedRun
from kshot.viewer.live import Versions, versions

_KEPT = 32
_BOOT = "import sys; sys.path[:] = sys.argv[1:]; from kshot.viewer.compare_process import main; main()"
"""Gives the process the search path of this one, before anything is imported: the folder that it starts in may be that
of a run, and nothing there is code."""
_FAILED = "the runs cannot be compared"

_Pair: TypeAlias = tuple[Path, Path]


@dataclass(slots=True)
class _Made:
    """A comparison: of which versions of the files, and what was found; None: it is being made."""

    version: tuple[Versions, Versions]
    found: dict[str, Any] | None = None


class Comparisons:
    """Compares runs, one pair at a time; the last comparisons are kept until a file of theirs changes."""

    def __init__(self) -> None:
        """Start with none; the thread starts with the first."""
        self._made: OrderedDict[_Pair, _Made] = OrderedDict()
        self._lock = threading.Condition()
        self._waiting: list[tuple[_Pair, dict[str, str], _Made]] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def of(self, baseline: ListedRun, run: ListedRun) -> dict[str, Any]:
        """Return a comparison as JSON; its state is "comparing" until it is made."""
        sides = {"a": _side(baseline), "b": _side(run)}
        pair = baseline.folder, run.folder
        version = _version(baseline.folder), _version(run.folder)
        with self._lock:
            made = self._made.get(pair)
            if made is None or made.version != version:
                made = self._made[pair] = _Made(version)
                self._waiting = [each for each in self._waiting if each[0] != pair]
                self._waiting.append((pair, {"a": baseline.key, "b": run.key}, made))
                self._start()
            self._made.move_to_end(pair)
            while len(self._made) > _KEPT:
                self._made.popitem(last=False)
        return {**_nothing(), "state": "comparing", **sides} if made.found is None else {**made.found, **sides}

    def wait(self, seconds: float) -> None:
        """Wait until nothing is being compared, at most this long."""
        with self._lock:
            self._lock.wait_for(lambda: all(each.found is not None for each in self._made.values()), seconds)

    def close(self) -> None:
        """End the process that compares."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()
            process = self._process
        if process is not None:
            with suppress(OSError):
                process.kill()
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="kshot compare", daemon=True)
            self._thread.start()
        self._lock.notify_all()

    def _work(self) -> None:
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                pair, keys, made = self._waiting.pop()  # what somebody waits for now
            found = self._compared(pair, keys)
            with self._lock:
                made.found = found
                self._lock.notify_all()

    def _compared(self, pair: _Pair, keys: dict[str, str]) -> dict[str, Any]:
        job = json.dumps({"folders": [str(folder.absolute()) for folder in pair], "keys": [keys["a"], keys["b"]]})
        try:
            with self._lock:
                if self._closed:
                    return _nothing()
                command = [sys.executable, "-c", _BOOT, *(each for each in sys.path if each)]
                process = self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
                )
            output, _ = process.communicate(job.encode())
        except (OSError, ValueError) as exc:  # no process can be started
            return {**_nothing(), "error": f"{_FAILED}: {exc}"}
        try:
            return {**_nothing(), **json.loads(output)}
        except ValueError:
            return {**_nothing(), "error": f"{_FAILED}: the process ended with code {process.returncode}"}


def _nothing() -> dict[str, Any]:
    counts = dict.fromkeys(("won", "lost", "both", "neither"))
    return {"state": "ready", "sections": [], **counts, "error": None}


def _side(run: ListedRun) -> dict[str, str]:
    return {"key": run.key, "name": one_line(run.line["name"])}


def _version(folder: Path) -> Versions:
    return versions(folder, SPEC, SUMMARY, SAMPLES)
