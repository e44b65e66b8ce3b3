"""Jinja templates of strangers, such as those of models: a sandbox that also limits how long and how much they write.

Jinja's own sandbox keeps templates from Python's internals. It does not keep ``{{ 'x' * 10**10 }}`` from taking all
memory, nor loops in loops from never ending. Here every step of a loop, every call and every filter counts, and so does
the size of what they make; a template that goes beyond the limit is refused. No clock is involved: what renders once
renders always.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from itertools import chain
from typing import Any

import jinja2
from jinja2 import nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

BUDGET_CHARACTERS = 20_000_000
"""What a template may write, and the values that it may make on the way, in one rendering."""

STEP_CHARACTERS = 100
"""A step of a loop, a call or a filter counts as so many characters: a rendering has 200,000 of them."""

MAX_NUMBER = 1_000_000
"""No width, no count and no indent is larger."""

_MAX_BITS = 10_000
_ITEM_CHARACTERS = 8
_MAX_EXPONENT = 1_000
_LONG_NUMBER = re.compile(r"\d{6}")
_STEPS, _JOINED = "kshot_steps", "kshot_joined"
_LIST_FILTERS = {
    *(
        "attr",
        "batch",
        "count",
        "d",
        "default",
        "dictsort",
        "first",
        "groupby",
        "items",
        "last",
        "length",
        "list",
        "map",
    ),
    *(
        "max",
        "min",
        "random",
        "reject",
        "rejectattr",
        "reverse",
        "select",
        "selectattr",
        "slice",
        "sort",
        "sum",
        "unique",
    ),
}
"""Those that do not write out what they get."""

_SIZED_FILTERS = {"batch", "center", "format", "indent", "slice", "tojson", "truncate", "wordwrap"}


class RenderBudget:
    """What is left to one rendering."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = BUDGET_CHARACTERS

    def spend(self, characters: int) -> None:
        """Take a step that makes so many characters."""
        self.left -= STEP_CHARACTERS + characters
        if self.left < 0:
            raise SecurityError("it does not come to an end: it takes too many steps, or makes too much text")


class LimitedContext(Context):
    """The context of one rendering, with its budget."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.budget = RenderBudget()

    def derived(self, locals: dict[str, Any] | None = None) -> Context:  # noqa: A002 - jinja's name
        """Return a context within this one; both spend the same."""
        made = super().derived(locals)
        if isinstance(made, LimitedContext):
            made.budget = self.budget
        return made


class LimitedEnvironment(ImmutableSandboxedEnvironment):
    """A sandbox in which no rendering takes all time or all memory."""

    context_class = LimitedContext
    intercepted_binops = frozenset({"*", "**", "%", "+"})

    def __init__(self, **options: Any) -> None:
        finalize = options.pop("finalize", None)
        super().__init__(**options, finalize=lambda value: _writable(value if finalize is None else finalize(value)))
        self.globals.pop("lipsum", None)  # it writes as many words as it is told to
        self.filters = {name: _counted(name, function) for name, function in self.filters.items()}
        self.filters |= {_STEPS: _steps, _JOINED: _joined}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template: nodes.Template = _Counting().visit(super()._parse(source, name, filename))
        return template

    @staticmethod
    def concat(pieces: Iterable[str]) -> str:
        """Join the pieces that a macro or a block wrote."""
        found = list(pieces)
        _check_size(sum(map(len, found)))
        return "".join(found)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Refuse ``translate`` too: it may put a long text in place of every character."""
        return attr != "translate" and super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute, if the result is of a possible size."""
        budget = _budget(context)
        match operator:
            case "*":
                budget.spend(max(_product(left, right), _product(right, left)))
            case "+":
                budget.spend(_size(left) + _size(right))
            case "**":
                _check_power(left, right)
            case "%" if isinstance(left, str):
                _check_format(left, _writable(right) if isinstance(right, tuple) else (_writable(right),))
                budget.spend(len(left) + _size(right))
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call, if the arguments of a method of texts, numbers and lists leave its result of a possible size."""
        # jinja wraps str.format
        budget, owner = _budget(context), getattr(getattr(obj, "__wrapped__", obj), "__self__", None)
        args = _listed(getattr(obj, "__name__", ""), args)
        given = (*args, *kwargs.values())
        if isinstance(owner, (str, bytes, int, float, list, tuple)):
            name = getattr(obj, "__name__", "")
            if name in {"format", "format_map"}:
                _check_format(owner, [_writable(each) for each in given])
            _check_numbers(given)
            budget.spend(_made(name, owner, given))
        budget.spend(sum(map(_size, given)))
        found = super().call(context, obj, *args, **kwargs)
        budget.spend(_size(found))
        return found


def rendered(template: jinja2.Template, context: Context) -> str:
    """Return what a template writes; in an environment that a dataset class made itself, nothing is counted."""
    if not isinstance(context, LimitedContext):
        return "".join(template.root_render_func(context))
    written: list[str] = []
    for piece in template.root_render_func(context):
        context.budget.spend(len(piece))
        written.append(piece)
    return "".join(written)


class _Counting(NodeTransformer):
    """Has every step of a loop counted, and ``~`` joined by a filter."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - jinja names it
        """Count the steps of a loop."""
        self.generic_visit(node)
        node.iter = nodes.Filter(node.iter, _STEPS, [], [], None, None, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 - jinja names it
        """Join texts by a filter, which counts them."""
        self.generic_visit(node)
        return nodes.Filter(nodes.List(node.nodes, lineno=node.lineno), _JOINED, [], [], None, None, lineno=node.lineno)


@pass_context
def _steps(context: Context, values: Iterable[Any]) -> Iterator[Any]:
    budget = _budget(context)
    for each in values:
        budget.spend(0)
        yield each


@pass_context
def _joined(context: Context, values: Iterable[Any]) -> str:
    texts = [str(_writable(value)) for value in values]
    _budget(context).spend(sum(map(len, texts)))
    return "".join(texts)


def _counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that spends the size of what it gets and of what it makes.

    It takes the context, so that jinja does not compute it while it compiles.
    """
    first = getattr(getattr(function, "jinja_pass_arg", None), "name", None)

    @pass_context
    @wraps(function)
    def counted(context: Context, *args: Any, **kwargs: Any) -> Any:
        args = _listed(name, args)
        budget, given = _budget(context), (*args, *kwargs.values())
        if name not in _LIST_FILTERS:
            given = tuple(_writable(each) for each in given)
        if name in _SIZED_FILTERS:
            _check_numbers(given[1:])
        if name == "format" and args:
            _check_format(str(args[0]), given[1:])
        budget.spend(_made(name, args[0] if args else "", given[1:]) + sum(map(_size, given)))
        lead = {"context": (context,), "eval_context": (context.eval_ctx,), "environment": (context.environment,)}
        found = function(*lead.get(str(first), ()), *args, **kwargs)
        budget.spend(_size(found))
        return found

    return counted


# ---- sizes ----


def _budget(context: Context) -> RenderBudget:
    assert isinstance(context, LimitedContext)  # noqa: S101 - the environment makes no other
    return context.budget


def _size(value: Any) -> int:
    """Return about how much a value takes, without what its items take."""
    if isinstance(value, (str, bytes, range)):
        return len(value)
    if isinstance(value, int):
        return value.bit_length() // 3
    return _ITEM_CHARACTERS * len(value) if isinstance(value, (list, tuple, dict, set, frozenset)) else 0


def _written_size(value: Any, known: dict[int, int]) -> int:
    """Return about how many characters a value has when it is written out.

    A list that holds another list twice, which does the same, is small in memory and endless on paper.
    """
    if not isinstance(value, (list, tuple, dict, set, frozenset)):
        return _size(value)
    if id(value) not in known:
        inner = chain(value.keys(), value.values()) if isinstance(value, dict) else value
        known[id(value)] = _size(value) + sum(_written_size(each, known) for each in inner)
    return known[id(value)]


def _product(value: Any, times: Any) -> int:
    """Return the size of a text, list or number multiplied by a number."""
    if not isinstance(times, int):
        return 0
    if isinstance(value, int):
        if value.bit_length() + times.bit_length() > _MAX_BITS:
            raise SecurityError("a number that is too large")
        return 0
    return _size(value) * max(times, 0)


def _made(name: str, value: Any, given: tuple[Any, ...]) -> int:
    """Return the size of what a method or filter makes that may be much larger than what it gets."""
    if name == "replace" and len(given) > 1:
        text, old, new = (str(each) for each in (value, *given[:2]))
        return text.count(old) * len(new)
    if name == "join":
        return _size(value) * _size(given[0] if given else "")  # the parts and what stands between them, or the reverse
    if name == "indent":
        return str(value).count("\n") * max((each for each in given if isinstance(each, int)), default=4)
    return 0


def _writable(value: Any) -> Any:
    """Return a value that can be written out; one that would have no end is refused."""
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        _check_size(_written_size(value, {}))
    return value


def _listed(name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what is joined with its parts listed, so that their number is known before."""
    if name != "join":
        return values
    return tuple(list(each) if isinstance(each, Iterator) else each for each in values)


def _check_size(characters: int) -> None:
    if characters > BUDGET_CHARACTERS:
        raise SecurityError("it makes too much text")


def _check_numbers(given: Iterable[Any]) -> None:
    for each in given:
        if isinstance(each, int) and abs(each) > MAX_NUMBER:
            raise SecurityError(f"a number above {MAX_NUMBER:,} where a width or a count belongs")


def _check_format(form: Any, given: Iterable[Any]) -> None:
    if _LONG_NUMBER.search(str(form)):
        raise SecurityError(f"a width of six digits or more in {str(form)[:40]!r}")
    if "*" in str(form) or "{" in str(form):  # widths may be among the values
        _check_numbers(given)


def _check_power(base: Any, exponent: Any) -> None:
    if not isinstance(base, int) or not isinstance(exponent, int):
        return
    if abs(exponent) > _MAX_EXPONENT or base.bit_length() * abs(exponent) > _MAX_BITS:
        raise SecurityError("a power that is too large")
