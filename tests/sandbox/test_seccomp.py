"""Every system call is allowed on purpose or refused: the filter is run in an interpreter, and by the kernel."""

import ast
import ctypes
import errno
import mmap
import os
import platform
import struct
import sys
import textwrap
from functools import cache

import pytest

from kshot.configs import load
from kshot.lmeval.functions import Functions
from kshot.sandbox import program
from kshot.sandbox._seccomp import filter_program, install, of_machine
from kshot.sandbox.guest import Guest
from tests.configs.homes import evaluator_home
from tests.lmeval.tasks import ref

# The kernel's calls, in the order of their numbers. A plain name is allowed, - refused, ? depends on arguments, ~ gives
# ENOSYS, ! ENOTSUP; = is allowed where the file system is frozen, @ where there is a network. A lone - is no call.
X86_64 = """
read write open close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask rt_sigreturn
?ioctl pread64 pwrite64 readv writev access pipe select sched_yield mremap msync mincore madvise -shmget -shmat
-shmctl dup dup2 pause nanosleep getitimer alarm setitimer getpid sendfile ?socket @connect -accept sendto recvfrom
sendmsg recvmsg shutdown @bind -listen getsockname getpeername ?socketpair setsockopt getsockopt ?clone -fork -vfork
-execve exit wait4 ?kill uname -semget -semop -semctl -shmdt -msgget -msgsnd -msgrcv -msgctl ?fcntl flock fsync
fdatasync truncate ftruncate getdents getcwd chdir fchdir rename mkdir rmdir creat link unlink symlink readlink =chmod
=fchmod =chown =fchown =lchown umask gettimeofday getrlimit getrusage sysinfo times -ptrace getuid -syslog getgid
-setuid -setgid geteuid getegid -setpgid getppid getpgrp -setsid -setreuid -setregid getgroups -setgroups -setresuid
getresuid -setresgid getresgid getpgid -setfsuid -setfsgid getsid capget -capset rt_sigpending rt_sigtimedwait
-rt_sigqueueinfo rt_sigsuspend sigaltstack =utime -mknod -uselib -personality -ustat statfs fstatfs -sysfs getpriority
-setpriority -sched_setparam sched_getparam -sched_setscheduler sched_getscheduler sched_get_priority_max
sched_get_priority_min sched_rr_get_interval mlock munlock -mlockall -munlockall -vhangup -modify_ldt -pivot_root
-_sysctl ?prctl arch_prctl -adjtimex setrlimit -chroot -sync -acct -settimeofday -mount -umount2 -swapon -swapoff
-reboot -sethostname -setdomainname -iopl -ioperm -create_module -init_module -delete_module -get_kernel_syms
-query_module -quotactl -nfsservctl -getpmsg -putpmsg -afs_syscall -tuxcall -security gettid readahead !setxattr
!lsetxattr !fsetxattr !getxattr !lgetxattr !fgetxattr !listxattr !llistxattr !flistxattr !removexattr !lremovexattr
!fremovexattr ?tkill time futex -sched_setaffinity sched_getaffinity -set_thread_area -io_setup -io_destroy
-io_getevents -io_submit -io_cancel -get_thread_area -lookup_dcookie epoll_create -epoll_ctl_old -epoll_wait_old
-remap_file_pages getdents64 set_tid_address restart_syscall -semtimedop fadvise64 timer_create timer_settime
timer_gettime timer_getoverrun timer_delete -clock_settime clock_gettime clock_getres clock_nanosleep exit_group
epoll_wait epoll_ctl ?tgkill =utimes -vserver mbind set_mempolicy get_mempolicy -mq_open -mq_unlink -mq_timedsend
-mq_timedreceive -mq_notify -mq_getsetattr -kexec_load waitid -add_key -request_key -keyctl -ioprio_set -ioprio_get
-inotify_init -inotify_add_watch -inotify_rm_watch -migrate_pages openat mkdirat -mknodat =fchownat =futimesat
newfstatat unlinkat renameat linkat symlinkat readlinkat =fchmodat faccessat pselect6 ppoll -unshare set_robust_list
-get_robust_list -splice -tee sync_file_range -vmsplice -move_pages =utimensat epoll_pwait signalfd timerfd_create
eventfd fallocate timerfd_settime timerfd_gettime -accept4 signalfd4 eventfd2 epoll_create1 dup3 pipe2 -inotify_init1
preadv pwritev -rt_tgsigqueueinfo -perf_event_open recvmmsg -fanotify_init -fanotify_mark ?prlimit64
-name_to_handle_at -open_by_handle_at -clock_adjtime -syncfs sendmmsg -setns getcpu -process_vm_readv
-process_vm_writev -kcmp -finit_module -sched_setattr sched_getattr renameat2 -seccomp getrandom ~memfd_create
-kexec_file_load -bpf -execveat -userfaultfd membarrier mlock2 copy_file_range preadv2 pwritev2 -pkey_mprotect
-pkey_alloc -pkey_free statx -io_pgetevents rseq -uretprobe -uprobe
"""
AARCH64 = """
-io_setup -io_destroy -io_submit -io_cancel -io_getevents !setxattr !lsetxattr !fsetxattr !getxattr !lgetxattr
!fgetxattr !listxattr !llistxattr !flistxattr !removexattr !lremovexattr !fremovexattr getcwd -lookup_dcookie eventfd2
epoll_create1 epoll_ctl epoll_pwait dup dup3 ?fcntl -inotify_init1 -inotify_add_watch -inotify_rm_watch ?ioctl
-ioprio_set -ioprio_get flock -mknodat mkdirat unlinkat symlinkat linkat renameat -umount2 -mount -pivot_root
-nfsservctl statfs fstatfs truncate ftruncate fallocate faccessat chdir fchdir -chroot =fchmod =fchmodat =fchownat
=fchown openat close -vhangup pipe2 -quotactl getdents64 lseek read write readv writev pread64 pwrite64 preadv pwritev
sendfile pselect6 ppoll signalfd4 -vmsplice -splice -tee readlinkat newfstatat fstat -sync fsync fdatasync
sync_file_range timerfd_create timerfd_settime timerfd_gettime =utimensat -acct capget -capset -personality exit
exit_group waitid set_tid_address -unshare futex set_robust_list -get_robust_list nanosleep getitimer setitimer
-kexec_load -init_module -delete_module timer_create timer_gettime timer_getoverrun timer_settime timer_delete
-clock_settime clock_gettime clock_getres clock_nanosleep -syslog -ptrace -sched_setparam -sched_setscheduler
sched_getscheduler sched_getparam -sched_setaffinity sched_getaffinity sched_yield sched_get_priority_max
sched_get_priority_min sched_rr_get_interval restart_syscall ?kill ?tkill ?tgkill sigaltstack rt_sigsuspend
rt_sigaction rt_sigprocmask rt_sigpending rt_sigtimedwait -rt_sigqueueinfo rt_sigreturn -setpriority getpriority
-reboot -setregid -setgid -setreuid -setuid -setresuid getresuid -setresgid getresgid -setfsuid -setfsgid times
-setpgid getpgid getsid -setsid getgroups -setgroups uname -sethostname -setdomainname getrlimit setrlimit getrusage
umask ?prctl getcpu gettimeofday -settimeofday -adjtimex getpid getppid getuid geteuid getgid getegid gettid sysinfo
-mq_open -mq_unlink -mq_timedsend -mq_timedreceive -mq_notify -mq_getsetattr -msgget -msgctl -msgrcv -msgsnd -semget
-semctl -semtimedop -semop -shmget -shmctl -shmat -shmdt ?socket ?socketpair @bind -listen -accept @connect
getsockname getpeername sendto recvfrom setsockopt getsockopt shutdown sendmsg recvmsg readahead brk munmap mremap
-add_key -request_key -keyctl ?clone -execve mmap fadvise64 -swapon -swapoff mprotect msync mlock munlock -mlockall
-munlockall mincore madvise -remap_file_pages mbind get_mempolicy set_mempolicy -migrate_pages -move_pages
-rt_tgsigqueueinfo -perf_event_open -accept4 recvmmsg -arch_specific_syscall - - - - - - - - - - - - - - - wait4
?prlimit64 -fanotify_init -fanotify_mark -name_to_handle_at -open_by_handle_at -clock_adjtime -syncfs -setns sendmmsg
-process_vm_readv -process_vm_writev -kcmp -finit_module -sched_setattr sched_getattr renameat2 -seccomp getrandom
~memfd_create -bpf -execveat -userfaultfd membarrier mlock2 copy_file_range preadv2 pwritev2 -pkey_mprotect
-pkey_alloc -pkey_free statx -io_pgetevents rseq -kexec_file_load
"""
FROM_424 = """
-pidfd_send_signal -io_uring_setup -io_uring_enter -io_uring_register -open_tree -move_mount -fsopen -fsconfig
-fsmount -fspick -pidfd_open ~clone3 close_range openat2 -pidfd_getfd faccessat2 -process_madvise epoll_pwait2
-mount_setattr -quotactl_fd -landlock_create_ruleset -landlock_add_rule -landlock_restrict_self -memfd_secret
-process_mrelease futex_waitv -set_mempolicy_home_node -cachestat =fchmodat2 map_shadow_stack futex_wake futex_wait
futex_requeue -statmount -listmount -lsm_get_self_attr -lsm_set_self_attr -lsm_list_modules mseal
"""
MACHINES = {"x86_64": (X86_64, 0xC000003E), "aarch64": (AARCH64, 0xC00000B7)}
FIRST_SHARED, X32, BEYOND = 424, 0x40000000, 700
PID, OTHER = 4711, 4712
ALLOW, REFUSE = "allow", errno.EPERM


def table(machine):
    """Return the mark and name of every number below ``BEYOND``."""
    first = MACHINES[machine][0].split()
    words = [*first, *["-"] * (FIRST_SHARED - len(first)), *FROM_424.split()]
    words += ["~"] * (BEYOND - len(words))  # calls that are not known yet
    return [(word[0], word[1:]) if word[0] in "-?~!=@" else ("", word) for word in words]


@cache
def instructions(machine, files_frozen, network):
    program = filter_program(machine, of_machine(machine), PID, files_frozen=files_frozen, network=network)
    return [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]


def verdict(machine, number, *arguments, arch=None, files_frozen=False, network=False):
    """Run the filter on one call, as the kernel would."""
    lines = instructions(machine, files_frozen, network)
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack(
        "=IIQ6Q", number, MACHINES[machine][1] if arch is None else arch, 0, *(a % 2**64 for a in padded)
    )
    at, value = 0, None
    while True:
        code, if_true, if_false, operand = lines[at]
        at += 1
        if code == 0x06:
            action, error = operand & 0xFFFF0000, operand & 0xFFFF
            assert action in {0x7FFF0000, 0x00050000}
            return ALLOW if action == 0x7FFF0000 else error
        if code == 0x20:
            (value,) = struct.unpack_from("=I", data, operand)
        else:
            holds = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
            at += if_true if holds else if_false


def of_name(machine, name, *arguments, **options):
    number = [known for _, known in table(machine)].index(name)
    return verdict(machine, number, *arguments, **options)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
def test_every_number_is_allowed_on_purpose_or_refused(machine, frozen, network):
    wrong = []
    for number, (mark, name) in enumerate(table(machine)):
        chown = "chown" in name
        expected = {
            "": ALLOW,
            "-": REFUSE,
            "?": REFUSE,  # with arguments of 1 << 31, which none of them takes
            "~": errno.ENOSYS,
            "!": errno.ENOTSUP,
            "=": ALLOW if frozen else REFUSE if chown else 0,
            "@": ALLOW if network else REFUSE,
        }[mark]
        real = verdict(machine, number, *[1 << 31] * 6, files_frozen=frozen, network=network)
        if real != expected:
            wrong.append((number, name, real, expected))
    assert wrong == []


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_the_kernels(machine):
    names = [name for _, name in table(machine)]
    groups = vars(of_machine(machine)).values()
    assert {name: number for calls in groups for name, number in calls.items()} == {
        name: number
        for number, (mark, name) in enumerate(table(machine))
        if name and mark != "-" and names.index(name) == number
    }


@pytest.mark.parametrize("machine", MACHINES)
def test_other_instruction_sets_are_refused(machine):
    i386, arm, x86_64, aarch64 = 0x40000003, 0x40000028, 0xC000003E, 0xC00000B7
    others = {i386, arm, x86_64, aarch64, 0} - {MACHINES[machine][1]}
    assert {verdict(machine, number, arch=arch) for arch in others for number in range(BEYOND)} == {REFUSE}
    assert {verdict(machine, X32 | number) for number in range(BEYOND)} == {errno.ENOSYS}
    assert {verdict(machine, number) for number in (2**31, 2**32 - 1, 2**32 - 2)} == {errno.ENOSYS}


THREAD = 0x3D0F00  # as the C library of GNU starts one
ARGUMENTS = {
    "fcntl": [(3, 0, 0), (3, 1, 0), (3, 2, 1), (3, 3, 0), (3, 4, 0x800), (3, 6, 0x7FFF2000), (3, 1030, 3)],
    "ioctl": [(0, 0x5401, 1), (0, 0x5413, 1), (0, 0x541B, 1), (0, 0x5451, 0)],
    "prctl": [(15, 1), (16, 1), (39, 0), (23, 5), (0x53564D41, 0)],
    "prlimit64": [(0, 7)],
    "clone": [(THREAD,), (THREAD | 0x400000,)],
    "kill": [(PID, 9), (PID, 15)],
    "tkill": [(PID, 6)],
    "tgkill": [(PID, 4900, 10)],
    "socketpair": [(1, 1, 0), (1, 0x80801, 0)],
}
REFUSED = {
    # F_SETFL with O_ASYNC, F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY, F_SET_RW_HINT
    "fcntl": [(3, 4, 0x2000), (3, 4, 0x2802), *((3, command, 9) for command in (8, 10, 15, 1024, 1026, 1036, 1030 + 2**31))],
    # TIOCSTI, TIOCLINUX, TIOCSCTTY, TIOCSPGRP, TIOCSETD, FIOASYNC, FIOSETOWN, SIOCSPGRP, SIOCGIFCONF, FS_IOC_SETFLAGS
    "ioctl": [(0, request, 1) for request in (0x5412, 0x541C, 0x540E, 0x5410, 0x5423, 0x5452, 0x8901, 0x8902, 0x8912, 0x40086602)],
    # PDEATHSIG, DUMPABLE, KEEPCAPS, SECCOMP, CAPBSET_DROP, SECUREBITS, MCE_KILL, SUBREAPER, AMBIENT, PTRACER, dispatch
    "prctl": [(option, 0) for option in (1, 4, 8, 22, 24, 28, 33, 36, 47, 0x59616D61, 59, 2**31)],
    "prlimit64": [(PID, 7), (OTHER, 7), (1, 7), (2**32 - 1, 7)],
    # fork, vfork, a thread that is traced, a thread whose parent is another's, namespaces, a descriptor of the process
    "clone": [(17,), (0x4111,), *((THREAD | bit,) for bit in (0x2000, 0x8000, 0x20000, 0x2000000, 0x10000000, 0x20000000, 0x1000))],
    "kill": [(OTHER, 9), (0, 9), (2**64 - 1, 9), (2**64 - PID, 9), (1, 15)],
    "tkill": [(OTHER, 9)],
    "tgkill": [(OTHER, OTHER, 9), (0, OTHER, 9)],
    "socketpair": [(1, 2, 0), (1, 5, 0), (1, 3, 0), (2, 1, 0), (1, 0, 0), (16, 1, 0)],
    "socket": [(domain, 1, 0) for domain in range(64)],
}  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", REFUSED)
def test_arguments_decide(machine, name):
    assert {of_name(machine, name, *arguments) for arguments in ARGUMENTS.get(name, [])} <= {ALLOW}
    assert {of_name(machine, name, *arguments) for arguments in REFUSED[name]} == {REFUSE}


COMMANDS = {
    # F_DUPFD to F_SETFL, locks, F_DUPFD_CLOEXEC, sizes of pipes, seals
    "fcntl": (1, {0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1031, 1032, 1033, 1034}),
    # TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, FICLONE, TCGETS2
    "ioctl": (1, {0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x40049409, 0x802C542A}),
    # what asks, the name, the slack of timers, names of memory
    "prctl": (0, {2, 3, 15, 16, 21, 23, 29, 30, 39, 42, 51, 56, 64, 0x53564D41}),
}
THREAD_BITS = {8, 9, 10, 11, 16, 18, 19, 20, 21, 22, 24}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_allowed_on_purpose_or_refused(machine, name):
    position, allowed = COMMANDS[name]
    near = {value ^ 1 << bit for value in allowed for bit in range(32)}
    tried = {*range(2048), *range(0x5400, 0x5500), *range(0x8900, 0x8A00), *near, *allowed}
    given = {value: (*[0] * position, value) for value in tried}
    assert {value for value in tried if of_name(machine, name, *given[value]) == ALLOW} == allowed
    # The kernel reads the lower half of the argument alone.
    high = [of_name(machine, name, *[0] * position, 1 << 32 | value) for value in allowed]
    assert set(high) == {ALLOW}


@pytest.mark.parametrize("machine", MACHINES)
def test_every_flag_of_a_thread_is_allowed_on_purpose_or_refused(machine):
    for bit in range(32):
        answer = of_name(machine, "clone", 0x10000 | 1 << bit)
        assert answer == (ALLOW if bit in THREAD_BITS else REFUSE), bit
        assert of_name(machine, "clone", 1 << bit & ~0x10000) == REFUSE, bit
    assert of_name(machine, "clone3", 0, 88) == errno.ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
def test_with_a_network_there_are_sockets_of_the_internet_alone(machine):
    domains = [domain for domain in range(64) if of_name(machine, "socket", domain, 1, 0, network=True) == ALLOW]
    assert domains == [2, 10, 16]
    assert of_name(machine, "socket", 16, 3, 15, network=True) == REFUSE  # netlink of the kernel's events


# ---- by the kernel ----


def filtered(tried):
    """Return what a function gives in a child process that has the filter, a text."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writer, repr(tried() if install(files_frozen=False) else None).encode())
        finally:
            os._exit(0)
    os.close(writer)
    answer = b"".join(iter(lambda: os.read(reader, 1 << 16), b"")).decode()
    os.close(reader)
    os.waitpid(child, 0)
    if answer == "None":
        pytest.skip("this system has no filter")
    return answer


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has the filter")
def test_the_kernel_refuses_what_the_interpreter_refuses():
    machine = os.uname().machine
    call = ctypes.CDLL(None, use_errno=True).syscall
    # Newer kernels ask no filter about the probes, and end a process that calls them itself.
    refused = [
        number
        for number, (mark, name) in enumerate(table(machine))
        if mark in {"-", "~", "!", "@"} and "probe" not in name
    ]
    expected = {number: verdict(machine, number) for number in refused}
    expected |= {X32 | number: errno.ENOSYS for number in (0, 1, 57, 59, 520)}

    def tried():
        return {number: ctypes.get_errno() for number in expected if call(ctypes.c_long(number), *[-1] * 6) == -1}

    assert filtered(tried) == repr(expected)


@pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="a matter of x86-64 alone")
def test_the_kernel_refuses_every_call_of_32_bits():
    """``int 0x80`` makes calls of i386 in a process of 64 bits, with numbers of its own: 20 asks for the process."""
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(b"\x53\x31\xdb\x31\xc9\x31\xd2\x89\xf8\xcd\x80\x5b\xc3")  # push rbx; arguments 0; eax = number; int
    call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
    child = os.fork()
    if not child:
        os._exit(call(20) != os.getpid())
    if os.waitpid(child, 0)[1]:
        pytest.skip("this kernel has no calls of 32 bits")
    assert filtered(lambda: {call(number) for number in range(BEYOND)}) == repr({-errno.EPERM})


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has the filter")
def test_a_pipe_cannot_be_made_to_send_signals():
    """``F_SETOWN``, ``F_SETSIG`` and ``O_ASYNC`` would have the kernel send any signal to any process of the user."""
    import fcntl

    commands = ((fcntl.F_SETOWN, os.getpid()), (10, 9), (fcntl.F_SETFL, os.O_ASYNC), (fcntl.F_NOTIFY, 1))
    call = ctypes.CDLL(None, use_errno=True).fcntl

    def tried():
        reader, _ = os.pipe()
        return [(call(reader, *command), ctypes.get_errno()) for command in commands]

    assert filtered(tried) == repr([(-1, errno.EPERM)] * 4)


def number_of(name):
    return [known for _, known in table(os.uname().machine)].index(name)


def probe():
    """Return code that makes calls which no confined code may make; ``errors`` is what the kernel says of each."""
    fcntl, own = number_of("fcntl"), [*((8, 1), (10, 9), (4, 0x2000), (1026, 1))]  # as above
    others = {"ioctl": (0, 0x5412, 0), "prctl": (1, 0), "socket": (1, 1, 0), "prlimit64": (1, 7, 0, 0), "kill": (1, 0)}
    others |= dict.fromkeys(("sched_setattr", "execve", "io_uring_setup", "bpf", "mknodat", "unshare"), (0,) * 3)
    calls = [(fcntl, "r", *command) for command in own] + [(number_of(name), *given) for name, given in others.items()]
    return (
        "import ctypes, os\nlibc, (r, w), errors = ctypes.CDLL(None, use_errno=True), os.pipe(), []\n"
        f"for call in {calls!r}:\n"
        "    if libc.syscall(*(ctypes.c_long(r if each == 'r' else each) for each in call)) == -1:\n"
        "        errors.append(ctypes.get_errno())\n"
    ), [errno.EPERM] * len(calls)


def of_program(code, folder):
    return program.value_of(code, "errors", 60.0, layers=LEAST)


def of_tests(code, folder):
    outcome = program.run("", f"{code}assert not errors, errors", 60.0, layers=LEAST)
    return ast.literal_eval(outcome.reason.removeprefix("AssertionError: "))


def of_config(code, folder):
    path = folder / "config.py"
    path.write_text(f"{code}del libc\n")
    return load(path, layers=LEAST).variables["errors"]


def of_home(code, folder):
    home = evaluator_home(folder, f"{code}return {{'accuracy': float(len(errors)), 'errors': str(errors)}}")
    guest = Guest("a home", {"opencompass": home / "opencompass"}, "kshot.configs._home_adapter", layers=LEAST)
    try:
        given = {"predictions": [""], "references": [""], "rows": [{}]}
        return ast.literal_eval(
            guest.ask("evaluate", name="opencompass.datasets.OwnEvaluator", options={}, **given)["errors"]
        )
    finally:
        guest.close()


def of_task_file(code, folder):
    (folder / "utils.py").write_text(f"def probe(_):\n{textwrap.indent(code, '    ')}    return errors\n")
    functions = Functions(folder)
    try:
        return functions.each(ref(folder, "probe"), [("",)])[0]
    finally:
        functions.close()


LEAST = ("landlock", "seccomp")


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has the filter")
@pytest.mark.parametrize("confined", [of_program, of_tests, of_config, of_home, of_task_file])
def test_the_filter_is_the_same_for_all_code_of_strangers(confined, tmp_path):
    code, refused = probe()
    assert confined(code, tmp_path) == refused
