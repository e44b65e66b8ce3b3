"""What is strange about the replies of a server and does no harm to them: it is noted once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kshot.backends.server.address import Address
from kshot.backends.server.http_errors import shortened
from kshot.backends.server.keys import Account
from kshot.backends.server.replies import usage_from
from kshot.core.records import Usage

_DATED = re.compile(r"[-@:._](?:\d{4}-\d{2}-\d{2}|\d{3,8}|latest)")
_ENDINGS = (".gguf", ".safetensors", ".bin")


class Notes:
    """The notes on the servers of one model, each once."""

    def __init__(self, model: str, usage_fields: tuple[str, str], addresses: Sequence[Address]) -> None:
        self.texts: list[str] = []
        several = len(addresses) > 1
        self.inspectors = tuple(
            _Inspector(self, f"{each.url}: " if several else "", model, usage_fields, each.account)
            for each in addresses
        )
        """One for each server; it is called with every reply."""

    def add(self, text: str) -> None:
        """Keep a note, unless there is one like it."""
        if text not in self.texts:
            self.texts.append(text)


class _Inspector:
    """Looks at the replies of one server."""

    def __init__(self, notes: Notes, place: str, model: str, usage_fields: tuple[str, str], account: Account) -> None:
        self._notes, self._place = notes, place
        self._model, self._usage_fields, self._account = model, usage_fields, account
        self._said: Any = model
        self._other_model = False

    def __call__(self, body: Any) -> Usage | None:
        """Return the token counts; note a model other than the one asked for, and impossible counts."""
        if not isinstance(body, Mapping):
            return None
        said = body.get("model")
        is_new, self._said = said != self._said, said  # most replies name the same model
        if is_new and isinstance(said, str) and not self._other_model and names_other_model(self._model, said):
            self._other_model = True
            shown = self._account.redacted(f"{shortened(said)[:80]!r} instead of {self._model!r}")
            self._notes.add(f"{self._place}the replies name another model than was asked for: {shown}")
        if gives_impossible_usage(body, *self._usage_fields):
            text = "the server gives token counts that are not possible; they are not counted"
            self._notes.add(f"{self._place}{text}")
        return usage_from(body, *self._usage_fields)


def names_other_model(asked: str, said: str) -> bool:
    """Whether a reply names another model than was asked for.

    A provider or a folder before the name, the ending of a file, capital letters, and a date or ``latest`` after the
    name make no other model.
    """
    one, other = sorted((_bare_name(asked), _bare_name(said)), key=len)
    if one == other or not said.strip():
        return False
    return not (other.startswith(one) and _DATED.fullmatch(other, len(one)))


def _bare_name(name: str) -> str:
    bare = re.split(r"[/\\]", name.strip().rstrip("/\\").lower())[-1]
    for ending in _ENDINGS:
        bare = bare.removesuffix(ending)
    return re.sub(r"[-:@]latest$", "", bare)


def gives_impossible_usage(body: Mapping[str, Any], prompt_field: str, completion_field: str) -> bool:
    """Whether the server gives token counts that are not possible, such as -1, "12" or 1e308."""
    given = body.get("usage")
    counted = isinstance(given, Mapping) and given.get(prompt_field) is not None
    wrong_kind = given is not None and not isinstance(given, Mapping)
    return wrong_kind or (counted and usage_from(body, prompt_field, completion_field) is None)
