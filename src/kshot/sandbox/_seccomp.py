"""The system call filter: what is listed here is allowed, all else refused; Linux with x86-64 or 64-bit ARM.

No new processes or programs, no sockets, no signals to others, nothing of the system's. It runs inside the process.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, TypeAlias

    Condition: TypeAlias = tuple[int, int, int, bool]
    """Position of an argument; how its lower 32 bits are compared, with what; whether that must hold."""


# ---- the system calls that confined code may make, with their numbers ----
# A call is given as name x86-64/ARM, or name number where both machines have the same; -: it has none such.
# All other calls are refused, also those that Linux may get one day.

_FILES = """
read 0/63, write 1/64, readv 19/65, writev 20/66, pread64 17/67, pwrite64 18/68, preadv 295/69, pwritev 296/70,
preadv2 327/286, pwritev2 328/287, open 2/-, openat 257/56, openat2 437, creat 85/-, close 3/57, close_range 436,
dup 32/23, dup2 33/-, dup3 292/24, lseek 8/62, fsync 74/82, fdatasync 75/83, ftruncate 77/46, fallocate 285/47,
fadvise64 221/223, readahead 187/213, sync_file_range 277/84, flock 73/32, sendfile 40/71, copy_file_range 326/285,
pipe 22/-, pipe2 293/59
"""
_PATHS = """
stat 4/-, fstat 5/80, lstat 6/-, newfstatat 262/79, statx 332/291, access 21/-, faccessat 269/48, faccessat2 439,
statfs 137/43, fstatfs 138/44, getdents 78/-, getdents64 217/61, getcwd 79/17, chdir 80/49, fchdir 81/50,
readlink 89/-, readlinkat 267/78, truncate 76/45, rename 82/-, renameat 264/38, renameat2 316/276, mkdir 83/-,
mkdirat 258/34, rmdir 84/-, link 86/-, linkat 265/37, symlink 88/-, symlinkat 266/36, unlink 87/-, unlinkat 263/35,
umask 95/166
"""
_WAITING = """
poll 7/-, ppoll 271/73, select 23/-, pselect6 270/72, epoll_create 213/-, epoll_create1 291/20, epoll_ctl 233/21,
epoll_wait 232/-, epoll_pwait 281/22, epoll_pwait2 441, eventfd 284/-, eventfd2 290/19, signalfd 282/-,
signalfd4 289/74, timerfd_create 283/85, timerfd_settime 286/86, timerfd_gettime 287/87, wait4 61/260, waitid 247/95
"""
_OPEN_SOCKETS = """
getsockname 51/204, getpeername 52/205, getsockopt 55/209, setsockopt 54/208, shutdown 48/210, sendto 44/206,
sendmsg 46/211, sendmmsg 307/269, recvfrom 45/207, recvmsg 47/212, recvmmsg 299/243
"""
_MEMORY = """
mmap 9/222, munmap 11/215, mremap 25/216, mprotect 10/226, brk 12/214, madvise 28/233, mincore 27/232, msync 26/227,
mlock 149/228, mlock2 325/284, munlock 150/229, membarrier 324/283, mbind 237/235, get_mempolicy 239/236,
set_mempolicy 238/237, map_shadow_stack 453, mseal 462
"""
_THREADS = """
futex 202/98, futex_waitv 449, futex_wake 454, futex_wait 455, futex_requeue 456, set_robust_list 273/99,
set_tid_address 218/96, rseq 334/293, arch_prctl 158/-, gettid 186/178, exit 60/93, exit_group 231/94,
sched_yield 24/124, sched_getaffinity 204/123, sched_getparam 143/121, sched_getscheduler 145/120,
sched_get_priority_max 146/125, sched_get_priority_min 147/126, sched_rr_get_interval 148/127, sched_getattr 315/275,
getcpu 309/168
"""
_ABOUT_ITSELF = """
getpid 39/172, getppid 110/173, getpgid 121/155, getpgrp 111/-, getsid 124/156, getuid 102/174, geteuid 107/175,
getgid 104/176, getegid 108/177, getresuid 118/148, getresgid 120/150, getgroups 115/158, capget 125/90,
getpriority 140/141, getrusage 98/165, getrlimit 97/163, setrlimit 160/164, uname 63/160, sysinfo 99/179,
times 100/153, getrandom 318/278
"""
_SIGNALS_AND_TIME = """
rt_sigaction 13/134, rt_sigprocmask 14/135, rt_sigpending 127/136, rt_sigsuspend 130/133, rt_sigtimedwait 128/137,
rt_sigreturn 15/139, restart_syscall 219/128, sigaltstack 131/132, pause 34/-, alarm 37/-, getitimer 36/102,
setitimer 38/103, timer_create 222/107, timer_settime 223/110, timer_gettime 224/108, timer_getoverrun 225/109,
timer_delete 226/111, time 201/-, gettimeofday 96/169, clock_gettime 228/113, clock_getres 229/114,
clock_nanosleep 230/115, nanosleep 35/101
"""
_MODES = """
chmod 90/-, fchmod 91/52, fchmodat 268/53, fchmodat2 452, utime 132/-, utimes 235/-, futimesat 261/-, utimensat 280/88
"""
_OWNERS = "chown 92/-, fchown 93/55, lchown 94/-, fchownat 260/54"
_ATTRIBUTES = """
setxattr 188/5, lsetxattr 189/6, fsetxattr 190/7, getxattr 191/8, lgetxattr 192/9, fgetxattr 193/10,
listxattr 194/11, llistxattr 195/12, flistxattr 196/13, removexattr 197/14, lremovexattr 198/15, fremovexattr 199/16
"""
_BY_ARGUMENTS = """
fcntl 72/25, ioctl 16/29, prctl 157/167, prlimit64 302/261, clone 56/220, kill 62/129, tkill 200/130, tgkill 234/131,
socketpair 53/199, socket 41/198
"""
_OF_CLIENTS = "connect 42/203, bind 49/200"
_WITH_OTHER_WAYS = "clone3 435, memfd_create 319/279"


def _numbers(text: str, column: int) -> dict[str, int]:
    calls = {}
    for entry in text.split(","):
        name, numbers = entry.split()
        number = numbers.split("/")[column if "/" in numbers else 0]
        if number != "-":
            calls[name] = int(number)
    return calls


class SystemCalls:
    """The calls of one machine, by what becomes of them; each is a table of names and numbers."""

    def __init__(self, column: int) -> None:
        """Take the column of the machine in the tables above."""
        groups = (_FILES, _PATHS, _WAITING, _OPEN_SOCKETS, _MEMORY, _THREADS, _ABOUT_ITSELF, _SIGNALS_AND_TIME)
        self.allowed = _numbers(",".join(groups), column)
        self.modes, self.owners = _numbers(_MODES, column), _numbers(_OWNERS, column)
        self.attributes = _numbers(_ATTRIBUTES, column)
        self.by_arguments = _numbers(_BY_ARGUMENTS, column)
        """Allowed with some arguments; ``_seccomp`` says which."""
        self.of_clients = _numbers(_OF_CLIENTS, column)
        """Allowed where there is a network."""
        self.with_other_ways = _numbers(_WITH_OTHER_WAYS, column)
        """Libraries do without these if they are told that the system has none."""


def of_machine(name: str) -> SystemCalls | None:
    """Return the calls of a machine by what ``uname`` calls it; None: its calls are not known."""
    column = {"x86_64": 0, "aarch64": 1}.get(name)
    return None if column is None else SystemCalls(column)


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
