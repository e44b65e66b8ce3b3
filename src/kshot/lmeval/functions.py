"""The functions that task files name by ``!function``: they run confined, in one worker for each tree of tasks."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from kshot.core.errors import DataError
from kshot.core.metric import Observation
from kshot.core.records import Row
from kshot.lmeval.files import FunctionRef, TaskConfig
from kshot.sandbox.guest import CALL_SECONDS, Guest, GuestFault

TREE = "lm_eval.tasks"
"""The package as which the modules of a tree of tasks import each other."""
_ADAPTER = "kshot.lmeval._functions_adapter"
_CALLS_A_REQUEST, _ROWS_A_REQUEST, _GROUPS_A_REQUEST = 500, 2000, 50
_MAX_ROWS = 5_000_000
_MAX_SIBLINGS, _MAX_SCANNED_BYTES = 500, 1 << 20


class FunctionFault(DataError):  # noqa: N818 - it names what happened
    """A function of a task file failed on one of several calls; ``row`` is the number of the call."""

    def __init__(self, function: FunctionRef, row: int, fault: GuestFault) -> None:
        """Say which function, on which row, and what it raised where."""
        what = f"{function} fails on row {row}: {fault.what}"
        super().__init__(what, where=fault.where, hint=fault.hint)
        self.function, self.row, self.kind = function, row, fault.kind


class Functions:
    """The confined worker of one tree of tasks; it starts when a function is first called."""

    def __init__(
        self, tree: Path, readable: Sequence[Path] = (), *, network: bool = False, call_seconds: float = CALL_SECONDS
    ) -> None:
        """``tree``: the folder whose files import each other as ``lm_eval.tasks…``; ``readable``: what it may read."""
        self.tree = tree
        self.guest = Guest(
            f"the code of {tree}",
            {TREE: tree},
            _ADAPTER,
            readable=readable or [tree],
            cwd=tree,
            network=network,
            call_seconds=call_seconds,
            tuples=True,
        )
        self._names: dict[FunctionRef, str] = {}
        self._numbers: dict[Observation, int] = {}
        self._held: set[Observation] = set()

    def close(self) -> None:
        """End the worker; the next call starts another."""
        self.guest.close()

    def allow(self, config: TaskConfig) -> None:
        """Let the worker read what the functions of one more task need."""
        self.guest.allow_reading(*places_of(config)[1])

    # ---- calls ----

    def each(
        self,
        function: FunctionRef,
        calls: Sequence[Sequence[Any]],
        options: Mapping[str, Any] | None = None,
        *,
        keep_faults: bool = False,
    ) -> list[Any]:
        """Return what a function returns for each tuple of arguments; ``keep_faults``: a fault in place of a value."""
        return self._results("each", function, "calls", [tuple(call) for call in calls], options, keep=keep_faults)

    def measured(
        self,
        function: FunctionRef,
        options: Mapping[str, Any],
        pairs: Sequence[tuple[Any, Any]],
        *,
        keep_faults: bool = False,
    ) -> list[Any]:
        """Return what a metric gives each pair of gold and response, called as lm-eval calls metrics."""
        return self._results("measure", function, "pairs", [tuple(pair) for pair in pairs], options, keep=keep_faults)

    def _results(
        self,
        action: str,
        function: FunctionRef,
        called: str,
        given: Sequence[Any],
        options: Mapping[str, Any] | None,
        *,
        keep: bool,
    ) -> list[Any]:
        results: list[Any] = []
        while len(results) < len(given):
            batch = given[len(results) : len(results) + _CALLS_A_REQUEST]
            part = self._ask(action, function, options=dict(options or {}), **{called: batch})
            if not isinstance(part, list) or not 0 < len(part) <= len(batch):
                raise DataError(f"{function} gave no list of results", where=function.where)
            for found in part:
                results.append(self._result(function, len(results), found, keep=keep))
        return results

    def _result(self, function: FunctionRef, row: int, found: Any, *, keep: bool) -> Any:
        if isinstance(found, dict) and "value" in found:
            return found["value"]
        told = found.get("fault") if isinstance(found, dict) else None
        fault = FunctionFault(function, row, self.guest.described(told if isinstance(told, dict) else {}))
        if not keep:
            raise fault
        return fault

    def filtered(
        self, function: FunctionRef, options: Mapping[str, Any], responses: Sequence[Any], docs: Sequence[Row]
    ) -> list[Any]:
        """Return what a filter of a task makes of the responses to all requests."""
        given = {"responses": list(responses), "docs": [dict(doc) for doc in docs]}
        found = self._ask("filter", function, options=dict(options), **given)
        if not isinstance(found, list) or len(found) != len(responses):
            what = f"the filter {function} did not return one value for each of {len(responses)} requests"
            raise DataError(what, where=function.where)
        return found

    def summed(self, function: FunctionRef, groups: Sequence[Sequence[Observation]]) -> list[Any]:
        """Return what an aggregation makes of each group of values, or its fault.

        A value goes to the worker once, with a number by which groups name it.
        """
        found: list[Any] = []
        for start in range(0, len(groups), _GROUPS_A_REQUEST):
            part = groups[start : start + _GROUPS_A_REQUEST]
            told = self._summed(function, part) or self._summed(function, part)
            if not isinstance(told, list) or len(told) != len(part):
                raise DataError(f"{function} gave no list of results", where=function.where)
            found += [self._result(function, 0, each, keep=True) for each in told]
        return found

    def _summed(self, function: FunctionRef, groups: Sequence[Sequence[Observation]]) -> Any:
        """Ask once; where nothing comes back, the worker does not know all values, and must be told again."""
        wanted = dict.fromkeys(chain.from_iterable(groups))
        numbers = {each: self._numbers.setdefault(each, len(self._numbers)) for each in wanted}
        new = [[number, each.content] for each, number in numbers.items() if each not in self._held]
        named = [",".join(str(numbers[each]) for each in group) for group in groups]
        told = self._ask("sum_up", function, values=new, groups=named)
        self._held = self._held.union(wanted) if told else set()
        return told

    def find(self, function: FunctionRef) -> None:
        """Load a function without calling it; a file or name that is missing is an error."""
        self._ask("find", function)

    def value(self, function: FunctionRef) -> Any:
        """Return a thing that is no function, such as a list; a function is called without arguments."""
        return self._ask("value", function)

    def name(self, function: FunctionRef) -> str:
        """Return the name that a function has where it is defined."""
        if function not in self._names:
            self._names[function] = str(self._ask("name", function))
        return self._names[function]

    # ---- documents and examples ----

    def seed(self) -> None:
        """Seed the global generators as lm-eval does when a run starts."""
        self.guest.ask("seed")

    def documents(self, function: FunctionRef, rows: Sequence[Row]) -> tuple[list[Row], list[str] | None, bool]:
        """Return the rows that ``process_docs`` makes, their columns, and whether it drew from a global generator.

        The columns are None where it returned no table.
        """
        for start in range(0, max(1, len(rows)), _ROWS_A_REQUEST):
            part = [dict(row) for row in rows[start : start + _ROWS_A_REQUEST]]
            self.guest.ask("put", rows=part, fresh=start == 0)
        made = self._ask("process", function)
        size, columns = made.get("size"), made.get("columns")
        return list(self._kept(function, "", size)), columns, bool(made.get("drew"))

    def splits(self, function: FunctionRef, options: Mapping[str, Any]) -> dict[str, list[Row]]:
        """Return the splits that a ``custom_dataset`` makes."""
        sizes = self._ask("load", function, options=dict(options))
        if not isinstance(sizes, dict):
            raise DataError(f"{function} gave no splits", where=function.where)
        return {str(split): list(self._kept(function, str(split), size)) for split, size in sizes.items()}

    def _kept(self, function: FunctionRef, split: str, size: Any) -> Iterator[Row]:
        if type(size) is not int or not 0 <= size <= _MAX_ROWS:
            raise DataError(f"{function} gave no rows, or more than {_MAX_ROWS:,}", where=function.where)
        start = 0
        while start < size:
            try:
                part = self.guest.ask("rows", split=split, start=start, stop=start + _ROWS_A_REQUEST)
            except GuestFault as exc:
                raise self._told(function, exc) from exc
            if not isinstance(part, list) or not part or not all(isinstance(row, dict) for row in part):
                raise DataError(f"{function} gave something in place of rows", where=function.where)
            start += len(part)
            yield from part

    def sampled(
        self, function: FunctionRef, pool: Sequence[Row], docs: Sequence[Row | None], count: int, seed: int
    ) -> list[list[Row]]:
        """Return the examples that a sampler of a task chooses for each document; None: from the whole pool."""
        given = {"pool": [dict(row) for row in pool], "docs": [doc and dict(doc) for doc in docs]}
        found = self._ask("sample", function, count=count, seed=seed, **given)
        right = isinstance(found, list) and len(found) == len(docs)
        if not right or not all(isinstance(each, list) and len(each) == count for each in found):
            what = f"the sampler {function} did not choose {count} examples for each of {len(docs)} documents"
            raise DataError(what, where=function.where)
        chosen: list[list[Row]] = found
        return chosen

    def _ask(self, action: str, function: FunctionRef, **given: Any) -> Any:
        file = None if function.file is None else str(function.file)
        try:
            named = {"file": file, "module": function.module, "name": function.name}
            return self.guest.ask(action, function=named, **given)
        except GuestFault as exc:
            raise self._told(function, exc) from exc

    def _told(self, function: FunctionRef, fault: GuestFault) -> GuestFault:
        """Return a fault that names the function and where the task names it."""
        place = "" if fault.where == self.guest.label else f" ({fault.where})"
        return GuestFault(f"{function}: {fault.what}{place}", kind=fault.kind, where=function.where, hint=fault.hint)


# ---- where the code is ----


def functions_of(config: TaskConfig, *, network: bool = False, call_seconds: float = CALL_SECONDS) -> Functions:
    """Return the worker for the functions of a task."""
    tree, readable = places_of(config)
    return Functions(tree, readable, network=network, call_seconds=call_seconds)


def references(value: Any) -> Iterator[FunctionRef]:
    """Yield every function that a task names."""
    if isinstance(value, FunctionRef):
        yield value
    elif is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            yield from references(getattr(value, each.name))
    elif isinstance(value, (Mapping, list, tuple)):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from references(inner)


def places_of(config: TaskConfig) -> tuple[Path, list[Path]]:
    """Return the folder whose files import each other as ``lm_eval.tasks…``, and what the functions may read."""
    files = list(dict.fromkeys(_own_files(config)))
    own = [config.path.parent, *(file.parent for file in files)]
    if config.root is not None:
        return config.root, [config.root, *(place for place in own if not place.is_relative_to(config.root))]
    for folder in config.path.parents:
        if folder.name == "tasks" and folder.parent.name == "lm_eval":
            return folder, list(dict.fromkeys([folder, *own]))
    named = [tuple(ref.module.split(".")[2:]) for ref in references(config) if ref.module.startswith(f"{TREE}.")]
    tree, siblings = _siblings([(config.path, named), *((file, None) for file in files)])
    return tree or config.path.parent, list(dict.fromkeys([*own, *siblings]))


def _own_files(config: TaskConfig) -> Iterator[Path]:
    """Yield the files of the functions; refuse one that lies outside the task's tree, by its path or by a link.

    What lies beside it may be read too, and a stranger's task must not read any folder of this machine.
    """
    around = [*(file.parent for file in config.files), config.path.parent, *filter(None, [config.root])]
    for ref in references(config):
        if ref.file is None:
            continue
        if not any(ref.file.is_relative_to(folder) for folder in around):
            what = f"!function {ref} leads to {ref.file}, outside the tree of the task"
            raise DataError(what, where=ref.where, hint="Copy the file beside the task file.")
        yield ref.file


def _siblings(waiting: list[tuple[Path, list[tuple[str, ...]] | None]]) -> tuple[Path | None, list[Path]]:
    """Return the folder that holds what files import as ``lm_eval.tasks…``, and the modules that they import.

    Each file comes with the modules that it names; None: they are read from it. Only Python files are found: what else
    lies beside them, in a folder that nobody named, is not the task's.
    """
    tree: Path | None = None
    found: dict[Path, None] = {}
    for file, named in waiting:  # which grows meanwhile
        for module in _sibling_modules(file) if named is None else named:
            for folder in (tree,) if tree is not None else file.parents[1:-1]:
                place = folder.joinpath(*module)
                module_file = place.with_name(f"{place.name}.py")
                if module_file.is_file():
                    tree = folder
                    if module_file not in found and len(found) < _MAX_SIBLINGS:
                        found[module_file] = None
                        waiting.append((module_file, None))
                    break
    return tree, list(found)


def _sibling_modules(file: Path) -> Iterator[tuple[str, ...]]:
    """Yield the names, below ``lm_eval.tasks``, of what a file imports: modules, packages, or names in them."""
    try:
        with file.open("rb") as opened:
            parsed = ast.parse(opened.read(_MAX_SCANNED_BYTES))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return  # what is wrong with it is told when it is run
    for node in ast.walk(parsed):
        names = [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
        origin = node.module if isinstance(node, ast.ImportFrom) and not node.level else None
        for name in names if origin is None else [origin, *(f"{origin}.{name}" for name in names)]:
            if name.startswith(f"{TREE}."):
                yield tuple(name.split(".")[len(TREE.split(".")) :])
