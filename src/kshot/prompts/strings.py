"""Instruction strings: jinja2 where they use its syntax, else ``{name}`` fields as in an f-string."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any, TypeAlias

import jinja2
from jinja2.exceptions import SecurityError
from jinja2.meta import find_undeclared_variables

from kshot.core.errors import DataError
from kshot.prompts.limited import LimitedEnvironment, RenderingLimitError, rendered

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
