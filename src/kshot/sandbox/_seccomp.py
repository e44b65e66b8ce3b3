"""The system call filter: what ``_system_calls`` lists is allowed, all else refused; Linux with x86-64 or 64-bit ARM.

No new processes or programs, no sockets, no signals to others, nothing of the system's. It runs inside the process.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from kshot.sandbox._system_calls import SystemCalls, of_machine

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, TypeAlias

    Condition: TypeAlias = tuple[int, int, int, bool]
    """Position of an argument; how its lower 32 bits are compared, with what; whether that must hold."""

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in seccomp_data
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_FIRST_UNKNOWN = 463
"""Calls that Linux got later have numbers from here on, on every machine; those of x32 are higher."""

# The flags with which C libraries start threads, and of those the ones that make it a thread
_CLONE_THREAD, _CLONE_FLAGS = 0x00010000, 0x017D0F00
_FCNTL_COMMANDS = (
    *(0, 1, 2, 3, 1030),  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC
    *(5, 6, 7, 36, 37, 38),  # locks: F_GETLK, F_SETLK, F_SETLKW, F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW
    *(1031, 1032, 1033, 1034),  # F_SETPIPE_SZ, F_GETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS
)
_F_SETFL, _O_ASYNC = 4, 0x2000
_IOCTL_REQUESTS = (
    *(0x5401, 0x802C542A, 0x5413),  # is it a terminal, how large: TCGETS, TCGETS2, TIOCGWINSZ
    *(0x541B, 0x5421, 0x5450, 0x5451),  # FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
    0x40049409,  # FICLONE
)
_PRCTL_OPTIONS = (
    *(2, 3, 21, 23, 39),  # PR_GET_PDEATHSIG, PR_GET_DUMPABLE, PR_GET_SECCOMP, PR_CAPBSET_READ, PR_GET_NO_NEW_PRIVS
    *(15, 16, 29, 30, 42, 0x53564D41),  # PR_SET_NAME, PR_GET_NAME, PR_SET_TIMERSLACK, …, PR_GET_THP_DISABLE, PR_SET_VMA
    *(51, 56, 64),  # of ARM: PR_SVE_GET_VL, PR_GET_TAGGED_ADDR_CTRL, PR_SME_GET_VL
)
_AF_UNIX, _NETLINK, _INTERNET = 1, 16, (2, 10)
_SOCK_STREAM, _SOCK_FLAGS = 1, 0x80800  # SOCK_CLOEXEC, SOCK_NONBLOCK


def _is(argument: int, value: int) -> Condition:
    return argument, _EQUAL, value, True


def _lacks(argument: int, bits: int) -> Condition:
    return argument, _ANY_BIT, bits, False


def _choices(pid: int, *, network: bool) -> dict[str, list[list[Condition]]]:
    """Return the calls that depend on their arguments; a call needs all conditions of one of its lists."""
    sockets = [*([_is(0, kind)] for kind in _INTERNET), [_is(0, _NETLINK), _is(2, 0)]]  # 0: which addresses it has
    return {
        "fcntl": [*([_is(1, command)] for command in _FCNTL_COMMANDS), [_is(1, _F_SETFL), _lacks(2, _O_ASYNC)]],
        "ioctl": [[_is(1, request)] for request in _IOCTL_REQUESTS],
        "prctl": [[_is(0, option)] for option in _PRCTL_OPTIONS],
        "prlimit64": [[_is(0, 0)]],
        "clone": [[(0, _ANY_BIT, _CLONE_THREAD, True), _lacks(0, 0xFFFFFFFF & ~_CLONE_FLAGS)]],
        **{name: [[_is(0, pid)]] for name in ("kill", "tkill", "tgkill")},
        # A pair of datagram sockets could send to any other.
        "socketpair": [
            [_is(0, _AF_UNIX), (1, _ANY_BIT, _SOCK_STREAM, True), _lacks(1, ~(_SOCK_STREAM | _SOCK_FLAGS) & 0xFFFFFFFF)]
        ],
        "socket": sockets if network else [],
    }


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


_ALLOWED, _REFUSED = _instruction(_RETURN, _ALLOW), _instruction(_RETURN, _ERRNO | errno.EPERM)


def _by_arguments(number: int, choices: Iterable[Sequence[Condition]]) -> bytes:
    body = b"".join(map(_choice, choices)) + _REFUSED
    return _instruction(_EQUAL, number, 0, len(body) // 8) + body


def _choice(conditions: Sequence[Condition]) -> bytes:
    """Allow the call if all conditions hold; else go on behind this."""
    parts = []
    for left, (argument, test, value, wanted) in zip(range(len(conditions) - 1, -1, -1), conditions, strict=True):
        behind = 2 * left + 1
        jumps = (0, behind) if wanted else (behind, 0)
        parts.append(_instruction(_LOAD, _ARGUMENTS + 8 * argument) + _instruction(test, value, *jumps))
    return b"".join(parts) + _ALLOWED


def _answered(numbers: Iterable[int], error: int) -> bytes:
    """Do nothing for these calls, and report an error; 0: success."""
    return b"".join(_instruction(_EQUAL, number, 0, 1) + _instruction(_RETURN, _ERRNO | error) for number in numbers)


def _allowed(numbers: Iterable[int]) -> bytes:
    """Allow these calls, one run of consecutive numbers after another; numbers between runs are refused."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1]:
            runs[-1][1] += 1
        else:
            runs.append([number, number + 1])
    return b"".join(
        _instruction(_AT_LEAST, end, 3, 0) + _instruction(_AT_LEAST, first, 0, 1) + _ALLOWED + _REFUSED
        for first, end in runs
    )


def filter_program(machine: str, calls: SystemCalls, pid: int, *, files_frozen: bool, network: bool) -> bytes:
    """Return the filter for a process: a program for the kernel's packet filter, 8 bytes an instruction."""
    frozen = {**calls.modes, **calls.owners} if files_frozen else {}
    choices = _choices(pid, network=network)
    return b"".join(
        (
            _instruction(_LOAD, _ARCH),
            _instruction(_EQUAL, _ARCHITECTURES[machine], 1, 0),
            _REFUSED,  # the other instruction set of this machine
            _instruction(_LOAD, _NUMBER),
            _instruction(_AT_LEAST, _FIRST_UNKNOWN, 0, 1),
            _instruction(_RETURN, _ERRNO | errno.ENOSYS),
            *(_by_arguments(number, choices[name]) for name, number in calls.by_arguments.items()),
            _answered(calls.with_other_ways.values(), errno.ENOSYS),
            _answered(calls.attributes.values(), errno.ENOTSUP),  # as of a file system that has none
            # Landlock does not cover modes and times. Refusing chmod would break shutil.copy: it does nothing.
            b"" if files_frozen else _answered(calls.modes.values(), 0),
            _allowed({**calls.allowed, **frozen, **(calls.of_clients if network else {})}.values()),
            _REFUSED,
        )
    )


def install(*, files_frozen: bool, network: bool = False) -> bool:
    """Filter the system calls of this process from now on; False where the kernel has no such filter."""
    machine = os.uname().machine
    calls = of_machine(machine)
    if calls is None or struct.calcsize("P") != 8:  # noqa: PLR2004 - bytes of a 64-bit pointer
        return False
    body = filter_program(machine, calls, os.getpid(), files_frozen=files_frozen, network=network)
    buffer = ctypes.create_string_buffer(body, len(body))

    class FilterProgram(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))

    libc: Any = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    program = FilterProgram(len(body) // 8, ctypes.addressof(buffer))
    return bool(libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0) == 0)
