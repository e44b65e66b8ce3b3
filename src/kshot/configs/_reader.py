"""The restricted reader of config files: for systems that cannot confine a process, no Python of a config is run.

It walks the file's syntax tree: literals, names, arithmetic, loops and comprehensions over plain data, f-strings,
imports, ``read_base``, and calls of the functions and methods that ``_reader_calls`` lists. Functions and classes of
the config are kept as names and never run. Standard library only.
"""

from __future__ import annotations

import ast
from contextlib import nullcontext
from typing import Any

from kshot.configs import _reader_calls as calls
from kshot.configs._language import Interpreter
from kshot.configs._reader_values import Values, named
from kshot.configs._stand_ins import ReadBase, StandIn


class _Break(Exception):  # noqa: N818 - control flow
    pass


class _Continue(Exception):  # noqa: N818 - control flow
    pass


class RestrictedInterpreter(Interpreter):
    """Reads config files without running them."""

    def execute(self, text: str, path: str, space: dict[str, Any]) -> None:
        """Walk the file's statements."""
        del space["__builtins__"]
        space["__name__"] = "config"
        Reader(self, path, space).run(ast.parse(text, path).body)


class Reader(Values):
    """Walks the statements of one file."""

    def __init__(self, interpreter: RestrictedInterpreter, path: str, space: dict[str, Any]) -> None:
        """``space`` holds the file's names."""
        super().__init__(space)
        self._interpreter, self._path = interpreter, path

    # ---- statements ----

    def run(self, body: list[ast.stmt]) -> None:
        """Carry statements out."""
        for node in body:
            try:
                self.handler("do", node)(node)
            except (_Break, _Continue):  # noqa: PERF203 - each statement may be the one that fails
                raise
            except Exception as error:
                self._interpreter.located(error, self._path, node.lineno)
                raise

    def _do_Expr(self, node: ast.Expr) -> None:  # noqa: N802 - named after the nodes, here and below
        self.value(node.value)

    def _do_Pass(self, _: ast.Pass) -> None:  # noqa: N802
        pass

    def _do_Break(self, _: ast.Break) -> None:  # noqa: N802
        raise _Break

    def _do_Continue(self, _: ast.Continue) -> None:  # noqa: N802
        raise _Continue

    def _do_Assign(self, node: ast.Assign) -> None:  # noqa: N802
        value = self.value(node.value)
        for target in node.targets:
            self.assign(target, value)

    def _do_AnnAssign(self, node: ast.AnnAssign) -> None:  # noqa: N802
        if node.value is not None:
            self.assign(node.target, self.value(node.value))

    def _do_AugAssign(self, node: ast.AugAssign) -> None:  # noqa: N802
        load: Any = type(node.target)(**{**dict(ast.iter_fields(node.target)), "ctx": ast.Load()})
        before, added = self.value(load), self.value(node.value)
        if isinstance(before, list) and isinstance(node.op, ast.Add):
            before.extend(added)
            self.assign(node.target, calls.sized(before))
        else:
            self.assign(node.target, self.operated(node.op, before, added))

    def _do_Delete(self, node: ast.Delete) -> None:  # noqa: N802
        for target in node.targets:
            if isinstance(target, ast.Name):
                del self._space[named(target.id)]
            elif isinstance(target, ast.Subscript):
                del self.value(target.value)[self.value(target.slice)]
            else:
                raise calls.refuse("del of an attribute")

    def _do_If(self, node: ast.If) -> None:  # noqa: N802
        self.run(node.body if self.value(node.test) else node.orelse)

    def _do_For(self, node: ast.For) -> None:  # noqa: N802
        for value in self.items(node.iter):
            self.assign(node.target, value)
            try:
                self.run(node.body)
            except _Break:
                return
            except _Continue:
                continue
        self.run(node.orelse)

    def _do_With(self, node: ast.With) -> None:  # noqa: N802
        (item, *others) = node.items
        found = self.value(item.context_expr)
        if others or not isinstance(found, (ReadBase, calls.OpenedText)):
            raise calls.refuse("'with' for anything but read_base() and open()")
        if item.optional_vars is not None:
            self.assign(item.optional_vars, found)
        with found if isinstance(found, ReadBase) else nullcontext():
            self.run(node.body)

    def _do_Try(self, node: ast.Try) -> None:  # noqa: N802
        try:
            self.run(node.body)
        except calls.NotRead:
            raise
        except Exception as error:
            for handler in node.handlers:
                if self._catches(handler.type, error):
                    self.run(handler.body)
                    break
            else:
                raise
        else:
            self.run(node.orelse)
        self.run(node.finalbody)

    def _catches(self, kind: ast.expr | None, error: Exception) -> bool:
        kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
        known = [calls.EXCEPTIONS.get(each.id) for each in kinds if isinstance(each, ast.Name)]
        return kind is None or any(each is not None and isinstance(error, each) for each in known)

    def _do_Import(self, node: ast.Import) -> None:  # noqa: N802
        for alias in node.names:
            whole = ("whole",) if alias.asname else ()
            found = self._imported(alias.name, whole, 0, node.lineno)
            self._space[named(alias.asname or alias.name.partition(".")[0])] = found

    def _do_ImportFrom(self, node: ast.ImportFrom) -> None:  # noqa: N802
        if node.module == "__future__":
            return
        wanted = tuple(alias.name for alias in node.names)
        found = self._imported(node.module or "", wanted, node.level, node.lineno)
        for alias in node.names:
            if alias.name == "*":
                self._space.update({n: v for n, v in vars(found).items() if not n.startswith("_")})
            else:
                self._space[named(alias.asname or alias.name)] = self.attribute(found, alias.name)

    def _imported(self, name: str, wanted: tuple[str, ...], level: int, line: int) -> Any:
        found = self._interpreter.imported(name, wanted, level, self._path, line)
        if found is not None:
            return found
        return calls.StandardName(name if wanted else name.partition(".")[0])

    def _do_FunctionDef(self, node: ast.FunctionDef | ast.ClassDef) -> None:  # noqa: N802
        kind = "class" if isinstance(node, ast.ClassDef) else "function"
        made = calls.not_run(kind, node.name)
        for decorator in node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else ast.Call(decorator, [], [])
            registers = self.value(call.func)
            if isinstance(registers, StandIn):
                args = [self.value(each) for each in call.args] or [node.name]
                registers(*args, **{key.arg or "": self.value(key.value) for key in call.keywords})(made)
        self._space[named(node.name)] = made

    _do_ClassDef = _do_FunctionDef  # noqa: N815 - named after the node
    _do_AsyncFunctionDef = _do_FunctionDef  # noqa: N815 - as above
