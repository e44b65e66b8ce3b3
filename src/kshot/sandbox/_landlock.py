"""Landlock, by which a process of Linux forbids itself files and TCP. Runs inside the confined process.

``_kernel.drop_privileges`` comes first: the kernel wants to know that no new privileges can be gained.
"""

from __future__ import annotations

import ctypes
import os
import struct

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Iterable

_SYS_CREATE_RULESET, _SYS_ADD_RULE, _SYS_RESTRICT_SELF = 444, 445, 446
_ASK_VERSION, _RULE_PATH_BENEATH = 1, 1

# Rights, as bits: execute 0, write 1, read 2-3, remove and make 4-12, rename across 13, truncate 14, ioctl 15
_EXECUTE, _WRITE, _READ_FILE, _READ_FOLDER, _TRUNCATE = 1, 2, 1 << 2, 1 << 3, 1 << 14
_WRITE_RIGHTS_SINCE = {1: 0b0001_1111_1111_0000, 2: 1 << 13, 3: _TRUNCATE, 5: 1 << 15}
_TCP = 0b11
_SCOPES = 0b11  # abstract sockets, and signals, to processes outside
_ABI_TRUNCATE, _ABI_TCP, _ABI_SCOPES = 3, 4, 6


def restrict_writing(folder: str, newest: int, *, network: bool = False) -> bool:
    """Forbid writing, deleting, making and executing files outside the folder, and TCP; True: truncating, too.

    ``newest``: the highest version of Landlock to use.
    """
    abi = min(newest, ctypes.CDLL(None).syscall(_SYS_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION))
    if abi < 1:
        return False
    write = _WRITE | sum(bits for since, bits in _WRITE_RIGHTS_SINCE.items() if since <= abi)
    handled = struct.pack("=Q", write | _EXECUTE)
    if abi >= _ABI_TCP:
        handled += struct.pack("=Q", 0 if network else _TCP)
    if abi >= _ABI_SCOPES:
        handled += struct.pack("=Q", _SCOPES)
    truncate = _TRUNCATE if abi >= _ABI_TRUNCATE else 0
    return _restrict(handled, [(folder, write), (os.devnull, _WRITE | truncate)]) and abi >= _ABI_TRUNCATE


def restrict_reading(paths: Iterable[str]) -> bool:
    """Forbid reading anything but these files and folders; a kernel without Landlock leaves this to the audit hook."""
    folder = _READ_FILE | _READ_FOLDER
    rules = [(path, folder if os.path.isdir(path) else _READ_FILE) for path in paths]  # noqa: PTH112 - pathlib takes long to load
    return _restrict(struct.pack("=Q", folder), rules)


def _restrict(handled: bytes, rules: Iterable[tuple[str, int]]) -> bool:
    """Forbid the handled rights, but for those that a rule grants below a path."""
    call = ctypes.CDLL(None).syscall
    ruleset = call(_SYS_CREATE_RULESET, handled, ctypes.c_size_t(len(handled)), 0)
    if ruleset < 0:
        return False
    try:
        for path, rights in rules:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            call(_SYS_ADD_RULE, ruleset, _RULE_PATH_BENEATH, struct.pack("=Qi", rights, place), 0)
            os.close(place)
        return bool(call(_SYS_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)
