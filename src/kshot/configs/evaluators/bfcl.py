"""Evaluators of function calling: BFCL's calls of one turn, its conversations, and whether there is a call at all."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kshot.configs.evaluators.bfcl_calls import Call, NoCallsError, calls_of, needs_functions, right_turns
from kshot.configs.evaluators.factories import Factory
from kshot.configs.evaluators.scores import Counts, Tally, gold_of, ratio
from kshot.configs.scope import Name, Scope
from kshot.core.errors import DataError
from kshot.core.records import Sample
from kshot.metrics import Metric

# ---- values of Java and JavaScript, which stand as text in calls ----
# What does not have the form of its type stays text. The forms are those of BFCL, which is strict: a Java float ends
# in f, a long in L.

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


# ---- whether calls are the right ones ----
# An answer of BFCL lists for every argument the values that are right; "" among them: it may be left out.

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


def right_calls(functions: Sequence[Any], calls: Sequence[Call], answers: Sequence[Any], category: str) -> bool:
    """Whether calls are the right ones; the category says how many functions there are, and how many calls."""
    language = JAVASCRIPT if "javascript" in category else JAVA if "java" in category else PYTHON
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
        return any(len(value) == len(answer) and all(map(_right_dict, value, answer)) for answer in answers)
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


class CallsCounted(Tally):
    """The share of right answers as a fraction, how many are right, and how many there are.

    ``right``: whether the answer of a sample is right.
    """

    def __init__(self, right: Callable[[Sample, Any], bool]) -> None:
        names = ("accuracy", "correct_count", "total_count")
        super().__init__(names, lambda *pair: (float(right(*pair)), 1.0), _counted, mean=True)


def _counted(sums: Counts) -> Mapping[str, float]:
    right, total = sums
    return {"accuracy": ratio(right, total), "correct_count": right, "total_count": total}


class RightTurns(CallsCounted):
    """Conversations whose calls do, turn by turn, what the right ones do (BFCL)."""

    def __init__(self) -> None:
        super().__init__(
            lambda sample, answer: right_turns(sample.fields, answer, decoded(gold_of(sample), "ground_truth"))
        )

    def see(self, samples: Iterable[Sample]) -> None:
        """Look, before anything is asked, whether the functions of the rows can be called."""
        needs_functions(sample.fields for sample in samples)


def calls_wanted(category: str, sample: Sample, answer: Any) -> bool:
    """Whether the calls of a reply are those that the row wants; a reply without any that can be read is wrong."""
    calls = well_formed(answer)
    if calls is None:
        return False
    functions = decoded(column(sample, "function"), "function")
    answers = decoded(gold_of(sample), "ground_truth")
    if not isinstance(functions, list) or not isinstance(answers, list) or not functions:
        raise DataError("BFCL's functions and answers are lists", hint="Look at the columns of the row.")
    try:
        return right_calls(functions, calls, answers, category)
    except (AttributeError, LookupError, StopIteration, TypeError) as exc:
        raise DataError(f"the row's functions or answers do not have BFCL's form: {exc!r:.120}") from exc


def calls_or_none(sample: Sample, answer: Any) -> bool:
    """Whether a reply calls a function exactly if one is relevant: the row's id has no ``irrelevance``."""
    return bool(well_formed(answer)) is not ("irrelevance" in str(column(sample, "id")))


def well_formed(answer: Any) -> list[Call] | None:
    """Return the calls of an answer, each a name with named arguments; None: it has no such form."""
    try:
        calls = calls_of(answer)
    except NoCallsError:
        return None
    return calls if all(_is_call(each) for each in calls) else None


def _is_call(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and isinstance(next(iter(value.values())), dict)


def column(sample: Sample, name: str) -> Any:
    """Return a column of a sample's row that must be there."""
    if name not in sample.fields:
        raise DataError(f"the row has no column {name!r}", hint="BFCL's rows have it.")
    return sample.fields[name]


def decoded(value: Any, name: str) -> Any:
    """Return what a column holds, which may be written as JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as exc:
        raise DataError(f"the column {name!r} is not JSON: {exc}", hint="BFCL's loader writes it so.") from exc


def _of_category(metric: Callable[[str], CallsCounted]) -> Factory:
    """Return the factory of a metric that is made with a category.

    The form of an answer says whether it is text or an API's list of calls, so ``is_fc_model`` is not needed.
    """

    def make(name: Name, options: Mapping[str, Any], scope: Scope) -> Metric:
        if not isinstance(options.get("category"), str):
            raise DataError(f"{name.last} needs a category, such as 'simple'", where=scope.where)
        return metric(options["category"])

    return make


EVALUATORS: dict[str, Factory] = {
    "BFCLSingleTurnEvaluator": _of_category(lambda category: CallsCounted(partial(calls_wanted, category))),
    "BFCLRelevanceEvaluator": _of_category(lambda _: CallsCounted(calls_or_none)),
    "BFCLMultiTurnEvaluator": _of_category(lambda _: RightTurns()),
}
