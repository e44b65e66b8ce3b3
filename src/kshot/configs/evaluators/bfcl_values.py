"""Values of Java and JavaScript that stand as text in function calls, as Python's values.

What does not have the form of its type stays text. The forms are those of BFCL, which is strict: a Java ``float`` ends
in ``f``, a ``long`` in ``L``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from kshot.core.errors import DataError

JAVA_TYPES: Mapping[str, type] = {
    **dict.fromkeys(("byte", "short", "integer", "long"), int),
    **dict.fromkeys(("float", "double"), float),
    **dict.fromkeys(("char", "String", "any"), str),
    **dict.fromkeys(("Array", "ArrayList", "Queue", "Stack"), list),
    **dict.fromkeys(("HashMap", "Hashtable"), dict),
    "boolean": bool,
    "Set": set,
}
JAVASCRIPT_TYPES: Mapping[str, type] = {
    **dict.fromkeys(("integer", "Bigint"), int),
    **dict.fromkeys(("String", "any"), str),
    "float": float,
    "Boolean": bool,
    "dict": dict,
    "array": list,
}

_WHOLE = re.compile(r"(-?\d+)\n?")
_LONG = re.compile(r"(-?\d+)[lL]\n?")
_BIG = re.compile(r"(-?\d+)n")
_DECIMAL = re.compile(r"(-?\d+(?:\.\d+)?)\n?")
_DOUBLE = re.compile(r"(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\n?")
_FLOAT = re.compile(r"(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)[fF]\n?")
_SWITCHES = {"true": True, "false": False}
_QUOTES = "'\""


def _number(form: re.Pattern[str], kind: Callable[[str], Any], text: str) -> Any:
    found = form.fullmatch(text)
    return kind(found[1]) if found else text


def _guessed(text: str) -> Any:
    """Return a whole number, a number, or the text."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


# ---- Java ----

_NEW_LIST = r"new\s+ArrayList<\w*>\("
_LIST_OF = re.compile(rf"{_NEW_LIST}Arrays\.asList\(")
_LIST_WITH_ADDS = re.compile(rf"{_NEW_LIST}\)\s*\{{\{{\s*")
_EMPTY_LIST = re.compile(rf"{_NEW_LIST}\)")
_ADD = re.compile(r"add\((.[^)\n]*)\)")
_ARRAY = re.compile(r"new\s+\w+\[\]\s*\{([^}\n]*)\}")
_MAP = re.compile(r"new\s+HashMap<[\s\S]*?>\s*\(\)\s*\{\s*\{?\s*")
_EMPTY_MAP = re.compile(r"new\s+HashMap<.*?>\s*\(\)")
_PUT = re.compile(r"put\(\"([^\n]*?)\",\s*([^)\n]*)\)")


def java_value(text: str, kind: str, inner: str = "") -> Any:
    """Return a value of a Java type; ``inner`` is the type of a list's items, where it is known."""
    if kind in ("Set", "Hashtable", "Queue", "Stack"):
        raise DataError(f"a value of the Java type {kind} cannot be checked", hint="BFCL has no rule for it either.")
    if kind == "boolean":
        return _SWITCHES.get(text, text)
    if kind == "ArrayList":
        return _java_list(text, inner)
    if kind == "Array":
        found = _ARRAY.search(text)
        return [_java_item(x.strip(), inner) for x in found[1].split(",") if x.strip()] if found else text
    if kind == "HashMap":
        return _java_map(text)
    form = {"byte": _WHOLE, "short": _WHOLE, "integer": _WHOLE, "long": _LONG, "float": _FLOAT, "double": _DOUBLE}
    return _number(form[kind], JAVA_TYPES[kind], text) if kind in form else text


def _java_item(text: str, kind: str) -> Any:
    return java_value(text, kind) if kind else _java_guess(text)


def _java_list(text: str, inner: str) -> Any:
    items = _listed(text)
    if items is None:
        return [] if _EMPTY_LIST.search(text) else text
    if inner in ("char", "String"):
        return [item[1:-1] for item in items]  # without their quotes
    return [_java_item(item, inner) for item in items]


def _listed(text: str) -> list[str] | None:
    """Return the texts of the items of ``Arrays.asList(…)`` in one line, or of every ``add(…)`` in double braces."""
    for start in _LIST_OF.finditer(text):
        end = text.find("))", start.end() + 1)
        if end >= 0 and "\n" not in (held := text[start.end() : end]):
            return [item.strip() for item in held.split(",")]
    for start in _LIST_WITH_ADDS.finditer(text):
        end = text.find("}}", start.end() + 1)
        if end >= 0:
            return [item.strip() for item in _ADD.findall(text[start.end() : end].rstrip())]
    return None


def _java_map(text: str) -> Any:
    found = _MAP.search(text)
    end = text.find("}", found.end()) if found else -1
    if found and end >= 0:
        return {key: _java_guess(value.strip()) for key, value in _PUT.findall(text[found.end() : end].rstrip())}
    return {} if _EMPTY_MAP.search(text) else text


def _java_guess(text: str) -> Any:
    """Return a value whose type is not known, by its form."""
    if text in _SWITCHES:
        return _SWITCHES[text]
    if text.startswith('"') and text.endswith('"'):
        return text[1:-1]
    for form, kind in ((_LONG, int), (_FLOAT, float)):
        if not isinstance(value := _number(form, kind, text), str):
            return value
    return _guessed(text)


# ---- JavaScript ----

_ROWS = re.compile(r"\[\s*\[|new\s+Array\(\s*\[")
_ROW = re.compile(r"\[([^\]\n]*)\]")
_ONE_ROW = re.compile(r"\[([^\]\n]*)\]|new\s+Array\(([^)\n]*)\)")
_OBJECT = re.compile(r"\{([^}\n]*)\}")


def javascript_value(text: str, kind: str, inner: str = "") -> Any:
    """Return a value of a JavaScript type; ``inner`` is the type of an array's items, where it is known."""
    if kind == "String":
        return text[1:-1] if _quoted(text) else text
    if kind == "Boolean":
        return _SWITCHES.get(text, text)
    if kind == "array":
        return _javascript_array(text.strip(), inner)
    if kind == "dict":
        return _javascript_object(text.strip())
    form = {"integer": _WHOLE, "float": _DECIMAL, "Bigint": _BIG}
    return _number(form[kind], JAVASCRIPT_TYPES[kind], text) if kind in form else text


def _quoted(text: str) -> bool:
    return any(text.startswith(quote) and text.endswith(quote) for quote in _QUOTES)


def _javascript_guess(text: str) -> Any:
    text = text.strip()
    if text in _SWITCHES:
        return _SWITCHES[text]
    return text[1:-1] if _quoted(text) else _guessed(text)


def _javascript_array(text: str, inner: str) -> Any:
    end = _end_of_rows(text)
    if end:
        rows = [row.strip() for row in _ROW.findall(text[:end])]
        rows[0] = rows[0].removeprefix("[")
        return [[_javascript_guess(item) for item in row.split(",")] for row in rows]
    found = _ONE_ROW.match(text)
    if not found:
        return text
    held = (found[1] if found[1] is not None else found[2]).strip()
    items = [item.strip() for item in held.split(",")] if held else []
    if not inner:
        return [_javascript_guess(item) for item in items]
    return [javascript_value(item, inner, "String" if item[:1] in (*_QUOTES,) else "") for item in items]


def _end_of_rows(text: str) -> int:
    """Return where an array of arrays ends, 0 if this is none: rows in brackets, commas between them, one more bracket.

    It is the end of the match that has the shortest first row, then the shortest second one, and so on; computed from
    the right, so that no text takes long.
    """
    start = _ROWS.match(text)
    if not start:
        return 0
    closing = "]" if text[0] == "[" else ")"
    size = len(text)
    past_space = [size] * (size + 1)  # the next sign that is no white space
    end_of_row = [0] * (size + 2)  # the end of all if a row goes on here
    for at in range(size - 1, -1, -1):
        past_space[at] = past_space[at + 1] if text[at].isspace() else at
        if text[at] == "\n":
            continue
        end_of_row[at] = end_of_row[at + 1]
        if text[at] == "]":
            end_of_row[at] = _end_after_row(text, past_space[at + 1], closing, past_space, end_of_row) or end_of_row[at]
    return end_of_row[start.end()]


def _end_after_row(text: str, at: int, closing: str, past_space: list[int], end_of_row: list[int]) -> int:
    if text[at : at + 1] == closing:
        return at + 1
    if text[at : at + 1] != ",":
        return 0
    opening = past_space[at + 1]
    return end_of_row[opening + 1] if text[opening : opening + 1] == "[" else 0


def _javascript_object(text: str) -> Any:
    if text == "{}":
        return {}
    found = _OBJECT.match(text)
    if not found:
        return text
    return {key.strip().strip(_QUOTES): _javascript_field(value.strip()) for key, value in _fields(found[1])}


def _javascript_field(text: str) -> Any:
    if text.startswith("[") and text.endswith("]"):
        return _javascript_array(text, "")
    return _javascript_guess(text.strip(_QUOTES))


def _fields(text: str) -> list[tuple[str, str]]:
    """Return names and values: a value ends at a comma after which, before the next comma, a colon follows."""
    fields: list[tuple[str, str]] = []
    at = 0
    while True:
        at += len(text[at:]) - len(text[at:].lstrip(":"))
        colon = text.find(":", at)
        if colon < 0:
            return fields
        end, following = _end_of_value(text, colon + 1)
        fields.append((text[at:colon], text[colon + 1 : end].lstrip()))
        at = following


def _end_of_value(text: str, start: int) -> tuple[int, int]:
    """Return where a value ends, and where the next name can begin."""
    start += len(text[start:]) - len(text[start:].lstrip())
    comma = text.find(",", start)
    while comma >= 0:
        after = text.find(",", comma + 1)
        part = text[comma + 1 : after if after >= 0 else len(text)]
        if part.find(":", 1) > 0:
            space = len(part) - len(part.lstrip())
            return comma, comma + 1 + min(space, part.rfind(":") - 1)
        comma = after
    return len(text), len(text)
