"""Plain data as bytes, between a program and its judge. Runs inside both confined processes.

A message is JSON. Small values stand for themselves; every other one is ``[number]``, its place in the message's table.
The table is flat, so no value is too deep to be read, and what is shared or refers to itself stays so. A reader makes
values of Python's own types and nothing else: no name in a message leads to code.
"""

from __future__ import annotations

import builtins
import json
import os
import struct
import sys
from collections import Counter, OrderedDict, deque, namedtuple
from functools import lru_cache
from keyword import iskeyword

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MAX_FRAME_BYTES = 64 << 20
MAX_REPORT_BYTES = 1 << 16
"""What the judge reports to kshot has at most so many bytes."""
_SIZE = struct.Struct(">Q")
_SMALL = 1 << 53
_PLAIN = (bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range, slice)
_BUILTIN_NAMES = {id(value): value.__name__ for value in _PLAIN} | {
    id(value): name
    for name, value in vars(builtins).items()
    if value in (..., NotImplemented) or (isinstance(value, type) and issubclass(value, BaseException))
    if not (isinstance(value, type) and issubclass(AssertionError, value))
}
"""What goes as itself, by name: types of plain data and exceptions. No function does: ``eval`` stays where it is.

Neither does a class that catches failed assertions: else ``except MyError`` would, where a program has
``MyError = Exception``.
"""
_NUMPY_KINDS = "biufc"
_MAX_KINDS = 1000


class Garbled(Exception):  # noqa: N818 - it says what was received
    """What was received is no message."""


# ---- frames ----


def write_frame(descriptor: int, message: dict[str, Any]) -> None:
    """Write one message."""
    body = json.dumps(message, allow_nan=False, separators=(",", ":")).encode("ascii")
    data = memoryview(_SIZE.pack(len(body)) + body)
    while data:
        data = data[os.write(descriptor, data) :]


def read_frame(descriptor: int) -> dict[str, Any]:
    """Return the next message; ``EOFError`` where there is none, ``Garbled`` where it is something else."""
    (size,) = _SIZE.unpack(read_exactly(descriptor, _SIZE.size))
    if size > MAX_FRAME_BYTES:
        raise Garbled(f"a message of more than {MAX_FRAME_BYTES >> 20} MB")
    try:
        message = json.loads(read_exactly(descriptor, size), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise Garbled("a message that is not JSON") from None
    if not isinstance(message, dict):
        raise Garbled("a message without names")
    return message


def read_exactly(descriptor: int, size: int) -> bytes:
    """Return so many bytes, and read not one more; ``EOFError`` where there are fewer."""
    parts, missing = [], size
    while missing:
        part = os.read(descriptor, min(missing, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


# ---- writing ----


class Encoder:
    """Makes the values of one message.

    ``export`` returns the entry of a value that is not plain data. ``known`` are the objects that came with the request
    which is being answered, by their numbers there: they go back as themselves.
    """

    def __init__(self, export: Callable[[Any], list[Any]], known: dict[int, Any] | None = None) -> None:
        self._export = export
        self._table: list[Any] = []
        self._numbers: dict[int, int] = {}
        self.values: dict[int, Any] = {}
        """The changeable values by their numbers. They stay alive, so that no other value gets their identity."""
        self._kept: list[Any] = []
        self._waiting: list[tuple[int, Any]] = []
        self._known = {id(value): number for number, value in (known or {}).items()}

    def value(self, value: Any) -> Any:
        """Return what stands for a value."""
        if value is None or value is True or value is False:
            return value
        kind = type(value)
        if kind is str or (kind is int and -_SMALL < value < _SMALL):
            return value
        if kind is float and value - value == 0:  # neither infinite nor a nan
            return value
        found = self._numbers.get(id(value))
        return [self._add(value) if found is None else found]

    def table(self) -> list[Any]:
        """Return the table, when everything has been added."""
        while self._waiting:
            number, value = self._waiting.pop()
            self._table[number] = self.content(value)
        return self._table

    def content(self, value: Any) -> list[Any]:
        """Return the entry of a changeable value: its kind and what it holds now."""
        for kind, tag in _CHANGEABLE:
            if isinstance(value, kind):
                if tag == "B":
                    return [tag, bytes(value).hex()]
                if tag in _MAPPINGS:
                    return [tag, [[self.value(key), self.value(each)] for key, each in list(kind.items(value))]]
                return [tag, [self.value(each) for each in list(kind.__iter__(value))]]
        raise TypeError(type(value).__name__)

    def _add(self, value: Any) -> int:
        if id(value) in self._known:
            entry: list[Any] | None = ["a", self._known[id(value)]]
        elif isinstance(value, _CHANGEABLE_TYPES):
            entry = None
        else:
            entry = self._fixed(value)
        number = len(self._table)
        self._table.append(entry)
        self._numbers[id(value)] = number
        self._kept.append(value)
        if entry is None:  # what it holds comes later: it may hold itself
            self.values[number] = value
            self._waiting.append((number, value))
        return number

    def _fixed(self, value: Any) -> list[Any]:
        """Return the entry of a value that cannot change."""
        for kind, encode in _FIXED.items():
            if isinstance(value, kind):
                return encode(self, value)
        if id(value) in _BUILTIN_NAMES:
            return ["y", _BUILTIN_NAMES[id(value)]]
        return self._numeric(value) or self._export(value)

    def tuple_entry(self, value: Any) -> list[Any]:
        """Return the entry of a tuple; that of a named one has its names, and the entry of its class."""
        kind = type(value)
        items = [self.value(each) for each in tuple.__iter__(value)]
        names = None if kind is tuple else getattr(kind, "_fields", None)
        if names is None or not _are_names(names) or len(names) != len(items):
            return ["t", items]
        return ["nt", str(kind.__name__), list(names), items, self._export(kind)]

    def _numeric(self, value: Any) -> list[Any] | None:
        """Return the entry of a number or an array of other modules; None: it is neither."""
        module, name = type(value).__module__, type(value).__name__
        if (module, name) in _FROM_TEXT:
            return ["n", f"{module}.{name}", _FROM_TEXT[module, name][0](value)]
        numpy: Any = sys.modules.get("numpy") if module == "numpy" else None
        if numpy is None:
            return None
        if isinstance(value, numpy.ndarray) and value.dtype.kind in _NUMPY_KINDS:
            flat = [self.value(each) for each in value.ravel().tolist()]
            return ["array", value.dtype.str, list(value.shape), flat]
        return ["g", value.dtype.str, self.value(value.item())] if isinstance(value, numpy.generic) else None


_CHANGEABLE: tuple[tuple[Any, str], ...] = (
    *((list, "l"), (OrderedDict, "od"), (Counter, "co"), (dict, "d"), (set, "s"), (bytearray, "B"), (deque, "q")),
)
_CHANGEABLE_TYPES = tuple(kind for kind, _ in _CHANGEABLE)
_MAPPINGS = ("d", "od", "co")

_FIXED: dict[type, Callable[[Encoder, Any], list[Any]]] = {
    tuple: lambda encoder, value: encoder.tuple_entry(value),
    str: lambda _, value: ["x", str.__getitem__(value, slice(None))],
    int: lambda _, value: ["i", hex(int.__index__(value))],
    float: lambda _, value: ["f", float.hex(value)],
    complex: lambda _, value: ["c", float.hex(value.real), float.hex(value.imag)],
    bytes: lambda _, value: ["b", bytes.hex(value)],
    frozenset: lambda encoder, value: ["z", [encoder.value(each) for each in frozenset.__iter__(value)]],
    range: lambda encoder, value: ["r", *(encoder.value(each) for each in (value.start, value.stop, value.step))],
    slice: lambda encoder, value: ["sl", *(encoder.value(each) for each in (value.start, value.stop, value.step))],
    type({}.keys()): lambda encoder, value: ["dk", [encoder.value(each) for each in value]],
    type({}.values()): lambda encoder, value: ["dv", [encoder.value(each) for each in value]],
    type({}.items()): lambda encoder, value: ["di", [[encoder.value(each) for each in pair] for pair in value]],
}
"""By type: how the entry of a value is made. A value of a subclass goes as one of the type itself."""


def _duration(value: Any) -> str:
    return f"{value.days} {value.seconds} {value.microseconds}"


# module and name of a type → the text of a value, and the value of a text
_FROM_TEXT: dict[tuple[str, str], tuple[Callable[[Any], str], Callable[[Any, str], Any]]] = {
    ("fractions", "Fraction"): (str, lambda kind, text: kind(text)),
    ("decimal", "Decimal"): (str, lambda kind, text: kind(text)),
    ("datetime", "date"): (str, lambda kind, text: kind.fromisoformat(text)),
    ("datetime", "time"): (lambda value: value.isoformat(), lambda kind, text: kind.fromisoformat(text)),
    ("datetime", "datetime"): (lambda value: value.isoformat(), lambda kind, text: kind.fromisoformat(text)),
    ("datetime", "timedelta"): (_duration, lambda kind, text: kind(*(int(part) for part in text.split()))),
    ("uuid", "UUID"): (str, lambda kind, text: kind(text)),
}


# ---- reading ----


class Decoder:
    """Makes values of one message.

    ``resolve`` returns what an entry of ``Encoder.export`` stands for; ``mine`` are the objects that were sent with the
    request which this message answers.
    """

    def __init__(self, table: Any, resolve: Callable[[list[Any]], Any], mine: dict[int, Any] | None = None) -> None:
        self.resolve, self._mine = resolve, mine or {}
        self._values: list[Any] = []
        self.changeable: dict[int, Any] = {}
        """The changeable values by their numbers."""
        try:
            for number, entry in enumerate(table):
                made = self._made(entry)
                self._values.append(made)
                if entry[0] in _EMPTY:
                    self.changeable[number] = made
            for number, made in self.changeable.items():
                self.fill(made, table[number])
        except Garbled:
            raise
        except Exception as error:  # noqa: BLE001 - a stranger wrote it: whatever is wrong with it, it is no message
            raise Garbled(f"a value that cannot be read ({type(error).__name__})") from None

    def value(self, form: Any) -> Any:
        """Return the value that a form stands for."""
        if form is None or isinstance(form, str | int | float):
            return form
        if isinstance(form, list) and len(form) == 1 and type(form[0]) is int and 0 <= form[0] < len(self._values):
            return self._values[form[0]]
        raise Garbled("a value that cannot be read")

    def fill(self, made: Any, entry: list[Any]) -> None:
        """Give a changeable value what its entry holds, instead of what it held."""
        tag, content = entry
        if _EMPTY[tag] is not type(made) and not isinstance(made, _EMPTY[tag]):
            raise Garbled("a value of another type")
        if tag == "B":
            made[:] = bytes.fromhex(content)
        elif tag in _MAPPINGS:
            pairs = [(self.value(key), self.value(each)) for key, each in content]
            made.clear()
            made.update(dict(pairs))
        elif tag == "l":
            made[:] = [self.value(each) for each in content]
        else:
            items = [self.value(each) for each in content]
            made.clear()
            (made.extend if tag == "q" else made.update)(items)

    def _made(self, entry: Any) -> Any:
        tag = entry[0]
        if tag in _EMPTY:
            return _EMPTY[tag]()
        if tag in _MADE:
            return _MADE[tag](self, *entry[1:])
        if tag == "a":
            return self._mine[entry[1]]
        return self.resolve(entry)


def _are_names(names: Any) -> bool:
    """Whether these can be the names of a named tuple, and hide nothing that a tuple has."""
    return isinstance(names, tuple | list) and all(
        type(name) is str
        and name.isidentifier()
        and not iskeyword(name)
        and name[0] != "_"
        and not hasattr(tuple, name)
        for name in names
    )


def _named_tuple(decoder: Decoder, name: str, names: list[str], forms: list[Any], exported: list[Any]) -> Any:
    """Return a named tuple: of this process's class where it came from here, else of one made from its names alone."""
    if not _are_names(names) or len(names) != len(forms) or len(set(names)) != len(names):
        raise Garbled("names of a tuple that cannot be read")
    kind: Any = decoder.resolve(exported) if exported[0] == "o" else None
    if not (isinstance(kind, type) and issubclass(kind, tuple)):
        shown = name if isinstance(name, str) and name.isidentifier() and not iskeyword(name) else "Named"
        kind = _named_kind(shown, tuple(names), exported[1])
    return tuple.__new__(kind, _items(decoder, forms))


@lru_cache(_MAX_KINDS)
def _named_kind(name: str, names: tuple[str, ...], number: int) -> Any:
    made: Callable[..., Any] = namedtuple  # noqa: PYI024 - the names are only known now
    kind = made(name, names)
    kind.number_there = number
    return kind


_EMPTY: dict[str, Any] = {tag: kind for kind, tag in _CHANGEABLE}


def _named_builtin(_: Decoder, name: str) -> Any:
    value = vars(builtins)[name]
    if id(value) not in _BUILTIN_NAMES:
        raise Garbled("a name that stands for no plain type")
    return value


def _from_text(_: Decoder, name: str, text: str) -> Any:
    module, _dot, kind = name.partition(".")
    make = _FROM_TEXT[module, kind][1]
    return make(getattr(__import__(module), kind), text)


def _array(decoder: Decoder, dtype: str, shape: list[int], flat: list[Any]) -> Any:
    import numpy as np

    if np.dtype(dtype).kind not in _NUMPY_KINDS:
        raise Garbled("an array of something else")
    return np.array([decoder.value(each) for each in flat], dtype=dtype).reshape(shape)


def _scalar(decoder: Decoder, dtype: str, form: Any) -> Any:
    import numpy as np

    kind = np.dtype(dtype)
    return kind.type(decoder.value(form)) if kind.kind in _NUMPY_KINDS else decoder.value(form)


def _items(decoder: Decoder, forms: list[Any]) -> list[Any]:
    return [decoder.value(form) for form in forms]


_MADE: dict[str, Callable[..., Any]] = {
    "t": lambda decoder, forms: tuple(_items(decoder, forms)),
    "nt": _named_tuple,
    "z": lambda decoder, forms: frozenset(_items(decoder, forms)),
    "x": lambda _, text: str(text),
    "i": lambda _, text: int(text, 16),
    "f": lambda _, text: float.fromhex(text),
    "c": lambda _, real, imaginary: complex(float.fromhex(real), float.fromhex(imaginary)),
    "b": lambda _, text: bytes.fromhex(text),
    "r": lambda decoder, *forms: range(*_items(decoder, list(forms))),
    "sl": lambda decoder, *forms: slice(*_items(decoder, list(forms))),
    "dk": lambda decoder, forms: dict.fromkeys(_items(decoder, forms)).keys(),
    "dv": lambda decoder, forms: dict(enumerate(_items(decoder, forms))).values(),
    "di": lambda decoder, pairs: {decoder.value(key): decoder.value(each) for key, each in pairs}.items(),
    "y": _named_builtin,
    "n": _from_text,
    "array": _array,
    "g": _scalar,
}
