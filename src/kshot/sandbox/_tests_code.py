"""What the code of tests says before it runs: which names they take from the program. Runs in the judge's process.

All of it follows from the tests alone: a program cannot change it by what it defines.
"""

from __future__ import annotations

import builtins
import sys

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType
    from typing import Any

_ONLY_AST = 0x400
ALIASES = {"np": "numpy", "pd": "pandas"}
_BY_TEXT = frozenset({"eval", "exec", "getattr", "globals", "locals", "vars"})
"""These find a name that is a text."""
_HELPERS = frozenset({"abs", "all", "any", "callable", "getattr", "globals", "hasattr", "isinstance", "len", "print"})
_HELPERS |= {"repr", "round", "sorted", "vars"}
"""With these and with types, tests check what a function returned."""


class BrokenTests(Exception):  # noqa: N818 - it says what they are
    """The tests are no Python code."""


class TestsCode:
    """Tests, compiled.

    A name that Python's builtins or its library have is Python's own, whatever the program defines. Three kinds are the
    program's: what tests import from it, a name of a module that they call (``copy([1])``), and, where tests use no
    name that can be the program's alone, the one function that they test (``sum(1, 2)``).
    """

    def __init__(self, tests: str) -> None:
        try:
            tree: Any = compile(tests, "tests.py", "exec", _ONLY_AST, dont_inherit=True)
            self.code: CodeType = compile(tests, "tests.py", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise BrokenTests(f"{type(error).__name__}: {error}") from None
        nodes = list(_inner_first(tree))
        free = _free_names(tests)
        called = [node.func.id for node in nodes if _kind(node) == "Call" and _kind(node.func) == "Name"]
        self._functions = {name for name in called if not hasattr(builtins, name)}
        self.stops = "StopIteration" in free
        """Whether tests name ``StopIteration``, so that they may expect it of a call."""
        self.closings = frozenset(_closings(nodes))
        imports_program = _imports_program(nodes)
        uses_program = imports_program or not all(map(self.is_pythons, free))
        self.checks = any(_kind(node) == "Assert" or (uses_program and _kind(node) == "Call") for node in nodes)
        """Whether the tests assert something or call the program; a plain answer, such as 4, does neither."""
        if not imports_program and all(map(self.is_pythons, free | _texts(nodes, free))):
            self._functions |= _tested(nodes, called, free)

    def is_pythons(self, name: str) -> bool:
        """Return whether a name is Python's own in these tests."""
        known = hasattr(builtins, name) or name in sys.stdlib_module_names or name in ALIASES
        return known and name not in self._functions


def _kind(node: Any) -> str:
    return type(node).__name__


def _inner_first(tree: Any) -> Iterator[Any]:
    """Return all nodes, what is within a node before it, else in the order of the text."""
    waiting = [(tree, False)]
    while waiting:
        node, is_open = waiting.pop()
        if is_open:
            yield node
            continue
        waiting.append((node, True))
        held = [getattr(node, field, None) for field in node._fields]
        flat = [each for value in held for each in (value if isinstance(value, list) else [value])]
        waiting += [(each, False) for each in reversed(flat) if hasattr(each, "_fields")]


def _free_names(tests: str) -> set[str]:
    """Return the names that tests use as global ones and do not define."""
    import symtable

    top = symtable.symtable(tests, "tests.py", "exec")
    used: set[str] = set()
    defined: set[str] = set()
    waiting = [top]
    while waiting:
        table = waiting.pop()
        waiting += table.get_children()
        for symbol in table.get_symbols():
            if table is not top and not symbol.is_global():
                continue
            if symbol.is_referenced():
                used.add(symbol.get_name())
            if symbol.is_assigned() or symbol.is_imported():
                defined.add(symbol.get_name())
    return used - defined


def _imports_program(nodes: list[Any]) -> bool:
    """Return whether tests import the program, or names of it, and so say what they take."""
    return any(
        (_kind(node) == "Import" and any(alias.name == "program" for alias in node.names))
        or (_kind(node) == "ImportFrom" and node.module == "program" and node.names[0].name != "*")
        for node in nodes
    )


def _texts(nodes: list[Any], free: set[str]) -> set[str]:
    """Return the words of the texts in tests that look names up by text."""
    if not _BY_TEXT & free:
        return set()
    texts = [node.value for node in nodes if _kind(node) == "Constant" and isinstance(node.value, str)]
    letters = "".join(letter if letter.isidentifier() or letter.isdigit() else " " for letter in " ".join(texts))
    return set(letters.split())


def _tested(nodes: list[Any], called: list[str], free: set[str]) -> set[str]:
    """Return the one function with a name of Python's that tests seem to be about.

    It is what they give to a function of their own (``check(sum)``), else what they call most; of several, one that
    tests seldom check with, then the innermost: ``sum`` in ``abs(sum(1, 2) - 3) < 1e-6``.
    """
    given = [
        argument.id
        for node in nodes
        if _kind(node) == "Call" and _kind(node.func) == "Name" and node.func.id not in free
        for argument in node.args
        if _kind(argument) == "Name" and argument.id in free
    ]
    names = given or [name for name in called if name in free]

    def unlikely(name: str) -> tuple[bool, int, int]:
        value = getattr(builtins, name, None)
        return name in _HELPERS or isinstance(value, type), -names.count(name), names.index(name)

    return {min(names, key=unlikely)} if names else set()


def _closings(nodes: list[Any]) -> Iterator[tuple[int, int]]:
    """Return the lines of each ``with`` and of the ``raise`` that ends it: who stops that one skips no line."""
    for node in nodes:
        if _kind(node) == "With" and _kind(node.body[-1]) == "Raise":
            before = node.body[-2].end_lineno if len(node.body) > 1 else node.lineno
            if node.body[-1].lineno > before:
                yield node.lineno, node.body[-1].lineno
