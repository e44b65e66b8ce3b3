"""Things of packages that a guest's module imports and may never use: they are imported when they are used.

Runs inside the confined process; standard library only. While modules are loaded, everything that is done with such a
thing is put off: ``@torch.no_grad()`` above a function imports nothing. Later, each use is that of the real thing, or
the error that its package is missing.
"""

from __future__ import annotations

import functools
import importlib
import operator
import sys
import types

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


_SLOW_BASES = frozenset(("torch",))
"""Packages that take seconds to import and whose classes many modules inherit from and never use."""


class MissingPackage(ImportError):  # noqa: N818 - it names what is wrong
    """A package of the guest is used and not installed."""


class Deferred:
    """Something that ``make`` returns when it is first used."""

    def __init__(self, called: str, make: Callable[[], Any], loading: Callable[[], bool]) -> None:
        """``called``: its dotted name; ``loading``: whether modules are being loaded, so that uses are put off."""
        self.__dict__.update(_called=called, _make=make, _loading=loading)

    def __getattr__(self, name: str) -> Any:
        asks_version = name == "__version__"  # code decides by it: nothing can be put off
        if name.startswith("__") and name.endswith("__") and not asks_version:
            raise AttributeError(name)
        if asks_version or not self._loading():
            return getattr(resolved(self), name)
        return Deferred(f"{self._called}.{name}", lambda: _attribute(resolved(self), name), self._loading)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._loading():
            return resolved(self)(*map(resolved, args), **{name: resolved(each) for name, each in kwargs.items()})
        return Deferred(f"{self._called}()", lambda: resolved(self)(*args, **kwargs), self._loading)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        package = self._called.partition(".")[0]
        if package in _SLOW_BASES and package not in sys.modules:
            return (_later_base(self),)
        try:
            found = resolved(self)
        except ImportError as exc:
            return (_unusable_class(self._called, exc),)
        return (found,) if isinstance(found, type) else (object,)

    def __instancecheck__(self, instance: object) -> bool:
        names = getattr(type(instance), "stands_for", ())
        if self._called in names:
            return True
        try:
            return isinstance(instance, resolved(self))
        except ImportError:
            return False  # nothing can be an instance of what is not installed

    def __subclasscheck__(self, cls: type) -> bool:
        return issubclass(cls, resolved(self))

    def __or__(self, other: Any) -> Any:
        return self if self._loading() else resolved(self) | resolved(other)

    def __ror__(self, other: Any) -> Any:
        return self if self._loading() else resolved(other) | resolved(self)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(resolved(self), name, value)

    def __eq__(self, other: object) -> bool:
        if self is other or self._loading():
            return self is other
        return bool(resolved(self) == resolved(other))

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<{self._called}, not imported yet>"


def resolved(value: Any) -> Any:
    """Return the real thing that a deferred one stands for; anything else is returned as it is."""
    if type(value) is not Deferred:
        return value
    space = value.__dict__
    if "_real" not in space:
        space["_real"] = resolved(space["_make"]())
    return space["_real"]


def no_equivalent(module: str, name: str) -> Deferred:
    """Return what stands for a name that a module's stand-in lacks: using it is an error."""

    def missing() -> Any:
        raise MissingPackage(f"{module}.{name} has no equivalent here", name=module)

    return Deferred(f"{module}.{name}", missing, lambda: True)


def stand_in_modules(
    contents: Mapping[str, Mapping[str, Any]], absent: Callable[[str, str], Any]
) -> dict[str, Callable[[], types.ModuleType]]:
    """Return what makes modules with these contents, by name; ``absent`` gives the names that a module lacks."""

    def make(called: str) -> types.ModuleType:
        module = types.ModuleType(called)
        vars(module).update(contents[called])
        module.__getattr__ = functools.partial(absent, called)  # type: ignore[method-assign]  # modules may have one
        return module

    return {called: functools.partial(make, called) for called in contents}


def _attribute(owner: Any, name: str) -> Any:
    """Return an attribute, or a module of a package that was not imported yet."""
    try:
        return getattr(owner, name)
    except AttributeError:
        if not isinstance(owner, types.ModuleType):
            raise
        try:
            return importlib.import_module(f"{owner.__name__}.{name}")
        except ModuleNotFoundError:
            raise ImportError(f"cannot import name {name!r} from {owner.__name__!r}", name=owner.__name__) from None


def _delegated(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Deferred, *args: Any) -> Any:
        return function(resolved(self), *map(resolved, args))

    method.__name__ = name
    return method


_OPERATORS: dict[str, Callable[..., Any]] = {
    **{f"__{name}__": getattr(operator, f"__{name}__") for name in ("add", "sub", "mul", "truediv", "mod", "lt", "gt")},
    **{f"__{name}__": getattr(operator, f"__{name}__") for name in ("le", "ge", "and", "neg", "index", "contains")},
    **{f"__{name}__": getattr(operator, f"__{name}__") for name in ("getitem", "setitem", "delitem", "pow", "matmul")},
    "__radd__": lambda self, other: other + self,
    "__rmul__": lambda self, other: other * self,
    "__iter__": iter,
    "__len__": len,
    "__bool__": bool,
    "__str__": str,
    "__int__": int,
    "__float__": float,
    "__enter__": lambda self: self.__enter__(),
    "__exit__": lambda self, *exc: self.__exit__(*exc),
}
for _name, _function in _OPERATORS.items():
    setattr(Deferred, _name, _delegated(_name, _function))


def _unusable_class(called: str, why: ImportError) -> type:
    """Return a class to inherit from in place of one of a missing package; making an object of it is the error."""

    def refuse(cls: type, *_: Any, **__: Any) -> Any:  # noqa: ARG001 - as __new__ wants it
        raise why

    return type(called.rpartition(".")[2], (), {"__new__": refuse})


def _later_base(deferred: Deferred) -> type:
    """Return a class to inherit from until an object of a class below it is made: then the real one takes its place."""

    def make(cls: type, *args: Any, **kwargs: Any) -> Any:
        real = resolved(deferred)
        below: type
        for below in base.__subclasses__():
            below.__bases__ = tuple(real if each is base else each for each in below.__bases__)
            if "__new__" not in vars(below):
                setattr(below, "__new__", make)  # noqa: B010 - Python keeps calling what overrides object's
        create = real.__new__
        return object.__new__(cls) if create is object.__new__ else create(cls, *args, **kwargs)

    called: str = deferred.__dict__["_called"]
    parents: tuple[Any, ...] = ()
    if called.startswith("torch.utils.data."):  # these are generic: a class takes the place of one of the same layout
        import typing

        parents = (vars(typing)["Generic"][typing.TypeVar("T")],)
    base = types.new_class(called.rpartition(".")[2], parents, exec_body=lambda space: space.update(__new__=make))
    return base
