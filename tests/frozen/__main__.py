"""``python -m tests.frozen``: compare what kshot does with what it did when ``tests/frozen/data`` was recorded.

Each case is a text: a screen, a file of a run, a page, an export. Its digest is recorded. Exit code 1: some differ.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path

from tests.frozen.cases import DATA, Cases, diff, differences, raw_file, read_record, skipped, write_record
from tests.frozen.world import ROOT, stand_still

GROUPS = ("ways", "after")
"""A module for each, by how long they take; its function ``make`` adds the cases of the group."""
CHANGED = ROOT / ".frozen"
"""Where the texts of changed cases are put."""


def main() -> int:
    given = _arguments()
    if given.group:
        _make(given.group, given.into)
        return 0
    groups = [group for group in GROUPS if fnmatchcase(group, given.only.partition("/")[0])]
    with tempfile.TemporaryDirectory() as name:
        into = given.keep.resolve() if given.keep else Path(name)
        with ThreadPoolExecutor(given.jobs) as pool:
            seconds = dict(zip(groups, pool.map(lambda group: _in_process(group, into), groups), strict=True))
        for group in groups:
            print(f"{group}: {len(read_record(into, group))} cases, {seconds[group]:.0f} s of processor time")
        shutil.rmtree(CHANGED, ignore_errors=True)
        finish = _record if given.record else _compare
        results = [finish(group, into, given) for group in groups]
        return int(any(results))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.frozen", description=__doc__)
    parser.add_argument("--record", action="store_true", help="record the cases anew")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="GROUP, or GROUP/CASE; both may have * and ?")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write the texts of all cases into this folder")
    parser.add_argument("--diff", type=Path, metavar="DIR", help="show what changed since --keep wrote this folder")
    parser.add_argument("--lines", type=int, default=12, metavar="N", help="lines of each difference (default: 12)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at one time (default: 2)")
    parser.add_argument("--group", help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _in_process(group: str, into: Path) -> float:
    """Make the cases of a group in a process of its own; return the processor time that it took."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("KSHOT_")},
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    command = [sys.executable, "-m", "tests.frozen", "--group", group, "--into", str(into)]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"the group {group} failed with exit code {done.returncode}")
    return float(done.stdout.splitlines()[-1])


def _make(group: str, into: Path) -> None:
    stand_still()
    with tempfile.TemporaryDirectory(prefix="frozen-") as name:
        os.chdir(name)
        os.environ["KSHOT_CACHE"] = f"{name}/cache"
        cases = Cases(into, group)
        importlib.import_module(f"tests.frozen.{group}").make(cases)
        cases.close()
        os.chdir(ROOT)
    used = os.times()
    print(sum(used[:4]))


def _chosen(record: dict[str, str], group: str, pattern: str) -> dict[str, str]:
    return {
        name: value for name, value in record.items() if "/" not in pattern or fnmatchcase(f"{group}/{name}", pattern)
    }


def _record(group: str, into: Path, given: argparse.Namespace) -> bool:
    recorded, found = read_record(DATA, group), read_record(into, group)
    changed = _chosen(recorded, group, given.only)
    left_out = tuple(skipped(found))
    kept = {n: value for n, value in recorded.items() if n not in changed or (left_out and n.startswith(left_out))}
    write_record(
        DATA, group, kept | {n: v for n, v in _chosen(found, group, given.only).items() if not n.startswith("skipped:")}
    )
    return False


def _compare(group: str, into: Path, given: argparse.Namespace) -> bool:
    recorded, found = (_chosen(read_record(folder, group), group, given.only) for folder in (DATA, into))
    for beginning, why in skipped(found).items():
        print(f"skipped {group}/{beginning}…: {why}")
    changed = list(differences(recorded, found))
    for what, name in changed:
        print(f"{what} {group}/{name}")
        after = raw_file(into, group, name)
        if after.exists():
            copy = raw_file(CHANGED, group, name)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(after, copy)
        if given.diff:
            print(*diff(raw_file(given.diff, group, name), after, given.lines), sep="\n")
    return bool(changed)


if __name__ == "__main__":
    sys.exit(main())
