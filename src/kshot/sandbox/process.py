"""Start a confined process, as its profile says, and end it: its environment, its folder, its first lines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.machinery import SourceFileLoader
from io import BufferedReader
from pathlib import Path
from typing import Any, TypedDict

from kshot.core.work_folders import WorkFolder, remove_leftovers

# ---- profiles: how far each use of confined processes may go ----
# FUNCTION serves all functions that are called confined (see sandbox.calls). To add another use, write a profile
# here and a worker module with a main like those of _program_worker and configs/_worker.

LAYERS = ("namespaces", "landlock", "seccomp", "guard")
"""The layers of confinement, outermost first; ``guard`` is the audit hook, the others are the kernel's."""

_MEMORY_MB = 1024
_OPEN_FILES = 128


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """How much a confined process may use."""

    file_mb: int
    memory_mb: int = _MEMORY_MB
    open_files: int = _OPEN_FILES
    cpu_seconds: int | None = None
    """None: the caller watches the time."""

    def table(self) -> dict[str, int]:
        """Return the limits by their names in the module ``resource``."""
        limits = {
            "RLIMIT_AS": self.memory_mb << 20,
            "RLIMIT_FSIZE": self.file_mb << 20,
            "RLIMIT_NOFILE": self.open_files,
            "RLIMIT_CORE": 0,
        }
        return limits if self.cpu_seconds is None else {**limits, "RLIMIT_CPU": self.cpu_seconds}


@dataclass(frozen=True, slots=True)
class Profile:
    """How far one use of confined processes may go."""

    name: str
    """What a refusal calls the place: "not allowed in NAME"."""
    folder_prefix: str
    """How the name of its temporary folder begins."""
    limits: ProcessLimits
    packages: tuple[str, ...]
    """The packages of kshot whose modules the worker imports; their ``__init__`` modules do not run."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that it gets beside those that every confined process gets."""
    passed_on: tuple[str, ...] = ()
    """Environment variables of the caller that it may see."""
    reads_everything: bool = False
    """Whether it may read all files of the user; else only Python's own and those that the caller names."""
    threads: bool = False
    """Whether it may start threads."""
    own_root: bool = False
    """Whether it gets a file system of its own, where the kernel has mount namespaces."""
    max_threads: int | None = None
    """How many threads it may have, where it has a user namespace of its own; None: as many as the system allows."""
    scratch_mb: int = 64
    """How much it may write into its folder, where that lies in memory."""


PROGRAM = Profile(
    name="the sandbox",
    folder_prefix="kshot-run-",
    limits=ProcessLimits(file_mb=16),
    packages=("kshot", "kshot.sandbox"),
    variables={"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    threads=True,
    own_root=True,
    max_threads=2048,
)
"""A program that a model wrote, and the tests that judge it, in a process each."""

CONFIG = Profile(
    name="a config file",
    folder_prefix="kshot-config-",
    limits=ProcessLimits(file_mb=1),
    packages=("kshot", "kshot.sandbox", "kshot.configs", "kshot.cleanups"),
    passed_on=("DATASET_SOURCE", "OC_JUDGE_MODEL", "OC_JUDGE_API_BASE"),
)
"""A config file, and the functions and classes that it defines."""

FUNCTION = Profile(
    name="a confined function",
    folder_prefix="kshot-function-",
    limits=ProcessLimits(file_mb=1),
    packages=("kshot", "kshot.sandbox"),
)
"""A function of kshot whose calls may never end: a pattern of a stranger, a formula that a model wrote."""

GUEST = Profile(
    name="a confined worker",
    folder_prefix="kshot-guest-",
    limits=ProcessLimits(file_mb=1024, memory_mb=8192, open_files=1024),
    packages=("kshot", "kshot.sandbox"),
    variables={
        **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
        **dict.fromkeys(("TOKENIZERS_PARALLELISM", "HF_HUB_ENABLE_HF_TRANSFER", "WANDB_MODE"), "0"),
    },
    passed_on=(
        *("COMPASS_DATA_CACHE", "AIS_BENCH_DATASETS_CACHE", "DATASET_SOURCE"),
        *("NLTK_DATA", "TIKTOKEN_CACHE_DIR", "HF_HUB_CACHE"),
    ),
    threads=True,
    own_root=True,
    max_threads=512,
    scratch_mb=1024,
)
"""Functions and classes of another project, which a config or a task file names."""


# ---- a process ----

_ROOT = Path(__file__).parents[1]
# The packages are empty modules with a path: what their own __init__ modules import is neither needed nor wanted.
_BOOT = (
    "import sys; root, worker, *packages = sys.argv[1:]; del sys.argv[1:]\n"
    "for name in packages:\n"
    " sys.modules[name] = type(sys)(name)\n"
    " sys.modules[name].__path__ = ['/'.join([root, *name.split('.')[1:]])]\n"
    "__import__(worker); sys.modules[worker].main()\n"
)
_SAFE_PATH = ("-P",) if sys.version_info >= (3, 11) else ()
_LANDLOCK_ABI = 7
"""The highest version of Landlock to use; tests lower it to act like older kernels."""
_SHELL_SIGNAL = 128
"""Shells add this to the number of the signal that ended a process."""


class ProcessOptions(TypedDict, total=False):
    """Options of ``ConfinedProcess`` that say what a use of a profile may do and see."""

    layers: Sequence[str]
    limits: ProcessLimits | None
    readable: Sequence[Path]
    cwd: Path | None
    network: bool
    variables: Mapping[str, str] | None


class ConfinedProcess:
    """A process that confines itself before it runs anything else, with a temporary folder of its own.

    ``worker`` names the module whose ``main`` it calls. ``job`` goes to it as one line of JSON on standard input; with
    ``takes_requests`` more lines can follow, written to ``stdin``.
    """

    def __init__(
        self,
        profile: Profile,
        worker: str,
        job: Mapping[str, Any],
        *,
        layers: Sequence[str] = LAYERS,
        limits: ProcessLimits | None = None,
        readable: Sequence[Path] = (),
        cwd: Path | None = None,
        takes_requests: bool = False,
        held_back: str | None = None,
        command_before: Callable[[Path], Sequence[str]] | None = None,
        network: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Start it. ``limits`` replace those of the profile; ``readable`` is what it may read, ``cwd`` its folder.

        ``network``: whether it may use the network. ``variables``: environment variables beside the profile's.

        ``held_back`` is a text that the worker reads when it has read its job and forked; the size of the job then
        comes before it. ``command_before`` returns the command that starts the interpreter in this folder.
        """
        root = Path(tempfile.gettempdir())
        _remove_leftovers(root, f"{profile.folder_prefix}*")
        own = WorkFolder(root, profile.folder_prefix)
        folder = own.path
        confinement = {
            "name": profile.name,
            "folder": str(folder),
            "cwd": str(cwd or folder),
            "layers": list(layers),
            "landlock_abi": _LANDLOCK_ABI,
            "limits": (limits or profile.limits).table(),
            "readable": None if profile.reads_everything else [str(path) for path in readable],
            "threads": profile.threads,
            "own_root": profile.own_root,
            "scratch_mb": profile.scratch_mb,
            "network": network,
            "max_threads": profile.max_threads,
        }
        # ASCII: backslash escapes carry lone surrogates, which no encoding would.
        line = json.dumps({**confinement, **job}).encode("ascii") + b"\n"
        if held_back is not None:
            line = b"%d\n" % len(line) + line + json.dumps(held_back).encode("ascii")
        try:
            before = command_before(folder) if command_before is not None else ()
            environment = {**_environment(profile, folder), **(variables or {})}
            job_line = None if takes_requests else line
            start = partial(_start, profile, worker, folder, job_line, before=before, environment=environment)
            # The kernel ends a process with the thread that started it: one that stays needs a thread that stays.
            self._process = _starter().submit(start).result() if takes_requests else start()
        except BaseException:
            own.remove()
            raise
        self._starter_pid = os.getpid()
        self._finalizer = weakref.finalize(self, _end, self._process, own, self._starter_pid)
        self.stdin = self._process.stdin
        assert isinstance(self._process.stdout, BufferedReader)  # noqa: S101 - for the type checker: it is a pipe
        self.stdout = self._process.stdout
        if takes_requests:
            self.send(line)

    def send(self, line: bytes) -> None:
        """Write a line to its standard input. A process that has ended takes none; reading its output will show it."""
        if self.stdin is not None:
            with suppress(OSError, ValueError):
                self.stdin.write(line)
                self.stdin.flush()

    @property
    def alive(self) -> bool:
        """Whether it still runs, and for this process: what a forked one has of it belongs to its parent."""
        return os.getpid() == self._starter_pid and self._process.poll() is None

    def ending(self) -> str:
        """Say how it ended, for a message: with which exit code, or by which signal."""
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return "it closed its pipe"
        number = code - _SHELL_SIGNAL if code > _SHELL_SIGNAL else -code
        if code in (0, 1) or number not in {int(each) for each in signal.Signals}:
            return f"exit code {code}"
        return f"killed by {signal.Signals(number).name}"

    def end(self) -> None:
        """Kill it, with every process of its session, and remove its folder."""
        self._finalizer()


def _start(
    profile: Profile,
    worker: str,
    folder: Path,
    job: bytes | None,
    *,
    before: Sequence[str],
    environment: Mapping[str, str],
) -> subprocess.Popen[bytes]:
    """Start the interpreter. A job given here lies in a file, so that writing it never blocks."""
    _compile_modules(profile.packages)
    command = [*before, sys.executable, "-s", "-B", *_SAFE_PATH, "-c", _BOOT, str(_ROOT), worker, *profile.packages]
    with tempfile.TemporaryFile() as file:
        file.write(job or b"")
        file.seek(0)
        return subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command,
            stdin=subprocess.PIPE if job is None else file,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )


_remove_leftovers = cache(remove_leftovers)
"""Removes the folders of processes of kshot that were killed; once is enough, since it looks at a whole folder."""


@cache
def _starter() -> ThreadPoolExecutor:
    """Return the thread that starts the processes that stay; it lives as long as this process."""
    return ThreadPoolExecutor(1, thread_name_prefix="kshot-start")


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_starter.cache_clear)  # the thread stayed in the parent


@cache
def _compile_modules(packages: tuple[str, ...]) -> None:
    """Have the modules that run inside compiled: a confined process writes none, and would start slowly."""
    for package in packages:
        for path in _ROOT.joinpath(*package.split(".")[1:]).glob("_[a-z]*.py"):
            with suppress(OSError):
                SourceFileLoader(path.stem, str(path)).get_code(path.stem)


def _environment(profile: Profile, folder: Path) -> dict[str, str]:
    clean = {
        "PATH": os.defpath,
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",  # the order of sets must not decide what passes
        "PYTHONUTF8": "1",
    }
    names = (*profile.passed_on, "SYSTEMROOT")  # Windows starts no program without the last
    return {**clean, **profile.variables, **{name: os.environ[name] for name in names if name in os.environ}}


def _end(process: subprocess.Popen[bytes], folder: WorkFolder, starter_pid: int) -> None:
    if os.getpid() != starter_pid:  # a fork of the one that started it, which may still need it
        return
    if process.returncode is None:  # else its number may belong to another process by now
        try:
            if hasattr(os, "killpg"):  # not on Windows
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        except (ProcessLookupError, PermissionError):
            process.kill()
    process.wait()
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    folder.remove()
