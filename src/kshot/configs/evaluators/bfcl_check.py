"""Whether function calls are those that a row of BFCL wants: names, arguments, their types and their values.

An answer of BFCL lists for every argument the values that are right; ``""`` among them: it may be left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kshot.configs.evaluators.bfcl_calls import Call
from kshot.configs.evaluators.bfcl_values import JAVA_TYPES, JAVASCRIPT_TYPES, java_value, javascript_value
from kshot.core.errors import DataError

PYTHON, JAVA, JAVASCRIPT = "Python", "Java", "JavaScript"
_TYPES: Mapping[str, Mapping[str, type]] = {
    PYTHON: {
        "string": str,
        "integer": int,
        "float": float,
        "boolean": bool,
        "array": list,
        "tuple": list,
        "dict": dict,
        "any": str,
    },
    JAVA: JAVA_TYPES,
    JAVASCRIPT: JAVASCRIPT_TYPES,
}
_CONVERTED: Mapping[str, Callable[[str, str, str], Any]] = {JAVA: java_value, JAVASCRIPT: javascript_value}
_WITH_ITEMS = {PYTHON: ("array", "tuple"), JAVA: ("Array", "ArrayList"), JAVASCRIPT: ("array",)}
_LEFT_OUT = ""
_UNSEEN = re.compile(r"[ ,./\-_*^]")


def language_of(category: str) -> str:
    """Return the language in which the functions of a category are written."""
    if "javascript" in category:
        return JAVASCRIPT
    return JAVA if "java" in category else PYTHON


def right_calls(functions: Sequence[Any], calls: Sequence[Call], answers: Sequence[Any], category: str) -> bool:
    """Whether calls are the right ones; the category says how many functions there are, and how many calls."""
    language = language_of(category)
    if "parallel" in category:
        return _each_once(functions, calls, answers, language)
    if "multiple" in category:
        if len(calls) != len(answers):
            return False
        return right_call(_described(functions, answers[0]), calls[0], answers[0], language)
    return len(calls) == 1 and right_call(functions[0], calls[0], answers[0], language)


def _described(functions: Sequence[Any], answer: Mapping[str, Any]) -> Any:
    name = next(iter(answer))
    found = next((each for each in functions if each["name"] == name), None)
    if found is None:
        raise DataError(f"the row's answer calls {name!r}, which is none of its functions")
    return found


def _each_once(functions: Sequence[Any], calls: Sequence[Call], answers: Sequence[Any], language: str) -> bool:
    """Whether every answer, in turn, has a call that no answer before it has taken."""
    if len(calls) != len(answers):
        return False
    left = list(calls)
    for answer in answers:
        function = _described(functions, answer)
        taken = next((at for at, call in enumerate(left) if right_call(function, call, answer, language)), None)
        if taken is None:
            return False
        del left[taken]
    return True


def right_call(function: Mapping[str, Any], call: Call, answer: Mapping[str, Any], language: str) -> bool:
    """Whether one call is the right one. A dot in the function's name is an underscore in the call's."""
    wanted: Mapping[str, Any] = next(iter(answer.values()))
    name = function["name"].replace(".", "_")
    if name not in call:
        return False
    arguments = call[name]
    parameters = function["parameters"]["properties"]
    if any(required not in arguments for required in function["parameters"].get("required", ())):
        return False
    for argument, value in arguments.items():
        if argument not in parameters or argument not in wanted:
            return False
        if not _right_argument(argument, parameters[argument], value, wanted[argument], language):
            return False
    return all(argument in arguments or _LEFT_OUT in values for argument, values in wanted.items())


# ---- one argument ----


@dataclass(frozen=True)
class _Kind:
    """The Python type of an argument, and of its items where it is a list."""

    outer: type
    inner: type | None = None


def _right_argument(name: str, parameter: Mapping[str, Any], value: Any, answers: Sequence[Any], language: str) -> bool:
    kind, items = _kind(name, parameter, language)
    described = parameter["type"]
    if language != PYTHON:
        if not isinstance(value, str):
            return False
        value = _CONVERTED[language](value, described, items)
    elif described == "tuple" and type(value) is tuple:
        value = list(value)
    elif described == "float" and type(value) is int:
        try:
            value = float(value)
        except OverflowError:
            return False
    fits, variable = _fits(value, answers, kind)
    return fits and _among(value, answers, None if variable else kind)


def _kind(name: str, parameter: Mapping[str, Any], language: str) -> tuple[_Kind, str]:
    """Return the type of a parameter, and the name of the type of its items."""
    types, described = _TYPES[language], [parameter.get("type")]
    if described[0] in _WITH_ITEMS[language]:
        described.append(parameter.get("items", {}).get("type"))
    for each in described:
        if each not in types:
            raise DataError(
                f"the parameter {name!r} of the row's function has the type {each!r}",
                hint=f"Types of {language} that can be checked: {', '.join(types)}.",
            )
    return _Kind(*(types[str(each)] for each in described)), str(described[1]) if len(described) > 1 else ""


def _fits(value: Any, answers: Sequence[Any], kind: _Kind) -> tuple[bool, bool]:
    """Whether a value has the right type, and whether it stands for a variable.

    A variable is written as text: its answer has another type than the function's parameter.
    """
    first = next((type(answer) for answer in answers if answer != _LEFT_OUT), None)
    found = type(value)
    if found is not kind.outer:
        return first is not None and found is first, True
    variable = first is not None and first is not kind.outer
    if kind.inner is None:
        return True, variable
    item = _Kind(kind.inner)
    fits = any(not isinstance(each, list) or all(_fits(one, each, item)[0] for one in value) for each in answers)
    return fits, variable


def _among(value: Any, answers: Sequence[Any], kind: _Kind | None) -> bool:
    """Whether a value is one of the answers; no kind: it stands for a variable, so it is compared as it is."""
    if kind is not None and kind.outer is dict:
        return any(_right_dict(value, answer) for answer in answers if answer != _LEFT_OUT)
    if kind == _Kind(list, dict):
        return any(_right_dicts(value, answer) for answer in answers)
    if kind is not None and kind.outer is str:
        return _plain(value) in [_plain(answer) for answer in answers if isinstance(answer, str)]
    if kind is not None and kind.outer is list:
        return [_plain(each) for each in value] in [[_plain(each) for each in answer] for answer in answers]
    return value in answers


def _plain(value: Any) -> Any:
    """Return a text in small letters, without blanks and some punctuation, with one kind of quotes; others as is."""
    return _UNSEEN.sub("", value).lower().replace("'", '"') if isinstance(value, str) else value


def _right_dict(value: Any, answer: Any) -> bool:
    """Whether a dict has the keys of an answer, each with one of its values."""
    if not isinstance(value, dict) or not isinstance(answer, Mapping):
        return False
    if not all(key in answer and _plain(held) in [_plain(each) for each in answer[key]] for key, held in value.items()):
        return False
    return all(key in value or _LEFT_OUT in values for key, values in answer.items())


def _right_dicts(value: Sequence[Any], answer: Any) -> bool:
    """Whether a list of dicts is an answer, in its order."""
    return len(value) == len(answer) and all(_right_dict(*pair) for pair in zip(value, answer, strict=True))
