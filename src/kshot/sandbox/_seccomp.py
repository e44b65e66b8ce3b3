"""The system call filter: no new processes or programs, no sockets, no signals to others, nothing of the system's.

Runs inside the confined process, on Linux with x86-64 or 64-bit ARM.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from kshot.sandbox._system_calls import AARCH64, COMMON, X86_64

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from typing import Any

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCH, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24  # offsets in seccomp_data
_CLONE_THREAD = 0x00010000

_MACHINES = {"x86_64": (0xC000003E, X86_64), "aarch64": (0xC00000B7, AARCH64)}
# What Landlock does not cover; harmless where the file system is read-only. A refused chmod would break shutil.copy, so
# chmod and utime do nothing and report success.
_SILENT = ("chmod", "fchmod", "fchmodat", "fchmodat2", "utime", "utimes", "futimesat", "utimensat")
_OWNERSHIP = ("chown", "fchown", "lchown", "fchownat", "setxattr", "lsetxattr", "fsetxattr", "removexattr")
_METADATA = (*_SILENT, *_OWNERSHIP, "lremovexattr", "fremovexattr")
_CLIENT_CALLS = ("socket", "connect", "bind")
_BY_ARGUMENT = ("clone", "kill", "tgkill", "prlimit64", "prctl", "ioctl")
_FIRST_UNKNOWN = 463
"""Calls that Linux got later have numbers from here on, on every machine; those of x32 are higher."""
_PR_SET_PDEATHSIG, _TIOCSTI, _TIOCLINUX = 1, 0x5412, 0x541C


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _refuse(number: int, error: int) -> bytes:
    return _instruction(_EQUAL, number, 0, 1) + _instruction(_RETURN, _ERRNO | error)


def _only_if(number: int, test: int, value: int) -> bytes:
    """Allow a call only if its first argument passes a test."""
    return (
        _instruction(_EQUAL, number, 0, 4)
        + _instruction(_LOAD, _FIRST_ARGUMENT)
        + _instruction(test, value, 0, 1)
        + _instruction(_RETURN, _ALLOW)
        + _instruction(_RETURN, _ERRNO | errno.EPERM)
    )


def _unless(number: int, argument: int, value: int) -> bytes:
    """Refuse a call if one of its arguments is this."""
    return (
        _instruction(_EQUAL, number, 0, 4)
        + _instruction(_LOAD, argument)
        + _instruction(_EQUAL, value, 0, 1)
        + _instruction(_RETURN, _ERRNO | errno.EPERM)
        + _instruction(_LOAD, _NUMBER)
    )


def _filter_program(arch: int, calls: dict[str, int], *, files_frozen: bool, network: bool) -> bytes:
    allowed = {*_BY_ARGUMENT, *(_METADATA if files_frozen else ()), *(_CLIENT_CALLS if network else ())}
    refused = [name for name in calls if name not in allowed]
    errors = dict.fromkeys(_SILENT, 0)
    errors.update(clone3=errno.ENOSYS, memfd_create=errno.ENOSYS)  # so that the C library falls back on older ones
    pid = os.getpid()
    return b"".join(
        (
            _instruction(_LOAD, _ARCH),
            _instruction(_EQUAL, arch, 1, 0),
            _instruction(_RETURN, _ERRNO | errno.EPERM),  # the other instruction set of this machine
            _instruction(_LOAD, _NUMBER),
            _instruction(_AT_LEAST, _FIRST_UNKNOWN, 0, 1),
            _instruction(_RETURN, _ERRNO | errno.ENOSYS),
            _only_if(calls["clone"], _ANY_BIT, _CLONE_THREAD),
            _only_if(calls["kill"], _EQUAL, pid),
            _only_if(calls["tgkill"], _EQUAL, pid),
            _only_if(calls["prlimit64"], _EQUAL, 0),
            _unless(calls["prctl"], _FIRST_ARGUMENT, _PR_SET_PDEATHSIG),  # it must die with its parent
            _unless(calls["ioctl"], _SECOND_ARGUMENT, _TIOCSTI),
            _unless(calls["ioctl"], _SECOND_ARGUMENT, _TIOCLINUX),
            *(_refuse(calls[name], errors.get(name, errno.EPERM)) for name in refused),
            _instruction(_RETURN, _ALLOW),
        )
    )


def install(*, files_frozen: bool, network: bool = False) -> bool:
    """Filter the system calls of this process from now on; False where the kernel has no such filter."""
    machine = _MACHINES.get(os.uname().machine)
    if machine is None or struct.calcsize("P") != 8:  # noqa: PLR2004 - bytes of a 64-bit pointer
        return False
    arch, calls = machine
    body = _filter_program(arch, {**COMMON, **calls}, files_frozen=files_frozen, network=network)
    buffer = ctypes.create_string_buffer(body, len(body))

    class FilterProgram(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))

    libc: Any = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    program = FilterProgram(len(body) // 8, ctypes.addressof(buffer))
    return bool(libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0) == 0)
