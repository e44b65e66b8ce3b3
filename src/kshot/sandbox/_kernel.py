"""What the Linux kernel lends the sandbox: namespaces, capabilities, Landlock.

Runs inside the jailed process. Every function tells whether its layer stands; a kernel or container that refuses one is
not an error here.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from pathlib import Path
from typing import Any

LINUX = sys.platform == "linux"
_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWUSER = 0x00020000, 0x08000000, 0x10000000
_CLONE_NEWPID, _CLONE_NEWNET, _CLONE_NEWUTS = 0x20000000, 0x40000000, 0x04000000
_SPACES = _CLONE_NEWNS | _CLONE_NEWIPC | _CLONE_NEWPID | _CLONE_NEWNET | _CLONE_NEWUTS

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 16384, 1 << 18
_SYS_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _MOUNT_RDONLY, _MOUNT_NOSUID = 442, -100, 0x8000, 1, 2
_SYS_LANDLOCK_CREATE, _SYS_LANDLOCK_ADD, _SYS_LANDLOCK_RESTRICT = 444, 445, 446

_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 24, 36, 38
_CAPABILITIES_V3, _LAST_CAPABILITY = 0x20080522, 63
_SIGKILL = 9


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Become the parent of whatever a descendant leaves behind, so that it can be found and ended."""
    _libc().prctl(_PR_SET_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    """Be killed when the process that started this one ends."""
    _libc().prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)


def unshare() -> bool:
    """Leave the host's network, mounts, IPC and process numbers (the last holds for children)."""
    libc, uid, gid = _libc(), os.getuid(), os.getgid()
    if libc.unshare(_CLONE_NEWUSER | _SPACES) == 0:
        try:
            Path("/proc/self/setgroups").write_text("deny", "ascii")
            Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1", "ascii")
            Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1", "ascii")
        except OSError:
            pass  # without a mapping the mounts below fail, which is noticed; the network is gone all the same
        return True
    return bool(libc.unshare(_SPACES) == 0)


def freeze_files(folder: str) -> bool:
    """Make every mount read-only but a small one in memory, laid over the program's own directory."""
    libc = _libc()
    if libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None):
        return False
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    libc.mount(b"proc", b"/proc", b"proc", flags, None)  # refused where parts of /proc are masked; no loss
    own = os.fsencode(folder)
    if libc.mount(b"tmpfs", own, b"tmpfs", _MS_NOSUID | _MS_NODEV, b"size=64m,nr_inodes=4096,mode=700"):
        return False
    shut = struct.pack("=QQQQ", _MOUNT_RDONLY | _MOUNT_NOSUID, 0, 0, 0)
    opened = struct.pack("=QQQQ", 0, _MOUNT_RDONLY, 0, 0)
    call = libc.syscall
    if call(_SYS_MOUNT_SETATTR, _AT_FDCWD, b"/", _AT_RECURSIVE, shut, ctypes.c_size_t(len(shut))):
        return False
    return bool(call(_SYS_MOUNT_SETATTR, _AT_FDCWD, own, 0, opened, ctypes.c_size_t(len(opened))) == 0)


def drop_privileges() -> None:
    """Give up every capability, for good: root without them is an ordinary user."""
    libc = _libc()
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for capability in range(_LAST_CAPABILITY + 1):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.capset(struct.pack("=Ii", _CAPABILITIES_V3, 0), struct.pack("=6I", *[0] * 6))


# Landlock's rights, as bits: execute 0, write 1, remove and make 4-12, rename across 13, truncate 14, ioctl 15
_EXECUTE, _WRITE = 1, 2
_SINCE = {1: 0b0001_1111_1111_0000, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_TCP = 0b11
_SCOPES = 0b11  # abstract sockets, and signals, to processes outside
_ABI_TRUNCATE, _ABI_TCP, _ABI_SCOPES = 3, 4, 6


def landlock(folder: str) -> bool:
    """Forbid writing, deleting, making and executing files anywhere but in the folder. True: truncating, too."""
    libc = _libc()
    abi = libc.syscall(_SYS_LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1)
    if abi < 1:
        return False
    write = _WRITE | sum(bits for since, bits in _SINCE.items() if since <= abi)
    body = struct.pack("=Q", write | _EXECUTE)
    if abi >= _ABI_TCP:
        body += struct.pack("=Q", _TCP)
    if abi >= _ABI_SCOPES:
        body += struct.pack("=Q", _SCOPES)
    rules = libc.syscall(_SYS_LANDLOCK_CREATE, body, ctypes.c_size_t(len(body)), 0)
    if rules < 0:
        return False
    try:
        truncate = 1 << 14 if abi >= _ABI_TRUNCATE else 0
        for path, rights in ((folder, write), (os.devnull, _WRITE | truncate)):
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            libc.syscall(_SYS_LANDLOCK_ADD, rules, 1, struct.pack("=Qi", rights, place), 0)
            os.close(place)
        return bool(libc.syscall(_SYS_LANDLOCK_RESTRICT, rules, 0) == 0 and abi >= _ABI_TRUNCATE)
    finally:
        os.close(rules)
