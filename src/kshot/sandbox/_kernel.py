"""Namespaces, mounts, capabilities, Landlock and limits of the kernel. Runs inside the confined process.

Each function returns whether its layer is in place. A kernel or container that refuses one is not an error here.
"""

from __future__ import annotations

import ctypes
import os
import struct

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWUSER = 0x00020000, 0x08000000, 0x10000000
_CLONE_NEWPID, _CLONE_NEWNET, _CLONE_NEWUTS = 0x20000000, 0x40000000, 0x04000000
_NAMESPACES = _CLONE_NEWNS | _CLONE_NEWIPC | _CLONE_NEWPID | _CLONE_NEWNET | _CLONE_NEWUTS

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
_MNT_DETACH = 2
_SYS_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _MOUNT_RDONLY, _MOUNT_NOSUID = 442, -100, 0x8000, 1, 2

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 4, 24, 36, 38
_CAPABILITIES_V3, _LAST_CAPABILITY = 0x20080522, 63
_SIGKILL = 9
_SCRATCH_MB = 64


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Become the parent of every process that a descendant leaves behind, so that it can be found and ended."""
    _libc().prctl(_PR_SET_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    """Be killed when the process that started this one ends."""
    _libc().prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)


def unshare(*, network: bool = False) -> bool:
    """Leave the host's network (unless it may be used), mounts, IPC and process numbers (the last: for children)."""
    libc, uid, gid = _libc(), os.getuid(), os.getgid()
    namespaces = _NAMESPACES & ~_CLONE_NEWNET if network else _NAMESPACES
    if libc.unshare(_CLONE_NEWUSER | namespaces) == 0:
        try:
            _write("/proc/self/setgroups", "deny")
            _write("/proc/self/uid_map", f"{uid} {uid} 1")
            _write("/proc/self/gid_map", f"{gid} {gid} 1")
        except OSError:
            pass  # without a mapping the mounts below fail, which is noticed; the network is gone all the same
        return True
    return bool(libc.unshare(namespaces) == 0)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:  # noqa: PTH123 - pathlib takes long to load
        file.write(text)


def freeze_files(folder: str) -> bool:
    """Make every mount read-only but a small one in memory, which lies over the process's own folder."""
    libc = _libc()
    if libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None):
        return False
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    libc.mount(b"proc", b"/proc", b"proc", flags, None)  # refused where parts of /proc are masked; no loss
    own = os.fsencode(folder)
    if libc.mount(b"tmpfs", own, b"tmpfs", _MS_NOSUID | _MS_NODEV, b"size=%dm,nr_inodes=4096,mode=700" % _SCRATCH_MB):
        return False
    return _make_read_only(libc, b"/", but=own)


def enter_own_root(folder: str, readable: Iterable[str], scratch_mb: int = _SCRATCH_MB) -> bool:
    """Leave the file system for one that has these files and folders alone, read-only, and an empty folder to write in.

    Every path stays what it was. There is no ``/proc``.
    """
    libc, root, flags = _libc(), os.fsencode(folder), _MS_NOSUID | _MS_NODEV
    if libc.unshare(_CLONE_NEWNS) or libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None):
        return False
    if libc.mount(b"tmpfs", root, b"tmpfs", flags, b"size=1m,mode=755"):
        return False
    shown = {path: os.path.realpath(path) for path in readable if not path.startswith("/proc/")}
    # A folder comes before what lies in it, wherever links lead: else it would have that alone.
    if not all(_bind(libc, root, path) for path in sorted(set(shown.values()))):
        return False
    for path, real in sorted(shown.items()):
        _link(root, path, real)
    os.makedirs(folder + folder)  # noqa: PTH103 - pathlib takes long to load
    scratch = root + root
    if libc.mount(b"tmpfs", scratch, b"tmpfs", flags, b"size=%dm,nr_inodes=4096,mode=700" % scratch_mb):
        return False
    os.chdir(folder)
    if not _make_read_only(libc, root, but=scratch):
        return False
    moved = libc.pivot_root(b".", b".") == 0 and libc.umount2(b".", _MNT_DETACH) == 0
    os.chdir("/")
    return bool(moved)


def _bind(libc: Any, root: bytes, path: str) -> bool:
    """Show a file or folder under its own path in another root."""
    place = os.fsdecode(root) + path
    if os.path.lexists(place) or not os.path.exists(path):  # noqa: PTH110 - pathlib takes long to load
        return True  # a folder above it is shown already
    os.makedirs(os.path.dirname(place), exist_ok=True)  # noqa: PTH103, PTH120 - pathlib takes long to load
    if os.path.isdir(path):  # noqa: PTH112 - pathlib takes long to load
        os.mkdir(place)  # noqa: PTH102 - pathlib takes long to load
    else:
        os.close(os.open(place, os.O_CREAT | os.O_WRONLY))
    return bool(libc.mount(os.fsencode(path), os.fsencode(place), None, _MS_BIND | _MS_REC, None) == 0)


def _link(root: bytes, path: str, real: str) -> None:
    """Make a link in another root, where this path is one and nothing shows it yet."""
    place = os.fsdecode(root) + path
    if path != real and os.path.exists(real) and not os.path.lexists(place):  # noqa: PTH110 - pathlib takes long to load
        os.makedirs(os.path.dirname(place), exist_ok=True)  # noqa: PTH103, PTH120 - as above
        os.symlink(real, place)  # noqa: PTH211 - as above


def _make_read_only(libc: Any, root: bytes, *, but: bytes) -> bool:
    """Make every mount below a folder read-only, but for one."""
    read_only = struct.pack("=QQQQ", _MOUNT_RDONLY | _MOUNT_NOSUID, 0, 0, 0)
    writable = struct.pack("=QQQQ", 0, _MOUNT_RDONLY, 0, 0)
    call, size = libc.syscall, ctypes.c_size_t(len(read_only))
    if call(_SYS_MOUNT_SETATTR, _AT_FDCWD, root, _AT_RECURSIVE, read_only, size):
        return False
    return bool(call(_SYS_MOUNT_SETATTR, _AT_FDCWD, but, 0, writable, size) == 0)


def drop_privileges() -> None:
    """Give up every capability, for good: root without them is an ordinary user. Nobody can look in."""
    libc = _libc()
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for capability in range(_LAST_CAPABILITY + 1):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.capset(struct.pack("=Ii", _CAPABILITIES_V3, 0), struct.pack("=6I", *[0] * 6))


# ---- Landlock, by which a process of Linux forbids itself files and TCP ----
# drop_privileges comes first: the kernel wants to know that no new privileges can be gained.

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


# ---- limits on what this process may use ----


def set_limits(table: dict[str, int], *, processes: int | None) -> None:
    """Set limits by their names in ``resource``; a limit that this system does not have is left out.

    ``processes`` counts all processes of the user; None: the system call filter forbids new ones already.
    """
    try:
        import resource
    except ImportError:  # Windows
        return
    limits = table if processes is None else {**table, "RLIMIT_NPROC": processes}
    for name, most in limits.items():
        kind = getattr(resource, name, None)  # which of them there are depends on the system
        if kind is None:
            continue
        hard = resource.getrlimit(kind)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(kind, (value, value))
        except (ValueError, OSError):  # macOS has no limit on address space
            continue
