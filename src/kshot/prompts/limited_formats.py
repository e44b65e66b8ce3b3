"""``%`` and ``str.format`` in templates of strangers: every width is checked, and every field counts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from string import Formatter
from typing import Any

from jinja2.sandbox import SandboxedEnvironment, SandboxedEscapeFormatter, SandboxedFormatter
from markupsafe import Markup

from kshot.prompts.render_budget import MAX_NUMBER, RenderBudget, check_numbers, writable, written_size

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
