"""What jinja templates read of a row."""

from jinja2 import Environment, nodes
from shape import ITEM, Shape

ENVIRONMENT = Environment()
ENVIRONMENT.filters["regex_replace"] = lambda *a, **k: ""
TEXT_METHODS = {"strip", "lower", "upper", "split", "replace", "rstrip", "lstrip", "capitalize", "startswith", "endswith", "title"}  # fmt: skip
LIST_METHODS = {"index", "append", "count"}


def columns_of(template):
    """The shape of the rows that a template reads; none where it cannot be parsed."""
    root = Shape()
    try:
        tree = ENVIRONMENT.parse(template)
    except Exception:  # lm-eval itself will say what is wrong
        return root
    _Reader(root).read(tree, {})
    return root


class _Reader:
    def __init__(self, root):
        self.root = root

    def read(self, node, names):
        """Go through a template; names are loop and set variables with the paths that they stand for."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is not None and method(node, names):
            return
        path = self.path(node, names)
        if path:
            self.root.at(path)
        for child in node.iter_child_nodes():
            self.read(child, names)

    def path(self, node, names):
        """The path that an expression reads, or None."""
        if isinstance(node, nodes.Name):
            return (
                names.get(node.name, (node.name,)) if node.name not in {"loop", "namespace", "range", "dict"} else None
            )
        if isinstance(node, nodes.Getattr):
            base = self.path(node.node, names)
            return (
                (*base, node.attr)
                if base and node.attr not in TEXT_METHODS | LIST_METHODS | {"items", "keys", "values"}
                else None
            )
        if isinstance(node, nodes.Getitem):
            base = self.path(node.node, names)
            if not base:
                return None
            if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, (str, int)):
                return (*base, node.arg.value)
            return (*base, ITEM) if not isinstance(node.arg, nodes.Slice) else None
        return None

    def _for(self, node, names):
        names = dict(names)
        path = self.path(node.iter, names)
        if isinstance(node.iter, nodes.Call) and isinstance(node.iter.node, nodes.Getattr):
            path = None
        if isinstance(node.target, nodes.Name):
            names[node.target.name] = (*path, ITEM) if path else None
            if path:
                self.root.at(names[node.target.name])
        else:
            for name in node.target.find_all(nodes.Name):
                names[name.name] = None
        self.read(node.iter, names)
        for child in [*node.body, *node.else_]:
            self.read(child, names)
        return True

    def _assign(self, node, names):
        self.read(node.node, names)
        if isinstance(node.target, nodes.Name):
            names[node.target.name] = self.path(node.node, names)
        return True

    def _getitem(self, node, names):
        index = self.path(node.arg, names) if not isinstance(node.arg, (nodes.Const, nodes.Slice)) else None
        if index:
            size = len(node.node.items) if isinstance(node.node, nodes.List) else 0
            known = (
                [item.key.value for item in node.node.items if isinstance(item.key, nodes.Const)]
                if isinstance(node.node, nodes.Dict)
                else []
            )
            self.root.hint(index, ("oneof", tuple(known)) if known else ("index", size))
        return False

    def _call(self, node, names):
        if isinstance(node.node, nodes.Getattr) and node.args:
            argument = self.path(node.args[0], names)
            if node.node.attr == "index" and argument:
                self.root.hint(argument, *self._members(node.node.node, names))
            base = self.path(node.node.node, names)
            if base and node.node.attr in TEXT_METHODS:
                self.root.hint(base, ("text",))
            if base and node.node.attr == "index":
                self.root.at((*base, ITEM))
        return False

    def _members(self, node, names):
        if isinstance(node, nodes.List) and all(isinstance(item, nodes.Const) for item in node.items):
            return [("oneof", tuple(item.value for item in node.items))]
        path = self.path(node, names)
        if isinstance(node, nodes.List):
            paths = [self.path(item, names) for item in node.items]
            return [("same", found) for found in paths if found][:1]
        return [("same", path)] if path else []

    def _filter(self, node, names):
        path = self.path(node.node, names) if node.node is not None else None
        if path and node.name in {"int", "float"}:
            self.root.hint(path, ("digits",))
        elif path and node.name in {"trim", "replace", "capitalize", "upper", "lower", "regex_replace", "title"}:
            self.root.hint(path, ("text",))
        elif path and node.name in {"join", "map", "first", "last"}:
            self.root.at((*path, ITEM))
        return False

    def _compare(self, node, names):
        path = self.path(node.expr, names)
        for operand in node.ops:
            if path and isinstance(operand.expr, nodes.Const):
                self.root.hint(path, ("equal", operand.expr.value))
        return False

    def _add(self, node, names):
        for one, other in ((node.left, node.right), (node.right, node.left)):
            path = self.path(one, names)
            if path and isinstance(other, nodes.Const):
                self.root.hint(path, ("text",) if isinstance(other.value, str) else ("index", 0))
        return False

    def _sub(self, node, names):
        path = self.path(node.left, names)
        if path and isinstance(node.right, nodes.Const):
            self.root.hint(path, ("number",))
        return False
