"""bwrap, where it is installed and works: a file system with Python alone, and no network, around the worker."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

_SECONDS = 20.0
_SYSTEM = (*("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo"),)
_SCRATCH_BYTES = 64 << 20
Command = Callable[[Path], Sequence[str]]


@cache
def bubblewrap() -> Command | None:
    """Return the function that gives the command for a folder; None: there is no bwrap that works here."""
    program = shutil.which("bwrap") if sys.platform == "linux" else None
    if program is None:
        return None

    def command(folder: Path) -> list[str]:
        shown = [option for path in (*_SYSTEM, *_python()) for option in ("--ro-bind-try", path, path)]
        # As process 1 the worker ends when all others have: nothing is left a moment longer.
        return [
            *(program, "--unshare-all", "--die-with-parent", "--as-pid-1", "--dev", "/dev", *shown),
            *("--size", str(_SCRATCH_BYTES), "--tmpfs", str(folder), "--chdir", str(folder), "--"),
        ]

    try:
        trial = [*command(Path(tempfile.gettempdir(), "kshot-trial")), sys.executable, "-I", "-S", "-c", ""]
        works = subprocess.run(trial, capture_output=True, timeout=_SECONDS, check=False).returncode == 0  # noqa: S603 - our own interpreter
    except (OSError, subprocess.TimeoutExpired):
        return None
    return command if works else None


def _python() -> list[str]:
    """Return what the interpreter and the worker consist of: folders that do not lie in each other, and a file."""
    executable = Path(sys.executable)
    own = {Path(prefix, name) for prefix in (sys.prefix, sys.base_prefix) for name in ("lib", "lib64", "pyvenv.cfg")}
    own |= {executable.parent, executable.resolve().parent, Path(__file__).parent}
    return sorted(str(path) for path in own if not own.intersection(path.parents))
