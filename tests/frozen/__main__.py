"""``python -m tests.frozen``: compare what kshot does with what it did when ``tests/frozen/data`` was recorded.

Each case is a text: a screen, a file of a run, a page, an export. Its digest is recorded. The exit code is 1 if one differs;
the texts of the cases that differ are then in ``.frozen``. To see how they differ, keep the texts of the state before:
``--keep BEFORE`` there, and here ``--diff BEFORE``.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path

from tests.frozen.cases import (
    DATA,
    Cases,
    diff,
    differences,
    is_skipped,
    raw_file,
    read_record,
    without_skipped,
    write_record,
)
from tests.frozen.world import ROOT, stand_still

GROUPS = ("docs", "configs", "after", "tasks", "ways", "hostile", "walk")
"""A module for each, by how long they take; its function ``make`` adds the cases of the group."""
PLAIN_ARITHMETIC = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
}
"""Makes torch, its libraries and numpy add in the same order on every processor: the last digits depend on it."""
LONG = ("docs_long",)
"""Groups that ``--all`` adds."""
CHANGED = ROOT / ".frozen"


def main() -> int:
    """Make the cases, and compare or record them; return the exit code."""
    given = _arguments()
    if given.group:
        _make(given.group, given.into)
        return 0
    chosen = [group for group in (*(LONG if given.all else ()), *GROUPS) if fnmatchcase(group, _group(given.only))]
    with tempfile.TemporaryDirectory() as name:
        into = given.keep.resolve() if given.keep else Path(name)
        with ThreadPoolExecutor(given.jobs) as pool:
            seconds = dict(zip(chosen, pool.map(lambda group: _in_process(group, into), chosen), strict=True))
        for group in chosen:
            print(f"{group}: {len(read_record(into, group))} cases, {seconds[group]:.0f} s of processor time")
        if given.record:
            for group in chosen:
                _record(group, into, given.only)
            return 0
        shutil.rmtree(CHANGED, ignore_errors=True)
        said = [line for group in chosen for line in _compared(group, into, given)]
        differ = [line for line in said if line.startswith(("changed", "new", "gone"))]
        print(*said, f"{len(differ)} cases differ" if differ else "every case is as recorded", sep="\n")
        return int(bool(differ))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.frozen", description=__doc__)
    parser.add_argument("--record", action="store_true", help="record the cases anew")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="GROUP, or GROUP/CASE; both may have * and ?")
    parser.add_argument("--all", action="store_true", help="the groups that take minutes, too")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write the texts of all cases into this folder")
    parser.add_argument("--diff", type=Path, metavar="DIR", help="show what changed since --keep wrote this folder")
    parser.add_argument("--lines", type=int, default=12, metavar="N", help="lines of each difference (default: 12)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at one time (default: 2)")
    parser.add_argument("--group", help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _group(pattern: str) -> str:
    return pattern.partition("/")[0]


def _in_process(group: str, into: Path) -> float:
    """Make the cases of a group in a process of its own; return the processor time that it took."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("KSHOT_") and not name.endswith("_KEY")
    }
    environment |= {
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
    }
    environment |= {
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        **PLAIN_ARITHMETIC,
    }
    command = [sys.executable, "-m", "tests.frozen", "--group", group, "--into", str(into)]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"the group {group} failed with exit code {done.returncode}")
    return float(done.stdout.splitlines()[-1])


def _make(group: str, into: Path) -> None:
    """Make the cases of a group in this process."""
    stand_still()
    with tempfile.TemporaryDirectory(prefix="frozen-") as name:
        os.chdir(name)
        os.environ["KSHOT_CACHE"] = f"{name}/cache"
        cases = Cases(into, group)
        importlib.import_module(f"tests.frozen.{group}").make(cases)
        cases.close()
        os.chdir(ROOT)
    print(sum(os.times()[:4]))


def _chosen(record: dict[str, str], group: str, pattern: str) -> dict[str, str]:
    """Return the cases of a group that a pattern names."""
    return {
        name: value for name, value in record.items() if "/" not in pattern or fnmatchcase(f"{group}/{name}", pattern)
    }


def _record(group: str, into: Path, pattern: str) -> None:
    """Replace what is recorded of the chosen cases, but for those that were skipped."""
    recorded, (found, skipped) = read_record(DATA, group), without_skipped(read_record(into, group))
    chosen = _chosen(recorded, group, pattern)
    kept = {name: value for name, value in recorded.items() if name not in chosen or is_skipped(name, skipped)}
    write_record(DATA, group, kept | _chosen(found, group, pattern))


def _compared(group: str, into: Path, given: argparse.Namespace) -> Iterator[str]:
    """Yield what is not as recorded, and keep the texts of these cases."""
    found, skipped = without_skipped(read_record(into, group))
    recorded, found = (_chosen(each, group, given.only) for each in (read_record(DATA, group), found))
    for beginning, why in skipped.items():
        yield f"skipped {group}/{beginning}: {why}"
    if group == "walk":
        from tests.frozen import walk

        yield from walk.report(recorded, found)
        return
    for what, name in differences(recorded, found, skipped):
        yield f"{what} {group}/{name}"
        after = raw_file(into, group, name)
        if what != "gone":
            copy = raw_file(CHANGED, group, name)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(after, copy)
        if given.diff:
            yield from diff(raw_file(given.diff, group, name), after, given.lines)


if __name__ == "__main__":
    sys.exit(main())
