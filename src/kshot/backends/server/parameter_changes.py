"""Parameters that a server refuses: they are left out or sent under another name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kshot.backends.server.connection import Body
from kshot.backends.server.http_errors import HttpReply

_DROPPABLE = ("temperature", "top_p", "seed", "stop")
_NEW_NAME = "max_completion_tokens"
_REFUSAL = (
    r"(?:unsupported|not support|unrecogni[sz]ed|unknown|unexpected|only the default|extra|deprecated"
    r"|not (?:permitted|allowed))"
)
_REFUSAL_OF_NAMED = re.compile(rf"(?i){_REFUSAL}|instead")
_QUOTE = "['\"`‘’“”]"


@dataclass(slots=True)
class ParameterChanges:
    """The parameters that are left out or sent under another name, because the server refused them."""

    dropped: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return what a later call needs to know."""
        return {"dropped": sorted(self.dropped), "renamed": dict(self.renamed)}

    def add_recorded(self, recorded: Mapping[str, Any]) -> None:
        """Take what an earlier call has found out; only what this version would find out itself."""
        self.dropped |= {name for name in recorded.get("dropped") or () if name in _DROPPABLE}
        self.renamed |= {"max_tokens": _NEW_NAME} if "max_tokens" in (recorded.get("renamed") or {}) else {}


# Which parameter a server refuses is often only in the words of its error message. These words are the server's own,
# and there is no other source, so the two functions below have to read them.


def adapt(changes: ParameterChanges, body: Body, reply: HttpReply) -> bool:
    """Drop or rename the parameter that the server refuses; return whether there is one.

    Newer models know ``max_tokens`` by another name, and accept only the default of some other parameters.
    """
    if reply.status not in {400, 422}:
        return False
    for name in ("max_tokens", *_DROPPABLE):
        if name not in body or not _refuses(reply, name):
            continue
        if name == "max_tokens":
            changes.renamed[name] = _NEW_NAME
        else:
            changes.dropped.add(name)
        return True
    return False


def _refuses(reply: HttpReply, name: str) -> bool:
    """Whether the server refuses this parameter, and not its value, nor a prompt that contains its name."""
    error = reply.error
    coded = error.code.startswith("unsupported") or error.code == "unknown_parameter"
    if error.parameter:
        return error.parameter == name and bool(coded or _REFUSAL_OF_NAMED.search(error.message))
    if coded:
        return re.search(rf"\b{name}\b", error.message) is not None
    quoted, between = f"{_QUOTE}{name}{_QUOTE}", r"[^.;]{0,60}?"
    forms = (
        rf"{_REFUSAL}{between}{quoted}",
        rf"{quoted}{between}{_REFUSAL}",
        rf"{_REFUSAL}[\w ]{{0,40}}: {name}\b",
        rf"^{name}: {_REFUSAL}",
    )
    return re.search(f"(?i){'|'.join(forms)}", error.message) is not None
