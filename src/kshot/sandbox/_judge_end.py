"""The end of the conversation that has the tests: it runs them, and asks the program for what they use of it.

Runs inside the confined process of the tests. What comes from the program is plain data, made here, or a ``Remote``,
which stands for an object that stays with the program. Whether two values are equal is decided here.
"""

from __future__ import annotations

import builtins
import sys

from kshot.sandbox._peer import Peer, exception_base
from kshot.sandbox._tests_code import ALIASES, TestsCode
from kshot.sandbox._wire import Encoder

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Any


# ---- operators on what stands for objects of a program ----
# The program combines its objects with each other, and says what they are alone. It does not compare them with plain
# values: else its __sub__ would decide whether abs(f(x) - 3) < 1e-6. It may add a plain value to an object or
# scale an object by one, if another object comes of it.

_COMPARISONS = ("lt", "le", "gt", "ge")
_WITH_OBJECTS = ("sub", "mod", "xor", "and", "or")
"""Tests use these to compare plain values (``f(x) - 3``, ``f(x) ^ 3``): with one, the program has no part in them."""

_WITH_ALL = ("add", "mul", "truediv", "floordiv", "matmul", "pow", "lshift", "rshift")
_UNARY = ("neg", "pos", "invert", "abs")
_REFUSED = ("bool", "len", "iter", "contains", "int", "float", "round")


def add_operators(remote: type) -> None:
    """Give the class of stand-ins its operators."""
    operators = _Operators(remote)
    for name in _COMPARISONS:
        setattr(remote, f"__{name}__", operators.comparison(name))
    for name in (*_WITH_OBJECTS, *_WITH_ALL):
        for before in ("", "i"):
            setattr(remote, f"__{before}{name}__", operators.binary(before + name, with_plain=name in _WITH_ALL))
    for name in _WITH_ALL:
        setattr(remote, f"__r{name}__", operators.binary(f"r{name}", with_plain=True))
    for name in _UNARY:
        setattr(remote, f"__{name}__", operators.unary(name))


class _Operators:
    """Makes operators. What comes of an object and a plain value is of the class ``Combined``.

    The plain value may be the one that is expected. So the program does not say whether such a result is true, how long
    it is, or how large: it decides neither ``not f(x) + -3`` nor ``len(f(x) + [3]) == 2``.
    """

    def __init__(self, remote: type) -> None:
        self._remote = remote
        refused = {f"__{name}__": _refused for name in _REFUSED}
        self._combined = type("Combined", (remote,), {"__slots__": (), **refused})

    def binary(self, name: str, *, with_plain: bool) -> Callable[[Any, Any], Any]:
        def operate(left: Any, right: Any) -> Any:
            is_plain = not isinstance(right, self._remote)
            if is_plain and not with_plain:
                return NotImplemented
            found = left._remote_apply(name, right)  # noqa: SLF001 - it is ours
            return self._made(found) if is_plain or self._is_combined(left, right) else found

        return operate

    def comparison(self, name: str) -> Callable[[Any, Any], Any]:
        def compare(left: Any, right: Any) -> Any:
            is_plain = not isinstance(right, self._remote)
            return NotImplemented if is_plain else left._remote_apply(name, right)  # noqa: SLF001 - it is ours

        return compare

    def unary(self, name: str) -> Callable[[Any], Any]:
        def operate(value: Any) -> Any:
            found = value._remote_apply(name)  # noqa: SLF001 - it is ours
            return self._made(found) if self._is_combined(value) else found

        return operate

    def _is_combined(self, *values: Any) -> bool:
        return any(isinstance(value, self._combined) for value in values)

    def _made(self, found: Any) -> Any:
        if not isinstance(found, self._remote):
            raise TypeError("an object of the program and a plain value do not give an object of the program")
        return found._remote_as(self._combined)  # type: ignore[attr-defined]  # noqa: SLF001 - it is ours


def _refused(*_: Any) -> Any:
    raise TypeError("what comes of an object of the program and a plain value can only be read, or compared")


# ---- the process of the tests ----

_SHOWN = ("__name__", "__doc__", "__qualname__", "__annotations__", "__dict__", "__wrapped__")
_Module = type(sys)


class JudgeEnd(Peer):
    """Runs tests. Names that they do not define are the program's."""

    def __init__(self, reader: int, writer: int) -> None:
        super().__init__(reader, writer)
        self._given: list[tuple[str, Any]] = []
        self._stand_ins: dict[int, Any] = {}
        """By number, so that the same object of the program has the same stand-in: ``f() is f()``."""
        self._code = TestsCode("")

    def run(self, tests: str) -> None:
        """Run the tests; whatever they raise, the program has failed."""
        code = self._code = TestsCode(tests)
        names = self.ask("load")
        namespace = _Namespace(self, [name for name in names if isinstance(name, str)], code)
        module = _Module("tests")
        namespace.update(vars(module))
        sys.modules["program"] = _program_module(namespace)
        sys.modules["tests"] = module
        exec(code.code, namespace)  # noqa: S102 - running them is the purpose
        self.ask("name", "__name__")  # a program that has ended by now has failed

    def value(self, expression: str) -> dict[str, Any]:
        """Return the value of an expression after the program, as a message: plain data, and texts of all else.

        What the program or the expression raises is told in its place, under its built-in class.
        """
        try:
            self.ask("load")
            encoder = Encoder(lambda other: ["object", str(other)])
            return {"value": encoder.value(self.ask("value", expression)), "table": encoder.table()}
        except Exception as error:  # noqa: BLE001 - a program may raise anything
            return {"raised": [exception_base(type(error)), str(error)]}

    def ask(self, action: str, *values: Any) -> Any:
        """Have the program do something. A call that raises ``StopIteration`` would end a ``map`` of the tests."""
        try:
            return super().ask(action, *values)
        except (StopIteration, StopAsyncIteration) as error:
            if (action, *values[:1]) == ("apply", "next") or self._code.stops:
                raise
            raise RuntimeError(f"the program raised {type(error).__name__}") from error

    def leave(self, number: int, error: BaseException | None, lines: tuple[int, int]) -> bool:
        """Leave a program's ``with``, and return whether the program may stop the exception.

        It stops none that makes the tests skip anything, and is not told of those that say that it has failed.
        """
        if error is None or isinstance(error, AssertionError) or not isinstance(error, Exception):
            try:
                self.ask("apply", "exit", number)
            except Exception:
                if error is None:
                    raise
            return False
        kind = type(error) if self.shows_class(type(error)) else getattr(builtins, exception_base(type(error)))
        plain = tuple(each for each in error.args if type(each) in (str, int, float))
        return self.ask("apply", "exit", number, kind, plain) is True and lines in self._code.closings

    def take_output(self, text: str) -> None:
        """Print what the program printed, so that tests can catch it."""
        if text:
            sys.stdout.write(text)

    # ---- objects ----

    def export(self, value: Any) -> list[Any]:
        """Return the entry of something that tests give the program; it can be called, iterated or read, no more."""
        if isinstance(value, Remote):
            return ["o", value._remote_number]  # noqa: SLF001 - it is ours
        if isinstance(value, type) and issubclass(value, BaseException | tuple) and "number_there" in vars(value):
            return ["o", vars(value)["number_there"]]
        if (path := _library_path(value)) is not None:
            return ["library", *path]
        if hasattr(value, "__next__"):
            kind = "iterator"
        elif callable(value):
            kind = "function"
        elif type(value).__module__ == "tests":
            kind = "object"
        else:
            raise TypeError(f"tests cannot give a program a {type(value).__name__}: it is not plain data")
        self._given.append((kind, value))
        return ["h", len(self._given) - 1, kind]

    def shows_class(self, kind: type[BaseException], /) -> bool:
        """Show the program its own classes alone."""
        return "number_there" in vars(kind)

    def resolve(self, entry: list[Any]) -> Any:
        """Return what stands for an object of the program."""
        tag, number = entry[:2]
        if type(number) is not int or number < 0:
            raise ValueError(number)
        if tag == "o":
            return self._given[number][1]
        _, _, kind, name, base, *above = entry
        if tag != "h":
            raise ValueError(tag)
        if kind == "exception":
            return self.exception_class(number, name, base, *above)
        if kind == "coroutine":
            return _awaited(self.ask, number)
        if number not in self._stand_ins:
            remote = Remote(self.ask, self.leave, number)
            self._stand_ins[number] = _generator(remote) if kind == "generator" else remote
        return self._stand_ins[number]

    # ---- what the program may ask ----

    def _of_kind(self, kind: str, number: int) -> Any:
        """Return what was given to the program as this: nothing else can be done with it."""
        found, value = self._given[number] if type(number) is int and number >= 0 else ("", None)
        if found != kind:
            raise TypeError(f"this is not of the kind {kind}")
        return value

    def do_call(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function that tests gave it."""
        return self._of_kind("function", number)(*args, **kwargs)

    def do_next(self, number: int) -> Any:
        """Return the next value of an iterator."""
        return next(self._of_kind("iterator", number))

    def do_getattr(self, number: int, name: str) -> Any:
        """Return an attribute of an object of the tests."""
        return getattr(self._of_kind("object", number), _public(name))

    def do_setattr(self, number: int, name: str, value: Any) -> None:
        """Set an attribute of an object of the tests, but for its methods."""
        found = self._of_kind("object", number)
        if callable(getattr(type(found), _public(name), None)):
            raise AttributeError(name)  # noqa: TRY004 - as for a class that has no such attribute to set
        setattr(found, name, value)

    def do_input(self) -> str:
        """Return the next line of the input."""
        return str(sys.stdin.readline())


def _library_path(value: Any) -> tuple[str, str] | None:
    """Return the module and name of a function or class of Python's library: the program uses its own copy.

    Else the program could call this process's with arguments of its choice.
    """
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or not callable(value):
        return None
    in_library = module.partition(".")[0] in sys.stdlib_module_names
    return (module, name) if in_library and getattr(sys.modules.get(module), name, None) is value else None


def _public(name: str) -> str:
    if not isinstance(name, str) or name.startswith("_"):  # these lead to code, and from there to the tests
        raise AttributeError(name)
    return name


# ---- names ----


class _Namespace(dict):  # type: ignore[type-arg]  # typing is not loaded here
    """The variables of the tests; a name that they lack is Python's, as ``TestsCode`` has it, or else the program's."""

    def __init__(self, judge: JudgeEnd, names: list[str], code: TestsCode) -> None:
        super().__init__()
        self._judge, self._code = judge, code
        self._names = frozenset(name for name in names if not name.startswith("__"))

    def __missing__(self, name: str) -> Any:
        if name not in self._names or not self._code.is_pythons(name):
            return self.taken(name)
        if hasattr(builtins, name):
            raise KeyError(name)  # so that Python looks there
        return _imported(ALIASES.get(name, name))

    def taken(self, name: str) -> Any:
        """Return what the program has under this name."""
        if name not in self._names:
            raise KeyError(name)
        return self._judge.ask("name", name)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._names

    def give(self, name: str, value: Any) -> None:
        """Set a variable of the program."""
        self._judge.ask("setname", name, value)
        self._names |= {name}

    def take_away(self, name: str) -> None:
        """Remove a variable of the program."""
        self._judge.ask("delname", name)
        self._names -= {name}


def _imported(name: str) -> Any:
    __import__(name)
    return sys.modules[name]


def _program_module(namespace: _Namespace) -> Any:
    """Return what tests get by ``import program``: what they set there is set in the program."""

    class Program(_Module):  # type: ignore[misc,valid-type]  # it is what ``types`` has, which takes long to load
        def __getattr__(self, name: str) -> Any:
            try:
                return namespace.taken(name)
            except KeyError:
                raise AttributeError(name) from None

        def __setattr__(self, name: str, value: Any) -> None:
            namespace.give(name, value)

        def __delattr__(self, name: str) -> None:
            namespace.take_away(name)

    return Program("program")


# ---- objects of the program ----


class Remote:
    """An object of the program: a function, a class, an iterator, an instance.

    It can be called, read, changed and iterated, and what comes of that is plain data again. It is equal to no plain
    value. The program compares its objects with each other, but never with plain values: else its ``__eq__`` would
    decide whether a test passes. What else it may combine is said with the operators.
    """

    __slots__ = ("_remote_ask", "_remote_leave", "_remote_number")

    _remote_ask: Callable[..., Any]
    _remote_leave: Callable[..., bool]
    _remote_number: int

    def __init__(self, ask: Callable[..., Any], leave: Callable[..., bool], number: int) -> None:
        object.__setattr__(self, "_remote_ask", ask)
        object.__setattr__(self, "_remote_leave", leave)
        object.__setattr__(self, "_remote_number", number)

    def _remote_apply(self, operation: str, *values: Any) -> Any:
        return self._remote_ask("apply", operation, self._remote_number, *values)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._remote_ask("call", self._remote_number, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in _SHOWN:
            raise AttributeError(name)
        return self._remote_apply("getattr", name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._remote_apply("setattr", name, value)

    def __delattr__(self, name: str) -> None:
        self._remote_apply("delattr", name)

    def _remote_as(self, kind: Any) -> Any:
        """Return a stand-in of another class for the same object."""
        made = kind.__new__(kind)
        for name in Remote.__slots__:
            object.__setattr__(made, name, getattr(self, name))
        return made

    def __instancecheck__(self, value: Any) -> bool:
        if vars(type(value)).get("number_there") == self._remote_number:  # a named tuple, or an exception
            return True
        return isinstance(value, Remote) and self._remote_ask("isinstance", value, self._remote_number) is True

    def __subclasscheck__(self, kind: Any) -> bool:
        return isinstance(kind, Remote) and self._remote_ask("issubclass", kind, self._remote_number) is True

    def __iter__(self) -> Iterator[Any]:
        found = self._remote_apply("iter")
        return found if isinstance(found, Remote) else iter(found)

    def __next__(self) -> Any:
        return self._remote_apply("next")

    def __reversed__(self) -> Iterator[Any]:
        return iter(self._remote_apply("reversed"))

    def __len__(self) -> int:
        return int(self._remote_apply("len"))

    def __bool__(self) -> bool:
        return self._remote_apply("bool") is True

    def __getitem__(self, key: Any) -> Any:
        return self._remote_apply("getitem", key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._remote_apply("setitem", key, value)

    def __delitem__(self, key: Any) -> None:
        self._remote_apply("delitem", key)

    def __contains__(self, value: Any) -> bool:
        if isinstance(value, Remote):
            return self._remote_apply("contains", value) is True
        return any(value is each or value == each for each in self)  # compared here, not by its ``__contains__``

    def __int__(self) -> int:
        return int(self._remote_apply("int"))

    def __float__(self) -> float:
        return float(self._remote_apply("float"))

    def __round__(self, *digits: int) -> Any:
        return self._remote_apply("round", *digits)

    def __str__(self) -> str:
        return str(self._remote_apply("str"))

    def __repr__(self) -> str:
        return str(self._remote_apply("repr"))

    def __dir__(self) -> list[str]:
        return [str(name) for name in self._remote_apply("dir")]

    def __enter__(self) -> Any:
        return self._remote_apply("enter")

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        caller = sys._getframe(1)  # noqa: SLF001 - where the exception is on its way
        lines = (0, 0)
        if trace is not None and trace.tb_next is None and trace.tb_frame is caller:
            lines = (caller.f_lineno, trace.tb_lineno)
        return self._remote_leave(self._remote_number, error, lines)

    def __hash__(self) -> int:
        return hash(("an object of the program", self._remote_number))

    def __reduce_ex__(self, _: Any) -> Any:
        raise TypeError("an object of the program cannot be copied outside it")


def _equal(left: Remote, right: Any) -> Any:
    if not isinstance(right, Remote):
        return NotImplemented
    same = left._remote_number == right._remote_number  # noqa: SLF001 - they are ours
    return same or left._remote_apply("eq", right) is True  # noqa: SLF001 - as above


add_operators(Remote)
Remote.__eq__ = _equal  # type: ignore[method-assign,assignment]  # defined with the class it would take __hash__ away


def _generator(remote: Remote) -> Iterator[Any]:
    while True:
        try:
            value = next(remote)
        except StopIteration:
            return
        yield value


async def _awaited(ask: Callable[..., Any], number: int) -> Any:
    return ask("await", number)
