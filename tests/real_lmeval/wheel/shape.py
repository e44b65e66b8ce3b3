"""What a task reads of its rows: a tree of columns, their keys and their items, with hints about the values."""

ITEM = "*"


class Shape:
    """A value: a dict where it has keys, a list where it has items, else a leaf; hints say how it is used."""

    def __init__(self):
        self.keys = {}
        self.items = None
        self.hints = []
        self.size = 0

    def at(self, path):
        """The shape below, made where it lacks."""
        shape = self
        for step in path:
            if step == ITEM or isinstance(step, int):
                shape.items = shape.items or Shape()
                shape.size = max(shape.size, step + 1 if isinstance(step, int) else 0)
                shape = shape.items
            else:
                shape = shape.keys.setdefault(step, Shape())
        return shape

    def hint(self, path, *hints):
        """Note how a value is used."""
        shape = self.at(path)
        shape.hints += [hint for hint in hints if hint not in shape.hints]

    def merge(self, other):
        """Add what another tree knows."""
        self.hints += [hint for hint in other.hints if hint not in self.hints]
        self.size = max(self.size, other.size)
        for name, shape in other.keys.items():
            self.keys.setdefault(name, Shape()).merge(shape)
        if other.items is not None:
            self.items = self.items or Shape()
            self.items.merge(other.items)

    def leaves(self, path=()):
        """Every path that ends in a leaf."""
        if self.keys:
            return [found for name, shape in self.keys.items() for found in shape.leaves((*path, name))]
        if self.items is not None and (self.items.keys or self.items.items is not None):
            return self.items.leaves((*path, ITEM))
        return [path] if path else []

    def __repr__(self):
        parts = [f"{name}={shape!r}" for name, shape in self.keys.items()]
        parts += [f"[{self.items!r}]"] if self.items is not None else []
        return f"({', '.join(parts)}{self.hints or ''})"
