"""The system call filter: no new processes or programs, no sockets, no signals to others.

Runs inside the confined process, on Linux with x86-64 or 64-bit ARM.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from typing import Any

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16  # offsets in seccomp_data
_CLONE_THREAD = 0x00010000
_X32 = 0x40000000

# Numbers shared by both machines: pidfd and mount calls, io_uring (which would carry out calls unseen), fchmodat2
_COMMON = {
    "pidfd_send_signal": 424,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_open": 434,
    "clone3": 435,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
    "fchmodat2": 452,
}
_X86_64 = {
    "clone": 56,
    "fork": 57,
    "vfork": 58,
    "execve": 59,
    "execveat": 322,
    "socket": 41,
    "connect": 42,
    "bind": 49,
    "kill": 62,
    "tkill": 200,
    "tgkill": 234,
    "rt_sigqueueinfo": 129,
    "rt_tgsigqueueinfo": 297,
    "ptrace": 101,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "mount": 165,
    "umount2": 166,
    "pivot_root": 155,
    "chroot": 161,
    "unshare": 272,
    "setns": 308,
    "bpf": 321,
    "perf_event_open": 298,
    "userfaultfd": 323,
    "keyctl": 250,
    "add_key": 248,
    "request_key": 249,
    "prlimit64": 302,
    "shmget": 29,
    "semget": 64,
    "msgget": 68,
    "mq_open": 240,
    "chmod": 90,
    "fchmod": 91,
    "fchmodat": 268,
    "chown": 92,
    "fchown": 93,
    "lchown": 94,
    "fchownat": 260,
    "setxattr": 188,
    "lsetxattr": 189,
    "fsetxattr": 190,
    "removexattr": 197,
    "lremovexattr": 198,
    "fremovexattr": 199,
    "utime": 132,
    "utimes": 235,
    "futimesat": 261,
    "utimensat": 280,
}
_AARCH64 = {
    "clone": 220,
    "execve": 221,
    "execveat": 281,
    "socket": 198,
    "connect": 203,
    "bind": 200,
    "kill": 129,
    "tkill": 130,
    "tgkill": 131,
    "rt_sigqueueinfo": 138,
    "rt_tgsigqueueinfo": 240,
    "ptrace": 117,
    "process_vm_readv": 270,
    "process_vm_writev": 271,
    "mount": 40,
    "umount2": 39,
    "pivot_root": 41,
    "chroot": 51,
    "unshare": 97,
    "setns": 268,
    "bpf": 280,
    "perf_event_open": 241,
    "userfaultfd": 282,
    "keyctl": 219,
    "add_key": 217,
    "request_key": 218,
    "prlimit64": 261,
    "shmget": 194,
    "semget": 190,
    "msgget": 186,
    "mq_open": 180,
    "fchmod": 52,
    "fchmodat": 53,
    "fchown": 55,
    "fchownat": 54,
    "setxattr": 5,
    "lsetxattr": 6,
    "fsetxattr": 7,
    "removexattr": 14,
    "lremovexattr": 15,
    "fremovexattr": 16,
    "utimensat": 88,
}
_MACHINES = {"x86_64": (0xC000003E, _X86_64), "aarch64": (0xC00000B7, _AARCH64)}
# What Landlock does not cover; harmless where the file system is read-only. A refused chmod would break shutil.copy, so
# chmod and utime do nothing and report success.
_SILENT = ("chmod", "fchmod", "fchmodat", "fchmodat2", "utime", "utimes", "futimesat", "utimensat")
_OWNERSHIP = ("chown", "fchown", "lchown", "fchownat", "setxattr", "lsetxattr", "fsetxattr", "removexattr")
_METADATA = (*_SILENT, *_OWNERSHIP, "lremovexattr", "fremovexattr")
_BY_ARGUMENT = ("clone", "kill", "tgkill", "prlimit64")


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


def _filter_program(arch: int, calls: dict[str, int], *, files_frozen: bool) -> bytes:
    refused = [name for name in calls if name not in _BY_ARGUMENT and not (files_frozen and name in _METADATA)]
    errors = dict.fromkeys(_SILENT, 0) | {"clone3": errno.ENOSYS}  # so that the C library falls back on clone
    pid = os.getpid()
    return b"".join(
        (
            _instruction(_LOAD, _ARCH),
            _instruction(_EQUAL, arch, 1, 0),
            _instruction(_RETURN, _ERRNO | errno.EPERM),  # the other instruction set of this machine
            _instruction(_LOAD, _NUMBER),
            _instruction(_AT_LEAST, _X32, 0, 1),
            _instruction(_RETURN, _ERRNO | errno.ENOSYS),
            _only_if(calls["clone"], _ANY_BIT, _CLONE_THREAD),
            _only_if(calls["kill"], _EQUAL, pid),
            _only_if(calls["tgkill"], _EQUAL, pid),
            _only_if(calls["prlimit64"], _EQUAL, 0),
            *(_refuse(calls[name], errors.get(name, errno.EPERM)) for name in refused),
            _instruction(_RETURN, _ALLOW),
        )
    )


def install(*, files_frozen: bool) -> bool:
    """Filter the system calls of this process from now on; False where the kernel has no such filter."""
    machine = _MACHINES.get(os.uname().machine)
    if machine is None or struct.calcsize("P") != 8:  # noqa: PLR2004 - bytes of a 64-bit pointer
        return False
    arch, calls = machine
    body = _filter_program(arch, {**_COMMON, **calls}, files_frozen=files_frozen)
    buffer = ctypes.create_string_buffer(body, len(body))

    class FilterProgram(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))

    libc: Any = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    program = FilterProgram(len(body) // 8, ctypes.addressof(buffer))
    return bool(libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0) == 0)
