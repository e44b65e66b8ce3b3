"""What one function of a task reads of a row, told by its source."""

import ast
import contextlib

from shape import ITEM

TEXT = {"strip", "lower", "upper", "split", "replace", "rstrip", "lstrip", "capitalize", "startswith", "endswith", "format", "title", "splitlines"}  # fmt: skip


class FunctionReader(ast.NodeVisitor):
    """Follows a row through a function: what is read of it, and how that is used."""

    def __init__(self, root, known):
        self.root, self.names, self.known, self.soft, self.consts = root, {}, known, {}, {}

    def valued(self, node):
        """The value of an expression of constants and known names; None where it has none."""
        if self.path(node) is not None or not isinstance(
            node, (ast.Name, ast.JoinedStr, ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Attribute, ast.Call)
        ):
            return None
        if isinstance(node, ast.Call) and not (
            isinstance(node.func, ast.Attribute) and node.func.attr in {"keys", "values"}
        ):
            return None
        with contextlib.suppress(Exception):
            return eval(compile(ast.Expression(node), "?", "eval"), {}, self.known)
        return None

    def path(self, node):
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        if isinstance(node, ast.Subscript):
            base = self.path(node.value)
            if base is None:
                return None
            if isinstance(node.slice, ast.Constant):
                return (*base, node.slice.value) if isinstance(node.slice.value, str) else (*base, ITEM) if base else ()
            if isinstance(node.slice, ast.Slice):
                return base
            if isinstance(node.slice, ast.Name) and self.consts.get(node.slice.id):
                return (*base, self.consts[node.slice.id][0])
            return (*base, ITEM) if base else ()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            base = self.path(node.func.value)
            if base is not None and node.func.attr == "get" and node.args and isinstance(node.args[0], ast.Constant):
                return (*base, str(node.args[0].value))
            if base is not None and node.func.attr in {"filter", "select", "map", "shuffle", "copy"}:
                return base
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {"enumerate", "list", "sorted", "zip"}
        ):
            return self.path(node.args[0]) if node.args else None
        return None

    def visit_FunctionDef(self, node):
        before = dict(self.names)
        for argument in [*node.args.posonlyargs, *node.args.args][:1]:
            self.names[argument.arg] = ()
        if node.args.args and node.args.args[0].arg == "self" and len(node.args.args) > 1:
            self.names[node.args.args[1].arg] = ()
        for name in ("doc", "example", "docs", "dataset", "row", "line", "item", "eg", "ex"):
            if any(argument.arg == name for argument in node.args.args):
                self.names[name] = ()
        for child in node.body:
            self.visit(child)
        self.names = before

    def visit_Lambda(self, node):
        before = dict(self.names)
        self.names |= {argument.arg: () for argument in node.args.args[:1]}
        self.visit(node.body)
        self.names = before

    def visit_Assign(self, node):
        self.visit(node.value)
        path = self.path(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.names[target.id] = path
                inner = (
                    node.value.args[0]
                    if isinstance(node.value, ast.Call) and node.value.args
                    else node.value.func.value
                    if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute)
                    else None
                )
                self.soft[target.id] = self.path(inner) if path is None and inner is not None else None
                if (
                    isinstance(node.value, ast.Call)
                    and isinstance(node.value.func, ast.Attribute)
                    and self.path(node.value.func.value)
                ):
                    self.names[target.id] = None

    def _loop(self, target, source):
        path = self.path(source)
        counted = isinstance(source, ast.Call) and isinstance(source.func, ast.Name) and source.func.id == "enumerate"
        names = [target] if isinstance(target, ast.Name) else list(getattr(target, "elts", []))
        if counted:
            names = names[1:]
        held = self.valued(source.args[0] if counted and source.args else source)
        if (
            isinstance(held, (list, tuple, str))
            and held
            and all(isinstance(one, str) for one in held)
            and names
            and isinstance(names[0], ast.Name)
        ):
            self.consts[names[0].id] = tuple(held)
        for name in names[:1]:
            if isinstance(name, ast.Name):
                self.names[name.id] = None if path is None else (*path, ITEM) if path else ()
                if path:
                    self.root.at((*path, ITEM))

    def visit_For(self, node):
        self.visit(node.iter)
        self._loop(node.target, node.iter)
        for child in [*node.body, *node.orelse]:
            self.visit(child)

    def _comprehension(self, node):
        before = dict(self.names)
        for part in node.generators:
            self.visit(part.iter)
            self._loop(part.target, part.iter)
            for test in part.ifs:
                self.visit(test)
        for field in ("elt", "key", "value"):
            if hasattr(node, field):
                self.visit(getattr(node, field))
        self.names = before

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = _comprehension

    def visit_Subscript(self, node):
        path = self.path(node)
        if path and isinstance(node.ctx, ast.Load):
            self.root.at(path)
            for name in self.consts.get(node.slice.id, ()) if isinstance(node.slice, ast.Name) else ():
                self.root.at((*path[:-1], name))
        index = self.path(node.slice) if not isinstance(node.slice, (ast.Constant, ast.Slice)) else None
        if index:
            held = self.valued(node.value)
            if isinstance(held, dict) and held:
                self.root.hint(index, ("oneof", tuple(held)))
            else:
                self.root.hint(index, ("index", len(held) if isinstance(held, (list, tuple, str)) else 0))
        self.generic_visit(node)

    def visit_Call(self, node):
        path = self.path(node)
        if path:
            self.root.at(path)
        first = self.path(node.args[0]) if node.args else None
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if first:
            hint = {
                "int": "digits",
                "float": "digits",
                "ord": "letter",
                "loads": "json",
                "literal_eval": "repr",
                "eval": "repr",
            }.get(name)
            if hint:
                self.root.hint(first, (hint,))
            if name == "index" and isinstance(node.func, ast.Attribute):
                self.root.hint(first, *self._members(node.func.value))
            if name == "join":
                self.root.at((*first, ITEM))
        if isinstance(node.func, ast.Attribute):
            base = self.path(node.func.value)
            if base and name in TEXT:
                self.root.hint(base, ("text",))
            if base and name == "startswith" and node.args:
                self._known_side(base, node.args[0])
            if base and name in {"keys", "values", "items"}:
                self.root.hint(base, ("dict",))
            if base and name in {"index", "append", "count"}:
                self.root.at((*base, ITEM))
        self.generic_visit(node)

    def _members(self, node):
        if isinstance(node, (ast.List, ast.Tuple)) and all(isinstance(one, ast.Constant) for one in node.elts):
            return [("oneof", tuple(one.value for one in node.elts))]
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return [("oneof", tuple(node.value))]
        held = self.valued(node)
        if isinstance(held, (list, tuple, str)) and held:
            return [("oneof", tuple(held))]
        path = self.path(node)
        return [("same", path)] if path else []

    def _known_side(self, path, other):
        held = self.valued(other)
        if isinstance(held, (str, int)):
            self.root.hint(path, ("const", held))
        elif isinstance(held, (list, tuple, set, dict)) and held and all(isinstance(one, (str, int)) for one in held):
            self.root.hint(path, ("oneof", tuple(held)))
        elif isinstance(other, ast.Name) and self.path(other) is None:
            self.root.hint(path, ("named",))

    def visit_Compare(self, node):
        sides = [node.left, *node.comparators]
        for one in sides:
            path = self.path(one) or (self.soft.get(one.id) if isinstance(one, ast.Name) else None)
            for other in sides:
                if path and other is not one and not isinstance(other, (ast.Constant, ast.List, ast.Tuple, ast.Set)):
                    self._known_side(path, other)
                if path and isinstance(other, ast.Constant):
                    self.root.hint(path, ("equal", other.value))
                if (
                    path
                    and isinstance(other, (ast.List, ast.Tuple, ast.Set))
                    and all(isinstance(held, ast.Constant) for held in other.elts)
                ):
                    self.root.hint(path, ("oneof", tuple(held.value for held in other.elts)))
        self.generic_visit(node)
