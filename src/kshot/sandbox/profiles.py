"""What each use of confined processes may do: one ``Profile`` each.

``FUNCTION`` serves all functions that are called confined (see ``sandbox.calls``). To add another use, write a profile
here and a worker module with a ``main`` like those of ``_program_worker`` and ``configs/_worker``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
        *(
            "COMPASS_DATA_CACHE",
            "AIS_BENCH_DATASETS_CACHE",
            "DATASET_SOURCE",
            "NLTK_DATA",
            "TIKTOKEN_CACHE_DIR",
            "HF_HUB_CACHE",
        ),
    ),
    threads=True,
    own_root=True,
    max_threads=512,
    scratch_mb=1024,
)
"""Functions and classes of another project, which a config or a task file names."""
