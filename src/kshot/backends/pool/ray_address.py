"""The Ray cluster that a run may join: its owner can run code on every machine that joins it."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kshot.core.errors import BackendError, UsageError

_ADDRESS = re.compile(r"(?:(?P<owner>[^@\s/]+)@)?(?P<scheme>ray://)?(?P<host>[^@\s/]+):(?P<port>[0-9]{1,5})")
_CONNECT_SECONDS = 10.0
_LAST_PORT = 65535
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTENS = "0A"
_FORMS = "Write HOST:PORT, OWNER@HOST:PORT, or local for a cluster of this run alone."


@dataclass(frozen=True, slots=True)
class RayAddress:
    """The address of a cluster, and the user who may own it besides this one."""

    text: str
    """The address in Ray's form."""
    host: str
    port: int
    owner: str
    where: str
    """The option or variable that names it, for messages."""

    @classmethod
    def given(cls, text: str) -> RayAddress | None:
        """Return the address that ``--ray`` means; None: start a cluster for the run."""
        where = f"--ray {text}"
        if text == "auto":
            text = os.environ.get("RAY_ADDRESS", "").strip() or "local"
            where = f"RAY_ADDRESS={text}"
        if text == "local":
            return None
        found = _ADDRESS.fullmatch(text)
        if not found or int(found["port"]) > _LAST_PORT:
            raise UsageError("this is not the address of a Ray cluster", where=where, hint=_FORMS)
        host, port = found["host"], found["port"]
        return cls(f"{found['scheme'] or ''}{host}:{port}", host.strip("[]"), int(port), found["owner"] or "", where)

    def check(self) -> None:
        """Refuse an address where nothing listens, and a cluster that another user of this machine owns."""
        try:
            with socket.create_connection((self.host, self.port), _CONNECT_SECONDS) as connection:
                here, there = connection.getsockname()[0], connection.getpeername()[0]
        except (OSError, UnicodeError) as exc:
            raise self.error(getattr(exc, "strerror", None) or str(exc)) from exc
        if here == there or there.startswith("127."):
            self._check_owner()

    def error(self, why: str) -> BackendError:
        """Return the error for an address without a cluster."""
        hint = "Start one: ray start --head. If it is there and wants a token, set RAY_AUTH_MODE=token."
        return BackendError(f"there is no Ray cluster: {why}", where=self.where, hint=hint)

    def _check_owner(self) -> None:
        trusted = {self.owner, _name(os.getuid()) if hasattr(os, "getuid") else ""}
        owners = set(_owners(self.port)) or {self.owner or "an unknown user"}
        for owner in sorted(owners):
            if owner not in trusted:
                raise BackendError(
                    f"the Ray cluster belongs to {owner}, who can run code as you if you join it",
                    where=self.where,
                    hint=f"Leave the address out for a cluster of your own; to join this one, write "
                    f"--ray OWNER@{self.text} with the name of its owner.",
                )


def _owners(port: int) -> Iterator[str]:
    """Yield the users whose processes listen at a port of this machine, as Linux lists them."""
    for table in _TABLES:
        with suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                _, local, _, state, _, _, _, user, *_ = line.split()
                if state == _LISTENS and int(local.rpartition(":")[2], 16) == port:
                    yield _name(int(user))


def _name(user: int) -> str:
    try:
        import pwd

        return pwd.getpwuid(user).pw_name
    except (ImportError, KeyError):
        return str(user)
