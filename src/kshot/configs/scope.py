"""What the names in an entry of a config stand for: the config's own, kshot's, or those of another project."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from kshot.configs._stand_ins import FRAMEWORKS
from kshot.configs.home import TITLES, Home, Part
from kshot.configs.names import ConfigCallable, ImportedName, short, unknown
from kshot.core.errors import KshotError
from kshot.core.registry import check_code


@contextmanager
def located(where: str) -> Iterator[None]:
    """Add the file and the entry to an error of a home's code that arises here."""
    try:
        yield
    except KshotError as exc:
        if where and not exc.where.startswith(where):
            exc.where = f"{where}: {exc.where}" if exc.where else where
        raise


@dataclass(frozen=True, slots=True)
class Name:
    """A name that a config gives as a ``type``."""

    last: str
    """Its last part: ``MATHEvaluator``."""
    whole: str
    """All of it, as the config writes or imports it: ``opencompass.datasets.MATHEvaluator``, or the last part alone."""
    framework: str
    """Whose it is: ``opencompass``, ``ais_bench``, or an empty text where nothing says so."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Where an entry stands, and what its names mean."""

    where: str = ""
    """The file and the entry, for messages."""
    framework: str = ""
    """What the config was written for; an empty text: for kshot."""
    registered: Mapping[str, Any] = field(default_factory=dict)
    """What the config itself gives a name."""
    homes: Mapping[str, Home] = field(default_factory=dict)
    """The projects whose source is here, by framework."""
    given: Path | None = None
    """The folder that the user names as the home, if any."""
    used: dict[tuple[Part, str], Home] = field(default_factory=dict)
    """What runs by the code of a home: a part and its name, and whose it is. It grows."""

    def name(self, kind: Any) -> Name:
        """Return the parts of a name; one without a package is the config's framework's."""
        whole = kind.called if isinstance(kind, ImportedName) else kind if isinstance(kind, str) else short(kind)
        package = whole.partition(".")[0]
        return Name(short(kind), whole, package if package in FRAMEWORKS else self.framework)

    def home(self, part: Part, name: Name) -> Home | None:
        """Return the home whose code defines a name; None where none does. The entry then uses it."""
        home = self.homes.get(name.framework)
        if home is None:
            return None
        with located(self.where):
            check_code(home.folder, home.digest, home.framework)  # before anything of it is loaded
            if not home.has(part, name.whole):
                return None
        self.used[part, name.last] = home
        return home

    def unknown(self, what: str, kind: Any, known: Iterable[str] = ()) -> NoReturn:
        """Raise DataError: neither kshot nor a home has this name. The hint says where they looked."""
        unknown(what, kind, self.where, known, self.searched(kind))

    def searched(self, kind: Any) -> str:
        """Say where a name that kshot lacks was looked for, or where it may be; nothing where it is no framework's."""
        framework = self.name(kind).framework
        home, title = self.homes.get(framework), TITLES.get(framework)
        if home is not None:
            return f"Nor has the source of {title} in {home.folder}."
        if title is None:
            return ""
        if self.given is not None:
            return f"{self.given} holds no source of {title}."
        return f"The source of {title} may have it: --home DIR."

    def own(self, kind: Any) -> Any:
        """Return the function or class of the config, or of the caller, that a ``type`` gives; None for other names."""
        if isinstance(kind, ConfigCallable) or (callable(kind) and not isinstance(kind, str)):
            return kind
        return self.registered.get(str(kind))
