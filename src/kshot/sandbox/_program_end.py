"""The end of the conversation that has the program: it runs the program, then does with it what the judge asks.

Runs inside the confined process of a program. Nothing here decides anything: the program can change all of it.
"""

from __future__ import annotations

import io
import operator
import sys

from kshot.sandbox._peer import Peer, exception_base
from kshot.sandbox._wire import read_frame

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_MAX_PRINTED_BYTES = 1 << 20
_Module, _Generator = type(sys), type(_ for _ in ())


async def _nothing() -> None: ...


_waiting = _nothing()
_waiting.close()
_Coroutine = type(_waiting)


class ProgramEnd(Peer):
    """Runs a program and serves its functions and objects, each under a number."""

    def __init__(self, reader: int, writer: int, program: str) -> None:
        super().__init__(reader, writer)
        self._program = program
        self._objects: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._module = _Module("program")
        self._output = _Bounded()

    def run(self) -> None:
        """Serve requests until the judge is done."""
        sys.modules["program"] = self._module
        sys.argv[:] = ["program.py"]
        sys.path[:] = ["", *(folder for folder in sys.path if folder)]  # a program may import what it has written
        sys.stdout = io.TextIOWrapper(self._output, "utf-8", "replace", write_through=True)
        sys.stdin = _Input(lambda: str(self.ask("input")))
        while True:
            self.serve(read_frame(self._reader))

    def printed(self) -> str:
        """Return what the program has printed since the last answer."""
        return self._output.taken()

    # ---- objects ----

    def export(self, value: Any) -> list[Any]:
        """Keep an object, and return its number with what the judge should know of it."""
        if isinstance(value, _Theirs):
            return ["o", value.number_there]
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)
        if isinstance(value, type) and issubclass(value, BaseException):
            base = exception_base(value)
            above = next(each for each in (*value.__mro__[1:], value) if issubclass(each, BaseException))
            is_built_in = above.__module__ == "builtins"
            return ["h", number, "exception", value.__name__, base, None if is_built_in else self.export(above)]
        kind = "generator" if isinstance(value, _Generator) else "object"
        return ["h", number, "coroutine" if isinstance(value, _Coroutine) else kind, type(value).__name__, ""]

    def resolve(self, entry: list[Any]) -> Any:
        """Return an object of the program, or what stands for one of the tests."""
        tag, number, *rest = entry
        if tag == "o":
            return self._objects[number]
        if tag == "library":
            __import__(number)
            return getattr(sys.modules[number], rest[0])
        return {"function": _TheirFunction, "iterator": _TheirIterator}.get(rest[0], _TheirObject)(self.ask, number)

    # ---- what the judge asks ----

    def do_load(self) -> list[str]:
        """Run the program, and return the names that it defines. Its own demonstration (``__main__``) does not run."""
        code = compile(self._program, "program.py", "exec", dont_inherit=True)
        exec(code, vars(self._module))  # noqa: S102 - running it is the purpose
        return [name for name in list(vars(self._module)) if isinstance(name, str)]

    def do_value(self, expression: str) -> Any:
        """Return the value of an expression, in which the names are the program's."""
        return eval(expression, vars(self._module))  # noqa: S307 - running it is the purpose

    def do_name(self, name: str) -> Any:
        """Return what a name of the program stands for now."""
        return vars(self._module)[name]

    def do_setname(self, name: str, value: Any) -> None:
        """Set a variable of the program."""
        setattr(self._module, name, value)

    def do_delname(self, name: str) -> None:
        """Remove a variable of the program."""
        delattr(self._module, name)

    def do_call(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function or a class."""
        return self._objects[number](*args, **kwargs)

    def do_await(self, number: int) -> Any:
        """Run a coroutine to its end."""
        import asyncio

        async def awaited() -> Any:
            return await self._objects[number]

        return asyncio.run(awaited())

    def do_isinstance(self, value: Any, number: int) -> bool:
        """Return whether a value is of a class."""
        return isinstance(value, self._objects[number])

    def do_issubclass(self, kind: Any, number: int) -> bool:
        """Return whether a class is a subclass of another."""
        return issubclass(kind, self._objects[number])

    def do_apply(self, name: str, number: int, *values: Any) -> Any:
        """Apply one of the operations on an object."""
        return _OPERATIONS[name](self._objects[number], *values)


def _exit(value: Any, kind: type[BaseException] | None = None, args: tuple[Any, ...] = ()) -> Any:
    """Leave a ``with``, also by an exception of the tests."""
    try:
        error = kind and kind(*args)
    except Exception:  # noqa: BLE001 - its class wants other arguments
        error = kind and kind.__new__(kind)
    return type(value).__exit__(value, kind, error, None)


def _reflected(operate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda right, left: operate(left, right)


_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift", "and", "or", "xor")
_OPERATIONS: dict[str, Callable[..., Any]] = {
    **{function.__name__: function for function in (getattr, setattr, delattr, iter, next, len, bool, str, repr, dir)},
    **{function.__name__: function for function in (int, float, round)},
    **{name: getattr(operator, name) for name in ("getitem", "setitem", "delitem", "contains")},
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "invert", "abs")},
    **{name: getattr(operator, f"__{name}__") for name in _BINARY},
    **{f"i{name}": getattr(operator, f"__i{name}__") for name in _BINARY},
    **{f"r{name}": _reflected(getattr(operator, f"__{name}__")) for name in _BINARY},
    "enter": lambda value: type(value).__enter__(value),
    "exit": _exit,
    "reversed": reversed,
}


# ---- what the tests gave the program ----


class _Theirs:
    """Something of the tests that is not plain data."""

    def __init__(self, ask: Callable[..., Any], number: int) -> None:
        object.__setattr__(self, "number_there", number)
        object.__setattr__(self, "_ask", ask)

    number_there: int
    _ask: Callable[..., Any]


class _TheirFunction(_Theirs):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._ask("call", self.number_there, args, kwargs)


class _TheirIterator(_Theirs):
    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._ask("next", self.number_there)


class _TheirObject(_Theirs):
    def __getattr__(self, name: str) -> Any:
        return self._ask("getattr", self.number_there, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._ask("setattr", self.number_there, name, value)


# ---- input and output ----


class _Bounded(io.RawIOBase):
    """Keeps the first bytes that are printed between two answers."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self._kept += bytes(data[: max(0, _MAX_PRINTED_BYTES - len(self._kept))])
        return len(data)

    def taken(self) -> str:
        text = self._kept.decode("utf-8", "replace")
        self._kept.clear()
        return text


class _Input(io.TextIOBase):
    """Reads the lines that the tests provide: from what ``sys.stdin`` is there."""

    def __init__(self, next_line: Callable[[], str]) -> None:
        self._next_line = next_line

    def readable(self) -> bool:
        return True

    def readline(self, _: int = -1, /) -> str:  # type: ignore[override]  # lines come whole
        return self._next_line()

    def read(self, _: int | None = -1, /) -> str:
        return "".join(iter(self._next_line, ""))
