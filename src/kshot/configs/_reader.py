"""The restricted reader of config files: for systems that cannot confine a process, no Python of a config is run.

It walks the file's syntax tree: literals, names, arithmetic, loops and comprehensions over plain data, f-strings,
imports, ``read_base``, and calls of the functions and methods that ``_reader_calls`` lists. Functions and classes of
the config are kept as names and never run. Standard library only.
"""

from __future__ import annotations

import ast
import builtins
import operator
import types
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

from kshot.cleanups.literals import comparison, either
from kshot.configs import _reader_calls as calls
from kshot.configs._language import Interpreter
from kshot.configs._stand_ins import AttributeDict, ReadBase, StandIn

# ---- values of expressions ----

_MAX_STEPS = 1_000_000
_OWN_NAMES = ("__file__", "__name__")

_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: calls.add,
    ast.Mult: calls.multiply,
    ast.Pow: calls.power,
    ast.Mod: calls.remainder,
    ast.Sub: operator.sub,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.BitOr: operator.or_,
}
_COLLECTIONS: dict[type[ast.AST], Callable[[Iterator[Any]], Any]] = {ast.List: list, ast.Tuple: tuple, ast.Set: set}
_UNARY: dict[type[ast.AST], Callable[[Any], Any]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


class Values:
    """Finds the values of expressions of one file."""

    def __init__(self, space: dict[str, Any]) -> None:
        """``space`` holds the file's names."""
        self._space = space
        self._scopes: list[dict[str, Any]] = []  # of comprehensions
        self._steps = 0

    def handler(self, verb: str, node: ast.AST) -> Callable[[Any], Any]:
        """Return the method for a node, and count a step."""
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise calls.refuse(f"more than {_MAX_STEPS:,} steps")
        name = type(node).__name__
        found: Callable[[Any], Any] | None = getattr(self, f"_{verb}_{name}", None)
        if found is None:
            raise calls.refuse(f"{'an expression' if verb == 'get' else 'a statement'} of the kind {name}")
        return found

    def assign(self, target: ast.expr, value: Any) -> None:
        """Give a value to what stands left of an equals sign."""
        match target:
            case ast.Name(id=name):
                (self._scopes[-1] if self._scopes else self._space)[named(name)] = value
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                values = list(value)
                if len(values) != len(parts):
                    raise ValueError(f"{len(values)} values for {len(parts)} names")
                for part, each in zip(parts, values, strict=True):
                    self.assign(part, each)
            case ast.Subscript(value=owner, slice=place):
                found = self.value(owner)
                if not isinstance(found, (dict, list)):
                    raise calls.refuse(f"an element of a {type(found).__name__}")
                found[self.value(place)] = value
            case ast.Attribute(value=owner, attr=name):
                found = self.value(owner)
                if not isinstance(found, AttributeDict):
                    raise calls.refuse(f"an attribute of a {type(found).__name__}")
                found[named(name)] = value
            case _:
                raise calls.refuse(f"an assignment to {type(target).__name__}")

    # ---- expressions ----

    def value(self, node: ast.expr) -> Any:
        """Return the value of an expression."""
        return self.handler("get", node)(node)

    def items(self, node: ast.expr) -> Iterator[Any]:
        """Return what a loop runs over."""
        found = self.value(node)
        if not isinstance(found, (str, list, tuple, set, frozenset, dict, range)):
            raise calls.refuse(f"a loop over a {type(found).__name__}")
        return iter(list(found))

    def _get_Constant(self, node: ast.Constant) -> Any:  # noqa: N802
        return node.value

    def _get_Name(self, node: ast.Name) -> Any:  # noqa: N802
        for scope in (*reversed(self._scopes), self._space, calls.BUILTINS):
            if named(node.id) in scope:
                return scope[node.id]
        if hasattr(builtins, node.id):  # the reader does not know all of Python's names
            raise calls.refuse(f"the name {node.id}")
        raise NameError(f"name {node.id!r} is not defined")

    def _get_NamedExpr(self, node: ast.NamedExpr) -> Any:  # noqa: N802
        self._space[named(node.target.id)] = value = self.value(node.value)
        return value

    def _get_List(self, node: ast.List | ast.Tuple | ast.Set) -> Any:  # noqa: N802
        return _COLLECTIONS[type(node)](self._elements(node.elts))

    _get_Tuple = _get_Set = _get_List  # noqa: N815 - named after the nodes

    def _elements(self, nodes: list[ast.expr]) -> Iterator[Any]:
        for node in nodes:
            if isinstance(node, ast.Starred):
                yield from self.items(node.value)
            else:
                yield self.value(node)

    def _get_Dict(self, node: ast.Dict) -> dict[Any, Any]:  # noqa: N802
        found: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                found.update(self._mapping(value))
            else:
                found[self.value(key)] = self.value(value)
        return found

    def _mapping(self, node: ast.expr) -> dict[Any, Any]:
        found = self.value(node)
        if not isinstance(found, dict):
            raise calls.refuse(f"** of a {type(found).__name__}")
        return found

    def _get_Attribute(self, node: ast.Attribute) -> Any:  # noqa: N802
        return self.attribute(self.value(node.value), node.attr)

    def attribute(self, owner: Any, name: str) -> Any:
        """Return an attribute of a name, a config file or a config's dict."""
        named(name)
        if isinstance(owner, calls.StandardName):
            return calls.StandardName(f"{owner.called}.{name}")
        if isinstance(owner, AttributeDict):
            return owner[name]
        if isinstance(owner, types.ModuleType):
            if name not in vars(owner):
                raise ImportError(f"cannot import name {name!r} from {owner.__name__}")
            return vars(owner)[name]
        if isinstance(owner, StandIn):
            return getattr(owner, name)
        raise calls.refuse(f"the attribute {name} of a {type(owner).__name__}")

    def _get_Call(self, node: ast.Call) -> Any:  # noqa: N802
        args = list(self._elements(node.args))
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            kwargs.update({keyword.arg: self.value(keyword.value)} if keyword.arg else self._mapping(keyword.value))
        if isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value)
            if isinstance(owner, (str, list, dict, tuple, set, calls.OpenedText)):
                return calls.method(owner, node.func.attr, args, kwargs)
            return calls.called(self.attribute(owner, node.func.attr), args, kwargs, self._space)
        return calls.called(self.value(node.func), args, kwargs, self._space)

    def _get_Lambda(self, _: ast.Lambda) -> Any:  # noqa: N802
        return calls.not_run("function", "<lambda>")

    def _get_Subscript(self, node: ast.Subscript) -> Any:  # noqa: N802
        owner = self.value(node.value)
        if not isinstance(owner, (str, list, tuple, dict, range)):
            raise calls.refuse(f"an element of a {type(owner).__name__}")
        return owner[self.value(node.slice)]

    def _get_Slice(self, node: ast.Slice) -> slice:  # noqa: N802
        return slice(*(None if each is None else self.value(each) for each in (node.lower, node.upper, node.step)))

    def _get_BinOp(self, node: ast.BinOp) -> Any:  # noqa: N802
        return self.operated(node.op, self.value(node.left), self.value(node.right))

    @staticmethod
    def operated(kind: ast.AST, left: Any, right: Any) -> Any:
        """Return the result of an operator."""
        if type(kind) not in _OPERATORS:
            raise calls.refuse(f"the operator {type(kind).__name__}")
        return _OPERATORS[type(kind)](left, right)

    def _get_UnaryOp(self, node: ast.UnaryOp) -> Any:  # noqa: N802
        if type(node.op) not in _UNARY:
            raise calls.refuse(f"the operator {type(node.op).__name__}")
        return _UNARY[type(node.op)](self.value(node.operand))

    def _get_BoolOp(self, node: ast.BoolOp) -> Any:  # noqa: N802
        return either(node, self.value)

    def _get_Compare(self, node: ast.Compare) -> Any:  # noqa: N802
        return comparison(node, self.value)

    def _get_IfExp(self, node: ast.IfExp) -> Any:  # noqa: N802
        return self.value(node.body if self.value(node.test) else node.orelse)

    def _get_JoinedStr(self, node: ast.JoinedStr) -> str:  # noqa: N802
        return str(calls.sized("".join(str(self.value(part)) for part in node.values)))

    def _get_FormattedValue(self, node: ast.FormattedValue) -> str:  # noqa: N802
        form = "" if node.format_spec is None else self.value(node.format_spec)
        return calls.one_formatted(self.value(node.value), chr(node.conversion) if node.conversion > 0 else "", form)

    # ---- comprehensions ----

    def _get_ListComp(self, node: ast.ListComp | ast.GeneratorExp) -> list[Any]:  # noqa: N802
        found: list[Any] = []
        self._loop(node.generators, lambda: found.append(self.value(node.elt)))
        return found

    _get_GeneratorExp = _get_ListComp  # noqa: N815 - named after the node

    def _get_SetComp(self, node: ast.SetComp) -> set[Any]:  # noqa: N802
        found: set[Any] = set()
        self._loop(node.generators, lambda: found.add(self.value(node.elt)))
        return found

    def _get_DictComp(self, node: ast.DictComp) -> dict[Any, Any]:  # noqa: N802
        found: dict[Any, Any] = {}
        self._loop(node.generators, lambda: found.update({self.value(node.key): self.value(node.value)}))
        return found

    def _loop(self, generators: list[ast.comprehension], take: Callable[[], None]) -> None:
        self._scopes.append({})
        try:
            self._nested(generators, take)
        finally:
            self._scopes.pop()

    def _nested(self, generators: list[ast.comprehension], take: Callable[[], None]) -> None:
        if not generators:
            take()
            return
        first, *rest = generators
        for value in self.items(first.iter):
            self.assign(first.target, value)
            if all(self.value(test) for test in first.ifs):
                self._nested(rest, take)


def named(name: str) -> str:
    """Return a name that a config may use."""
    if name.startswith("__") and name not in _OWN_NAMES:
        raise calls.refuse(f"the name {name}")
    return name


# ---- statements ----


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
