"""The system calls that confined code may make, with their numbers. Runs inside the confined process.

A call is given as ``name x86-64/ARM``, or ``name number`` where both machines have the same; ``-``: it has none such.
All other calls are refused, also those that Linux may get one day.
"""

from __future__ import annotations

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
