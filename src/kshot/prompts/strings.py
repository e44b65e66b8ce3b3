"""Instruction strings, and the sandbox that limits jinja templates.

An instruction is jinja2 where it uses its syntax, else it has ``{name}`` fields as an f-string.

Jinja's own sandbox keeps templates of strangers, such as those of models, from Python's internals. It does not keep
``{{ 'x' * 10**10 }}`` from taking all memory, nor loops in loops from never ending. Here every step of a loop, every
call and every filter counts, and so does the size of what they make; a template that goes beyond the limit is refused.
No clock is involved: what renders once renders always.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import wraps
from itertools import chain
from string import Formatter
from typing import Any, TypeAlias

import jinja2
from jinja2 import nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import Context
from jinja2.sandbox import (
    ImmutableSandboxedEnvironment,
    SandboxedEnvironment,
    SandboxedEscapeFormatter,
    SandboxedFormatter,
)
from jinja2.visitor import NodeTransformer
from markupsafe import Markup

from kshot.core.errors import DataError

# ---- what one rendering may cost: characters that it writes or makes on the way, and steps ----

BUDGET_CHARACTERS = 20_000_000
"""What a template may write, and the values that it may make on the way, in one rendering of short values."""

INPUT_TIMES = 20
"""A template that is given long values may make this many times their size besides."""

MAX_BUDGET_CHARACTERS = 400_000_000
"""No rendering makes more, whatever it is given."""

STEP_CHARACTERS = 100
"""A step of a loop, a call or a filter counts as so many characters: a rendering has 200,000 of them."""

MAX_NUMBER = 1_000_000
"""No width, no count and no indent is larger."""

_ITEM_CHARACTERS = 8
_COLLECTIONS = (list, tuple, dict, set, frozenset)


class RenderingLimitError(SecurityError):
    """A template wants more than a rendering may take."""


class RenderBudget:
    """What is left to one rendering. The values that it is given are measured when the short budget is used up."""

    __slots__ = ("_given", "left", "total")

    def __init__(self, given: Callable[[], Iterable[Any]] | None = None) -> None:
        """``given`` returns the values that the template is given."""
        self.total = self.left = BUDGET_CHARACTERS
        self._given = given

    def spend(self, characters: int) -> None:
        """Take a step that makes so many characters."""
        self.left -= STEP_CHARACTERS + characters
        if self.left < 0 and not self._extended(self.left):
            raise self._reached()

    def check(self, characters: int) -> None:
        """Refuse a value that is larger than all that a rendering may make."""
        if characters > self.total and not self._extended(self.total - characters):
            raise self._reached()

    def _extended(self, short: int) -> bool:
        """Add what long values allow, once; return whether that covers what is short, which is negative."""
        if self._given is None:
            return False
        size = sum(written_size(value, {}) for value in self._given())
        more = min(INPUT_TIMES * size, MAX_BUDGET_CHARACTERS - BUDGET_CHARACTERS)
        self._given, self.total, self.left = None, self.total + more, self.left + more
        return short + more >= 0

    def _reached(self) -> RenderingLimitError:
        return RenderingLimitError(
            f"it takes too many steps, or makes too much text: the limit is {self.total:,} characters "
            f"({BUDGET_CHARACTERS:,} and {INPUT_TIMES} times the values that it is given, "
            f"at most {MAX_BUDGET_CHARACTERS:,}), and a step counts as {STEP_CHARACTERS}"
        )


CURRENT: ContextVar[RenderBudget | None] = ContextVar("CURRENT", default=None)
"""The budget of the rendering that is under way, for what jinja calls without its context."""


def current_budget() -> RenderBudget:
    """Return the budget of the rendering that is under way."""
    return CURRENT.get() or RenderBudget()


def size_of(value: Any) -> int:
    """Return about how much a value takes, without what its items take."""
    if isinstance(value, (str, bytes, range)):
        return len(value)
    if isinstance(value, int):
        return value.bit_length() // 3
    return _ITEM_CHARACTERS * len(value) if isinstance(value, _COLLECTIONS) else 0


def written_size(value: Any, known: dict[int, int]) -> int:
    """Return about how many characters a value has when it is written out.

    A list that holds another list twice, which does the same, is small in memory and endless on paper.
    """
    if not isinstance(value, _COLLECTIONS):
        return size_of(value)
    if id(value) not in known:
        known[id(value)] = size_of(value) + sum(written_size(each, known) for each in _items(value))
    return known[id(value)]


def depth(value: Any, known: dict[int, int]) -> int:
    """Return how deeply lists and dictionaries lie in one another."""
    if not isinstance(value, _COLLECTIONS):
        return 0
    if id(value) not in known:
        known[id(value)] = 1 + max((depth(each, known) for each in _items(value)), default=0)
    return known[id(value)]


def _items(value: Any) -> Iterable[Any]:
    return chain(value.keys(), value.values()) if isinstance(value, dict) else value


def writable(value: Any) -> Any:
    """Return a value that can be written out; one that would have no end is refused."""
    if isinstance(value, _COLLECTIONS):
        current_budget().check(written_size(value, {}))
    return value


def check_numbers(given: Iterable[Any]) -> None:
    """Refuse a width or a count that no text needs."""
    for each in given:
        if isinstance(each, int) and abs(each) > MAX_NUMBER:
            raise RenderingLimitError(f"a width or a count above {MAX_NUMBER:,}")


# ---- formats ----

_NUMBER = re.compile(r"[0-9]+")
_REST = re.compile(r"[#0\- +]*(\*|[0-9]*)(?:\.(\*|[0-9]*))?[hlL]?")
"""What stands between ``%(name)`` and the letter of a conversion: flags, width, precision."""


class _Spending(Formatter):
    """Checks and counts each field as it is written."""

    budget: RenderBudget

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return super().convert_field(writable(value), conversion)

    def format_field(self, value: Any, format_spec: str) -> Any:
        # a width that is a field itself, as in {:{}}, has been put in here
        check_numbers(_number(digits) for digits in _NUMBER.findall(format_spec))
        written = super().format_field(writable(value), format_spec)
        self.budget.spend(len(written))
        return written


class _Formatter(_Spending, SandboxedFormatter):
    pass


class _EscapeFormatter(_Spending, SandboxedEscapeFormatter):
    pass


def formatted(
    environment: SandboxedEnvironment, form: str, args: Sequence[Any], kwargs: Mapping[str, Any], budget: RenderBudget
) -> str:
    """Return ``form.format(*args, **kwargs)``."""
    formatter: _Spending = _Formatter(environment)
    if isinstance(form, Markup):
        formatter = _EscapeFormatter(environment, escape=form.escape)
    formatter.budget = budget
    return type(form)(formatter.vformat(form, args, kwargs))


def spend_percent(form: str, values: Any, budget: RenderBudget) -> None:
    """Spend at least what ``form % values`` writes; a width that no text needs is refused."""
    each = iter(values if isinstance(values, tuple) else (values,))
    budget.spend(len(form))
    for name, widths, letter in _conversions(form):
        for width in widths:
            number = next(each, 0) if width == "*" else _number(width)
            check_numbers([number])
            budget.spend(abs(number) if isinstance(number, int) else 0)
        if letter == "%":
            continue
        if name is None:
            budget.spend(written_size(next(each, None), {}))
        elif isinstance(values, Mapping):
            budget.spend(written_size(values.get(name), {}))


def _conversions(form: str) -> Iterator[tuple[str | None, list[str], str]]:
    """Yield the name, the width and precision, and the letter of every conversion, as Python reads them."""
    start = form.find("%")
    while start >= 0:
        end, name = start + 1, None
        if form[end : end + 1] == "(":
            end = _closed(form, end)
            name = form[start + 2 : end - 1]
        rest = _REST.match(form, end)
        assert rest is not None  # noqa: S101 - all of its parts are optional
        yield name, [part for part in rest.groups() if part], form[rest.end() : rest.end() + 1]
        start = form.find("%", rest.end() + 1)


def _closed(form: str, start: int) -> int:
    """Return where the parenthesis that opens at ``start`` has been closed; parentheses may lie within."""
    level = 0
    for position in range(start, len(form)):
        level += {"(": 1, ")": -1}.get(form[position], 0)
        if level == 0:
            return position + 1
    return len(form)


def _number(digits: str) -> int:
    """Return the number that digits say, or one that is too large."""
    digits = digits.lstrip("0")
    return int(digits or "0") if len(digits) <= len(str(MAX_NUMBER)) else MAX_NUMBER + 1


# ---- the sandbox ----

_MAX_BITS = 10_000
_MAX_EXPONENT = 1_000
_STEPS, _JOINED = "kshot_steps", "kshot_joined"
_LIST_FILTERS = frozenset((
    *("attr", "batch", "count", "d", "default", "dictsort", "first", "groupby", "items", "last", "length", "list"),
    *("map", "max", "min", "random", "reject", "rejectattr", "reverse", "select", "selectattr", "slice", "sort", "sum"),
    "unique",
))  # fmt: skip
"""Those that do not write out what they get."""

_SIZED_FILTERS = {"batch", "center", "indent", "slice", "tojson"}
"""Those whose numbers are a width or a count; a number elsewhere is a value, or shortens what is written."""

_SIZED_METHODS = {"center", "expandtabs", "ljust", "rjust", "to_bytes", "zfill"}


class LimitedContext(Context):
    """The context of one rendering, with its budget."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.budget = RenderBudget(self.parent.values)

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
        super().__init__(**options, finalize=lambda value: writable(value if finalize is None else finalize(value)))
        self.globals.pop("lipsum", None)  # it writes as many words as it is told to
        self.filters = {name: _counted(name, function) for name, function in self.filters.items()}
        self.filters |= {_STEPS: _steps, _JOINED: _joined}

    def add_filter(self, name: str, function: Callable[..., Any]) -> None:
        """Give templates a filter, which is counted as all are."""
        self.filters[name] = _counted(name, function)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template: nodes.Template = _Counting().visit(super()._parse(source, name, filename))
        return template

    @staticmethod
    def concat(pieces: Iterable[str]) -> str:
        """Join the pieces that a macro or a block wrote."""
        found = list(pieces)
        current_budget().spend(sum(map(len, found)))
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
                budget.spend(size_of(left) + size_of(right))
            case "**":
                _check_power(left, right)
            case "%" if isinstance(left, (str, bytes)):
                spend_percent(left if isinstance(left, str) else left.decode("latin-1"), right, budget)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call, if the arguments of a method of texts, numbers and lists leave its result of a possible size."""
        # jinja wraps str.format
        budget, owner = _budget(context), getattr(getattr(obj, "__wrapped__", obj), "__self__", None)
        name = getattr(obj, "__name__", "")
        args = _listed(name, args)
        given = (*args, *kwargs.values())
        if isinstance(owner, str) and (name == "format" or (name == "format_map" and len(args) == 1 and not kwargs)):
            args, kwargs = (args, kwargs) if name == "format" else ((), args[0])
            return formatted(self, owner, args, kwargs, budget)
        if isinstance(owner, (str, bytes, int, float, list, tuple)):
            if name in _SIZED_METHODS:
                check_numbers(given)
            if name == "join":
                given = tuple(writable(each) for each in given)
            budget.spend(_made(name, owner, given))
        budget.spend(sum(map(size_of, given)))
        found = super().call(context, obj, *args, **kwargs)
        budget.spend(size_of(found))
        return found


def rendered(template: jinja2.Template, context: Context) -> str:
    """Return what a template writes; in an environment that a dataset class made itself, nothing is counted."""
    if not isinstance(context, LimitedContext):
        return "".join(template.root_render_func(context))
    written: list[str] = []
    before = CURRENT.set(context.budget)
    try:
        for piece in template.root_render_func(context):
            context.budget.spend(len(piece))
            written.append(piece)
    finally:
        CURRENT.reset(before)
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
    texts = [str(writable(value)) for value in values]
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
            given = tuple(writable(each) for each in given)
        if name in _SIZED_FILTERS:
            check_numbers(given[1:])
        if name == "format" and args:
            spend_percent(str(args[0]), kwargs or args[1:], budget)
        budget.spend(_made(name, args[0] if args else "", given[1:]) + sum(map(size_of, given)))
        lead = {"context": (context,), "eval_context": (context.eval_ctx,), "environment": (context.environment,)}
        found = function(*lead.get(str(first), ()), *args, **kwargs)
        budget.spend(size_of(found))
        return found

    return counted


# ---- sizes ----


def _budget(context: Context) -> RenderBudget:
    assert isinstance(context, LimitedContext)  # noqa: S101 - the environment makes no other
    return context.budget


def _product(value: Any, times: Any) -> int:
    """Return the size of a text, list or number multiplied by a number."""
    if not isinstance(times, int):
        return 0
    if isinstance(value, int):
        if value.bit_length() + times.bit_length() > _MAX_BITS:
            raise RenderingLimitError("a number that is too large")
        return 0
    return size_of(value) * max(times, 0)


def _made(name: str, value: Any, given: tuple[Any, ...]) -> int:  # noqa: PLR0911 - one for each name
    """Return the size of what a method or filter makes that may be much larger than what it gets."""
    longest = max((each if isinstance(each, int) else size_of(each) for each in given), default=4)
    match name:
        case "replace" if len(given) > 1:
            text, old, new = (str(each) for each in (value, *given[:2]))
            return text.count(old) * len(new)
        case "join":  # the parts and what stands between them, or the reverse
            return size_of(value) * size_of(given[0] if given else "")
        case "indent":
            return str(value).count("\n") * longest
        case "tojson" if given:  # each item stands in a line of its own, as far to the right as it is deep
            return written_size(value, {}) * depth(value, {}) * longest
        case "expandtabs":
            return int(value.count(b"\t" if isinstance(value, bytes) else "\t")) * max(longest, 8)
        case "wordwrap":
            return len(str(value)) * max((len(each) for each in given if isinstance(each, str)), default=1)
    return 0


def _listed(name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what is joined with its parts listed, so that their number is known before."""
    if name != "join":
        return values
    return tuple(list(each) if isinstance(each, Iterator) else each for each in values)


def _check_power(base: Any, exponent: Any) -> None:
    if not isinstance(base, int) or not isinstance(exponent, int):
        return
    if abs(exponent) > _MAX_EXPONENT or base.bit_length() * abs(exponent) > _MAX_BITS:
        raise RenderingLimitError("a power that is too large")


Render: TypeAlias = Callable[[Mapping[str, Any]], str]

_JINJA = re.compile(r"\{\{|\{%|\{#")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}
_ESCAPE = re.compile(r"\\(?:([ntr\\\"'])|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")


def jinja_environment() -> LimitedEnvironment:
    """Return a sandboxed environment in which an undefined or None value renders as nothing."""
    return LimitedEnvironment(
        undefined=jinja2.ChainableUndefined,
        autoescape=False,  # prompts are not HTML
        finalize=lambda value: "" if value is None else value,
    )


def compile_string(text: str, environment: jinja2.Environment | None = None, *, where: str = "") -> Render:
    """Return an instruction as a function of its fields; a faulty one is a DataError that says what and where."""
    if _JINJA.search(text):
        return compile_jinja(text, environment or jinja_environment(), where)
    return _compile_format(text, where)


def compile_jinja(text: str, environment: jinja2.Environment, where: str) -> Render:
    """Return a jinja template as a function of its fields, as ``compile_string`` does."""
    try:
        template = environment.from_string(text)
    except jinja2.TemplateSyntaxError as exc:
        raise DataError(f"the template cannot be read: {exc.message} (line {exc.lineno})", where=where) from exc
    except (RecursionError, SyntaxError, MemoryError) as exc:
        raise DataError("the template cannot be read: it is nested too deeply", where=where) from exc

    shared = dict(template.globals)

    def render(fields: Mapping[str, Any]) -> str:
        try:
            # The same as render(), without a copy of all globals for every text.
            context = template.new_context({**shared, **fields}, shared=True)
            return rendered(template, context)
        except RenderingLimitError as exc:
            raise DataError(f"the template fails: {exc}", where=where) from exc
        except SecurityError as exc:
            raise DataError(f"the template tries something that is not allowed: {exc}", where=where) from exc
        except jinja2.TemplateError as exc:
            raise DataError(f"the template fails: {exc}", where=where) from exc
        except (RecursionError, MemoryError) as exc:
            raise DataError(f"the template does not come to an end: {type(exc).__name__}", where=where) from exc
        except Exception as exc:  # a template is a program, and what it calls may raise anything
            raise DataError(f"the template fails: {type(exc).__name__}: {exc}", where=where) from exc

    return render


def names_used(text: str, environment: jinja2.Environment) -> set[str]:
    """Return the names that a jinja instruction uses; none for other instructions, whose unknown names are errors."""
    if not _JINJA.search(text):
        return set()
    return find_undeclared_variables(environment.parse(text)) - set(environment.globals)


def field_names(text: str) -> set[str] | None:
    """Return the names of the fields that an instruction shows; None if it cannot be read."""
    try:
        if _JINJA.search(text):
            return names_used(text, jinja_environment())
        return {re.split(r"[.\[]", name, maxsplit=1)[0] for _, name, _, _ in Formatter().parse(text) if name}
    except (jinja2.TemplateSyntaxError, ValueError, RecursionError):
        return None


_MAX_WIDTH_DIGITS = 4
_LONG_NUMBER = re.compile(rf"\d{{{_MAX_WIDTH_DIGITS + 1}}}")


class FieldFormatter(Formatter):
    """Format as ``str.format``, without access to private attributes or endless widths; None renders as nothing."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return the value of a field; private attributes are refused."""
        if "._" in field_name or "[_" in field_name:
            raise ValueError(f"private attribute in {{{field_name}}}")
        return super().get_field(field_name, args, kwargs)

    def convert_field(self, value: Any, conversion: Any) -> Any:
        """Convert as ``!r`` says; None stays None."""
        return None if value is None else super().convert_field(value, conversion)

    def format_field(self, value: Any, format_spec: str) -> Any:
        """Write a value as its format says."""
        if _LONG_NUMBER.search(format_spec):  # {n:9999999999} would take all memory
            raise ValueError(f"a width of more than {_MAX_WIDTH_DIGITS} digits in {format_spec[:40]!r}")
        return "" if value is None else super().format_field(value, format_spec)


def _compile_format(text: str, where: str) -> Render:
    formatter = FieldFormatter()
    try:
        names = [name for _, name, _, _ in formatter.parse(text) if name is not None]
    except ValueError as exc:
        raise DataError(
            f"the template cannot be read: {exc}",
            where=where,
            hint="For literal braces write it in jinja: {{ question }}.",
        ) from exc
    if any(not name or name[0].isdigit() for name in names):
        raise DataError("the template has a field without a name", where=where, hint="Write {question}, not {} or {0}.")

    def render(fields: Mapping[str, Any]) -> str:
        try:
            return formatter.vformat(text, (), fields)
        except KeyError as exc:
            have = ", ".join(sorted(str(name) for name in fields))
            raise DataError(f"the template wants {exc.args[0]!r}, which is not among: {have}", where=where) from exc
        except (ValueError, AttributeError, LookupError, TypeError) as exc:
            raise DataError(f"the template fails: {exc}", where=where) from exc

    return render


def decode_escapes(text: str) -> str:
    r"""Replace ``\n``, ``\t``, ``\u00e9`` and the like, as people type them on a command line, by their characters."""

    def character(match: re.Match[str]) -> str:
        simple, *codes = match.groups()
        return _ESCAPES[simple] if simple else chr(int(next(c for c in codes if c), 16))

    decoded = _ESCAPE.sub(character, text)
    # two halves of a character beyond U+FFFF, as JSON and JavaScript write it, become that character
    return decoded.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
