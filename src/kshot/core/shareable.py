"""The command and the values of a run as others may see them: without secrets, in texts that every file can hold."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from kshot.core.options import flag

COMMAND: ContextVar[tuple[str, ...] | None] = ContextVar("COMMAND", default=None)
"""The arguments of the command that runs; None: those of the process."""

HIDDEN = "***"
_WORDS = "key|apikey|token|secret|password|passwd|pass|authorization|auth|bearer|credential|credentials|cookie"
_HEADER = "|".join("header"[:length] for length in range(6, 0, -1))  # an option may be shortened: --judge-head
_SECRET_OPTION = re.compile(rf"--(?:[\w-]*-)?(?:{_WORDS}|{_HEADER})", re.IGNORECASE)
_TEXT_OPTIONS = (
    *("--instruction", "--system-prompt", "--description", "--stop", "--judge-rubric", "--judge-prompt"),
    *("--answer-pattern", "--target-delimiter", "--fewshot-delimiter", "--letters"),
)
"""Their values are shown to a model or searched for: text, in which the word password means nothing."""

_SECRET_VARIABLE = re.compile(rf"(?:.*_)?(?:{_WORDS})(?:_.*)?", re.IGNORECASE)
_NAMED_VARIABLE = re.compile(r"(?:api[-_][\w-]*(?:=|\n)|env:)(\w+)")
_NAMED_SECRET = re.compile(
    rf"((?:^|[,;&?={{\"'])\s*(?P<name>(?:[\w.-]*[-_.])?(?:{_WORDS}))[\"']?\s*[=:]\s*[\"']?)"
    r"(?P<value>(?:bearer\s+)?(?:\\.|[^\s,;&\"'}])+)",
    re.IGNORECASE,
)
"""Within a spec, an address or JSON: ``api_key=…`` or ``"api_key": "…"``, where an option can stand."""

_NO_SECRET = re.compile(
    r"[\w.-]*[=:]env:\w+|(?:(?:-*|.*[-_])(?:max|min|num)[-_])?(?:token|pass|key)[=:](?:\d{1,5}|true|false|yes|no|none)",
    re.IGNORECASE,
)
"""A variable instead of a secret, or a count or a choice under a name that has other meanings too."""

_PASSWORD_IN_URL = re.compile(r"(\w://)[^/\s@]*@")
_KEY = re.compile(
    r"\b(?:(?:sk|pk|rk|hf|ghp|gho|xox[a-z])[-_]|AKIA|AIza)[A-Za-z0-9_-]{16,}|(?i:\bbearer\s+)(?=\S*\d)[\w.~+/-]{16,}"
)
_FEWEST_CHARACTERS = 6
"""A shorter value of a variable may stand in a command by chance."""


def recorded_command() -> list[str]:
    """Return the command of this run, with its secrets replaced."""
    given = COMMAND.get()
    if given is not None:
        return ["kshot", *without_secrets(given)]
    return without_secrets(sys.argv)


def without_secrets(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> list[str]:
    """Replace what may be a key or a password: by the name of its option, by its form, or by the environment."""
    secrets = sorted(_secrets(arguments, environment), key=len, reverse=True)
    shown: list[str] = []
    option = ""
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if _is_secret(option, argument):
            argument = HIDDEN  # noqa: PLW2901 - the value of a secret option
        elif equals and _is_secret(name, value):
            argument = f"{name}={HIDDEN}"  # noqa: PLW2901 - the same
        for secret in secrets:
            argument = argument.replace(secret, HIDDEN)  # noqa: PLW2901 - the same
        if option not in _TEXT_OPTIONS and not (equals and name in _TEXT_OPTIONS):
            argument = _NAMED_SECRET.sub(_hidden, argument)  # noqa: PLW2901 - the same
        shown.append(_KEY.sub(HIDDEN, _PASSWORD_IN_URL.sub(rf"\1{HIDDEN}@", argument)))
        is_option = argument.startswith("-") and not equals and not _SECRET_OPTION.fullmatch(option)
        option = argument if is_option else ""
    return shown


def _is_secret(option: str, value: str) -> bool:
    """Whether the value of an option is hidden whole."""
    return _SECRET_OPTION.fullmatch(option) is not None and not _NO_SECRET.fullmatch(f"{option.lstrip('-')}={value}")


def _hidden(found: re.Match[str]) -> str:
    harmless = _NO_SECRET.fullmatch(f"{found['name']}={found['value']}")
    return found[0] if harmless else f"{found[1]}{HIDDEN}"


def _secrets(arguments: Sequence[str], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of variables that hold secrets: by their names, or because the command says so."""
    named = set(_NAMED_VARIABLE.findall("\n".join(arguments)))
    for name, value in environment.items():
        if (name in named or _SECRET_VARIABLE.fullmatch(name)) and len(value) >= _FEWEST_CHARACTERS:
            yield value


def shareable(value: Any, name: str = "") -> Any:
    """Return a value in plain types; what may be a key, by its form or by the name of its option, is replaced."""
    if isinstance(value, dict):
        return {shareable(key): shareable(each, key) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [shareable(each, name) for each in value]
    if isinstance(value, str):
        return well_formed(without_secrets([flag(name), value])[1])
    return value if value is None or isinstance(value, (bool, int, float)) else well_formed(str(value))


def well_formed(text: str) -> str:
    r"""Return a text that UTF-8 can write: half of a character (a lone surrogate) becomes its escape, ``\ud800``."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def well_formed_value(value: Any) -> Any:
    """Return a value of JSON in which every text is well-formed."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, dict):
        return {well_formed(name): well_formed_value(inner) for name, inner in value.items()}
    return [well_formed_value(inner) for inner in value] if isinstance(value, (list, tuple)) else value
