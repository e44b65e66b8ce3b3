"""The Pythons of this machine that kshot supports; as a script: the tests that need no torch, on the oldest and newest.

``python tests/pythons.py [ARGUMENTS OF PYTEST]`` makes an environment for each under ``.pythons``. Tests that need torch,
or another package that is not there, are skipped, and say so.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENVIRONMENTS = ROOT / ".pythons"
NEEDED = "import ensurepip, sqlite3, sys, venv; print('%d.%d' % sys.version_info[:2])"
"""What a Python must have to run kshot in an environment of its own; it prints its version."""


def supported():
    """Return the versions that pyproject.toml lists, the oldest first."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)
    return sorted(found, key=lambda version: int(version.partition(".")[2]))


def installed():
    """Return the interpreters of this machine, by version, the oldest first: on the path, of pyenv, and this one."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser() / "versions"
    found = {}
    for version in supported():
        # pyenv has shims on the path that fail for versions it is not told to use
        of_pyenv = sorted(pyenv.glob(f"{version}.*/bin/python"))
        for python in (sys.executable, shutil.which(f"python{version}"), *of_pyenv):
            if python is not None and _version(python) == version:
                found[version] = str(python)
                break
    return found


def _version(python):
    done = subprocess.run([python, "-c", NEEDED], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def environment(version, python):
    """Return the Python of an environment with kshot, the tools of tests and the extras that need no torch."""
    folder = ENVIRONMENTS / version
    ready, inside = folder / ".ready", folder / "bin" / "python"
    files = [ROOT / "pyproject.toml", ROOT / "constraints.txt"]
    if not ready.exists() or any(file.stat().st_mtime > ready.stat().st_mtime for file in files):
        print(f"Setting up {folder.relative_to(ROOT)}: about a minute …", flush=True)
        subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
        pip = [inside, "-m", "pip", "install", "-q", "--no-compile", "-c", ROOT / "constraints.txt"]
        subprocess.run([*pip, "-e", f"{ROOT}[test]"], check=True)
        compiled = [inside, "-m", "compileall", "-qq", "-j", "0", folder / "lib"]
        subprocess.run(compiled, check=False)  # some packages hold files that are not Python
        ready.touch()
    return inside


def main(arguments):
    """Run the tests with the oldest and the newest Python; return the number of those that fail."""
    found = installed()
    if not found:
        sys.exit(f"No Python from {supported()[0]} to {supported()[-1]} is on this machine.")
    chosen = dict.fromkeys([min(found, key=supported().index), max(found, key=supported().index)])
    missing = [version for version in supported() if version not in found]
    if missing:
        print(f"Python {', '.join(missing)} is not on this machine.")
    failed = []
    for version in chosen:
        python = environment(version, found[version])
        print(f"Python {version}: {found[version]}", flush=True)
        command = [python, "-m", "pytest", "-n", "auto", "--dist", "worksteal", *arguments]
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            failed.append(version)
    print(
        f"Python {' and '.join(failed)}: tests fail." if failed else f"Python {' and '.join(chosen)}: all tests pass."
    )
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
