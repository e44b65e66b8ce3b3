"""The command that a run records, without the secrets that it may hold."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar

COMMAND: ContextVar[tuple[str, ...] | None] = ContextVar("COMMAND", default=None)
"""The arguments of the command that runs; None: those of the process."""

HIDDEN = "***"
_WORDS = "key|apikey|token|secret|password|passwd|pass|authorization|auth|bearer|credential|credentials|cookie"
_HEADER = "|".join("header"[:length] for length in range(6, 0, -1))  # an option may be shortened: --judge-head
_SECRET_OPTION = re.compile(rf"--(?:[\w-]*-)?(?:{_WORDS}|{_HEADER})", re.IGNORECASE)
_SECRET_VARIABLE = re.compile(rf"(?:.*_)?(?:{_WORDS})(?:_.*)?", re.IGNORECASE)
_NAMED_SECRET = re.compile(
    rf"((?:[\w-]*[-_])?(?:{_WORDS})[\"']?\s*[=:]\s*[\"']?)(?:bearer\s+)?[^\s,;&\"'}}]+", re.IGNORECASE
)
_PASSWORD_IN_URL = re.compile(r"(\w://)[^/\s@]*@")
_KEY = re.compile(r"\b(?:(?:sk|pk|rk|hf|ghp|gho|xox[a-z])[-_]|AKIA|AIza)[A-Za-z0-9_-]{16,}")
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
    hide_next = False
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        if hide_next:
            argument = HIDDEN  # noqa: PLW2901 - the value of a secret option
        elif equals and _SECRET_OPTION.fullmatch(name):
            argument = f"{name}={HIDDEN}"  # noqa: PLW2901 - the same
        hide_next = not hide_next and not equals and _SECRET_OPTION.fullmatch(argument) is not None
        for secret in secrets:
            argument = argument.replace(secret, HIDDEN)  # noqa: PLW2901 - the same
        argument = _PASSWORD_IN_URL.sub(rf"\1{HIDDEN}@", argument)  # noqa: PLW2901 - the same
        shown.append(_KEY.sub(HIDDEN, _NAMED_SECRET.sub(rf"\1{HIDDEN}", argument)))
    return shown


def _secrets(arguments: Sequence[str], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of variables that hold secrets: by their names, or because the command names them."""
    named = {word for argument in arguments for word in re.findall(r"\w+", argument)}
    for name, value in environment.items():
        secret = _SECRET_VARIABLE.fullmatch(name) or (name in named and name.isupper())
        if secret and len(value) >= _FEWEST_CHARACTERS:
            yield value
