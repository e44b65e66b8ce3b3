"""Options: settings that the command line and the Python functions offer. Each part of kshot declares its own.

A part declares a small class of settings beside the code that reads them. ``kshot.settings`` joins the classes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

from typing_extensions import Self

from kshot.core.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionField:
    """What one option means: its default, how it is written, and which values it may have.

    ``repeat``: it may be given several times. ``listed``: its values stand in one text, with commas between them.
    ``identity=False``: it cannot change a result. ``secret``: its value may hold a key, and is never shown or written.
    ``earlier_default``: what an unset value was called before the default became None; in identities it is unset, too.
    ``former_default``: the default when run folders held every value. Unset now means something else.
    ``sweeps``: it may have several values, and each is evaluated. See ``Options.sweep``.
    ``first_counts``: of several values only the first is part of the identity, as if it were the only one.
    ``whole_text``: its values are texts that may have commas and pluses, and are too long for a name: several are given
    each by itself, and not after the name of a dataset. ``numbers``: a text that may be given as a whole number too.
    ``bare``: what its flag stands for without a value. ``hidden``: the older name of another option, which no help
    lists. ``whole_run``: all datasets of a run share it, so it does not follow the name of one.
    """

    default: Any
    help: str
    kind: type = str
    flags: tuple[str, ...] = ()
    group: str = ""
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    repeat: bool = False
    listed: bool = False
    least: float | None = None
    above: float | None = None
    most: float | None = None
    identity: bool = True
    secret: bool = False
    earlier_default: Any = None
    former_default: Any = None
    sweeps: bool = False
    first_counts: bool = False
    whole_text: bool = False
    numbers: bool = False
    bare: str = ""
    hidden: bool = False
    whole_run: bool = False

    def is_unset(self, value: Any) -> bool:
        """Whether a value is the default, or what the default was called earlier."""
        return bool(value == self.default or (self.earlier_default is not None and value == self.earlier_default))

    def identifying(self, value: Any) -> Any:
        """Return what a value adds to the identity of a run, as a plain JSON value."""
        if self.first_counts and isinstance(value, tuple):
            return value[0] if value else None
        return list(value) if isinstance(value, tuple) else value

    @property
    def several(self) -> bool:
        """Whether the value is a tuple."""
        return self.repeat or self.listed

    @property
    def annotation(self) -> str:
        """The type of what the Python functions take for it."""
        kind = self.kind.__name__
        if self.kind is str and any(word in (self.metavar or "") for word in ("FILE", "PATH", "DIR")):
            return "str | PathLike[str] | " + ("Sequence[str | PathLike[str]] | None" if self.several else "None")
        choices = ", ".join(f'"{choice}"' for choice in self.choices)
        one = f"Literal[{choices}]" if choices else f"{kind} | int" if self.numbers else kind
        if self.sweeps:
            many = f"list[{kind}] | tuple[{kind}, ...]" if kind == "str" else f"Sequence[{kind}]"
            return f"{one} | {many} | None"
        return f"{one} | list[{one}] | tuple[{one}, ...] | None" if self.several else f"{one} | None"

    def check(self, name: str, value: Any) -> None:
        """Refuse a value that cannot mean anything, naming the option."""
        for each in value if self.several and value is not None else (value,):
            problem = None if each is None else self._problem(each)
            if problem is not None:
                shown = repr(each) if isinstance(each, str) else each
                raise UsageError(f"{flag(name)} is {shown}; it must be {problem}")

    def _problem(self, value: Any) -> str | None:
        """Return what a value must be, if it is not."""
        if self.choices and value not in self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.kind is float and not math.isfinite(value):
            return "a finite number"
        too_low = (self.least is not None and value < self.least) or (self.above is not None and value <= self.above)
        if too_low or (self.most is not None and value > self.most):
            return self._range()
        return None

    def _range(self) -> str:
        if self.most is None:
            return f"{self.least} or more" if self.above is None else f"above {self.above}"
        return (
            f"from {self.least} to {self.most}" if self.above is None else f"above {self.above} and at most {self.most}"
        )


def option(default: Any, text: str, **more: Any) -> Any:
    """Declare an option in a class of settings: its default, its help text, and the fields of ``OptionField``."""
    return option_field(OptionField(default=default, help=text, **more))


def option_field(declared: OptionField) -> Any:
    """Declare an option that is described already, such as that of another role."""
    return field(default=declared.default, repr=not declared.secret, metadata={"option": declared})


def flag(name: str) -> str:
    """Return an option as the command line spells it."""
    return "--" + name.replace("_", "-")


SweptValues: TypeAlias = tuple[tuple[str, tuple[Any, ...]], ...]
"""The options that have several values, with these; None among them stands for the default."""


OptionsT = TypeVar("OptionsT", bound="Options")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The settings that one part declares, or several parts together.

    A class of settings is a frozen dataclass whose fields are options. It inherits the classes that it joins, so it has
    no slots.
    """

    sweep: SweptValues = ()
    """The options with several values. Their own fields keep the default: a front end sees one value at a time."""

    def __post_init__(self) -> None:
        """Check every value."""
        swept = dict(self.sweep)
        for name, declared in self.declared().items():
            for value in swept.get(name, (getattr(self, name),)):
                declared.check(name, value)

    @classmethod
    def declared(cls) -> dict[str, OptionField]:
        """Return every option by name."""
        return {item.name: item.metadata["option"] for item in fields(cls) if "option" in item.metadata}

    def values(self) -> dict[str, Any]:
        """Return every value by name; of an option with several values, all of them. This reads none of them."""
        values = vars(self)
        return {name: values[name] for name in self.declared()} | dict(self.sweep)

    def with_values(self, **values: Any) -> Self:
        """Return these settings with other values. A view goes on to note its reads, but for those of these values."""
        return replace(self, **values)

    def noting(self, reads: set[str]) -> Self:
        """Return these settings as a view that adds to ``reads`` the name of each option that is read from it."""
        return _view(self, (_Reads(reads),))

    def mark_read(self, *names: str) -> None:
        """Note that these options have an effect, whether they have been read yet or not."""

    def mark_unread(self, *names: str) -> None:
        """Note that these options have no effect, although they were read."""

    def recorded(self) -> dict[str, Any]:
        """Return every value that may be written to disk, by name."""
        declared = self.declared()
        return {name: value for name, value in self.values().items() if not declared[name].secret}

    def changed(self, *owners: type[Options]) -> dict[str, Any]:
        """Return the values that differ from their defaults; with ``owners``, only those that these classes declare."""
        declared = self.declared()
        wanted = settings_names(*owners) if owners else declared
        return {
            name: value for name, value in self.values().items() if name in wanted and value != declared[name].default
        }

    def identity(self) -> dict[str, Any]:
        """Return the values that a result depends on and that differ from their defaults, as plain JSON values.

        A default is left out, so that a new option changes the identity of no earlier run.
        """
        declared = self.declared()
        return {
            name: declared[name].identifying(value)
            for name, value in self.changed().items()
            if declared[name].identity and not declared[name].is_unset(value)
        }


class _Reads(NamedTuple):
    """Where the names of options that are read are noted, but for those that were set anew since."""

    names: set[str]
    anew: frozenset[str] = frozenset()


class _Noting:
    """What settings that note their reads do differently; ``_plain`` are the settings themselves."""

    _plain: Any
    _reads: tuple[_Reads, ...]

    def __getattribute__(self, name: str) -> Any:
        if name in object.__getattribute__(self, "_options"):
            self.mark_read(name)
        return object.__getattribute__(self, name)

    def __eq__(self, other: object) -> bool:
        return bool(self._plain == (other._plain if isinstance(other, _Noting) else other))

    def __hash__(self) -> int:
        return hash(self._plain)

    def __reduce__(self) -> tuple[Any, ...]:
        return copy, (self._plain,)  # another process notes nothing

    def with_values(self, **values: Any) -> Any:
        reads = tuple(_Reads(names, anew.union(values)) for names, anew in self._reads)
        return _view(self._plain.with_values(**values), reads)

    def noting(self, reads: set[str]) -> Any:
        return _view(self._plain, (*self._reads, _Reads(reads)))

    def mark_read(self, *names: str) -> None:
        for reads in self._reads:
            reads.names.update(set(names) - reads.anew)

    def mark_unread(self, *names: str) -> None:
        for reads in self._reads:
            reads.names.difference_update(set(names) - reads.anew)


def _view(plain: OptionsT, reads: tuple[_Reads, ...]) -> OptionsT:
    kind: Any = type(plain)
    view: OptionsT = object.__new__(_noting_class(kind))
    vars(view).update(vars(plain), _plain=plain, _reads=reads)
    return view


@cache
def _noting_class(cls: Any) -> type[Any]:
    return type(cls.__name__, (_Noting, cls), {"_options": frozenset(cls.declared())})


def settings_names(*owners: type[Options]) -> frozenset[str]:
    """Return the names of the options that classes of settings declare."""
    return frozenset(name for owner in owners for name in owner.declared())


def options_from(cls: type[OptionsT], given: Mapping[str, Any]) -> OptionsT:
    """Make settings from Python values by name; an unknown name is an error that lists the known ones."""
    declared = options_named(cls, given)
    values = {name: read_value(name, declared[name], value) for name, value in given.items()}
    swept = {
        name: values.pop(name) for name in declared if declared[name].sweeps and isinstance(given.get(name), _MANY)
    }
    one = {name: each[0] for name, each in swept.items() if len(each) == 1 and each[0] is not None}
    several = tuple((name, each) for name, each in swept.items() if len(each) > 1)
    return cls(**values, **one, sweep=several)


def options_named(cls: type[Options], names: Iterable[str], *, where: str = "") -> dict[str, OptionField]:
    """Return the options of a class; a name that is not among them is an error."""
    declared = cls.declared()
    unknown = sorted(set(names) - set(declared))
    if unknown:
        known = ", ".join(sorted(declared))
        raise UsageError(f"there is no option {unknown[0]!r}", where=where, hint=f"Options: {known}.")
    return declared


_MANY = (list, tuple, range)


def read_value(name: str, declared: OptionField, value: Any) -> Any:
    """Convert a Python value to the type of the option: a single stop string becomes a tuple, and so on."""
    if value is None:
        return declared.default
    if declared.sweeps and isinstance(value, _MANY):
        if not value:
            raise UsageError(f"{name} is an empty list", hint="Give one value or more.")
        return tuple(dict.fromkeys(None if each is None else _typed(name, declared, each) for each in value))
    if not declared.several:
        return _typed(name, declared, value)
    values = value if isinstance(value, _MANY) else (value,)
    return tuple(_typed(name, declared, each) for each in values)


def _typed(name: str, declared: OptionField, value: Any) -> Any:
    kind = declared.kind
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is str and (isinstance(value, os.PathLike) or (declared.numbers and type(value) is int)):
        return str(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        shown = f"a {type(value).__name__}" if declared.secret else repr(value)
        raise UsageError(f"{name} is {shown}; it must be {kind.__name__}")
    return value
