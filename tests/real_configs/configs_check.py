"""kshot on every config file of OpenCompass and AISBench: ``make configs-check``.

The homes run in an environment of their own (``benchmarks/.peers/configs``). They render the prompts of some entries of
every file on made-up rows, as text, with a meta template and as messages, and score made-up replies. kshot must give the
loaders the same keys of every entry, render the same prompts, run every file to a score by its command line (without the
home's code, and with it), and give the home's figures. The test suite does not include this script.

    python tests/real_configs/configs_check.py [--keep FOLDER] [--home NAME] [--most N] [--files PATTERN] [--part PART …]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from tests.real_configs import apart, cleaning, comparing, evaluating, keys, reference, users_data  # noqa: E402 - the path is set above

CORES = 2
PARTS = ("keys", "prompts", "cleanups", "without", "with")
ENOUGH = {"keys": 100.0, "prompts": 99.5, "cleanups": 97.0, "without": 75.0, "with": 95.0}
LISTED = 12
PROGRESS_FILES = 50


def main() -> int:
    """Record, compare, print; 1 where a figure is too low."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--keep", type=Path, help="folder for what is recorded and found; used again. Default: a temporary one"
    )
    parser.add_argument("--home", action="append", choices=list(reference.HOMES), help="only this home (repeatable)")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part (repeatable)")
    parser.add_argument("--most", type=int, default=3, help="entries of a file, at most; alike ones come last")
    parser.add_argument("--files", default="*", help="only files whose path matches")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.keep or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        homes = options.home or list(reference.HOMES)
        if options.part != ["keys"]:
            _record(folder, homes, options.most)
        low = [
            f"{home}, {part}"
            for home in homes
            for part in options.part or PARTS
            if not _checked(folder, home, part, options.files)
        ]
    print("all enough" if not low else f"too low: {'; '.join(low)}")
    return 1 if low else 0


def _record(folder: Path, homes: list[str], most: int) -> None:
    """Let the homes say what they make of their entries, both at once; what is there is used again."""
    missing = [home for home in homes if not (folder / f"{home}.jsonl").exists()]
    at_work = {home: reference.record(home, folder / f"{home}.part", most) for home in missing}
    for home, process in at_work.items():
        if process.wait():
            sys.exit(f"{home} failed: {(folder / f'{home}.log').read_text(encoding='utf-8', errors='replace')[-3000:]}")
        (folder / f"{home}.part").rename(folder / f"{home}.jsonl")


def _checked(folder: Path, home: str, part: str, pattern: str) -> bool:
    """Check one part of a home; whether enough is right."""
    recorded = folder / f"{home}.{'keys' if part == 'keys' else 'jsonl'}"
    if part == "keys" and not recorded.exists():
        reference.record_keys(home, recorded)
    lines = [line for line in comparing.lines(recorded) if fnmatch(line["file"], pattern)]
    start = time.monotonic()
    check = {"keys": _keys, "prompts": _prompts, "cleanups": _cleanups}.get(part, _scores)
    share = check(folder, home, part, lines)
    print(f"  ({time.monotonic() - start:.0f} s)\n", flush=True)
    return share >= ENOUGH[part]


def _keys(folder: Path, home: str, part: str, lines: list[dict[str, Any]]) -> float:
    place = reference.home_of(home)
    with ProcessPoolExecutor(CORES) as pool:
        parts = pool.map(keys.compare, [lines[start::CORES] for start in range(CORES)], [place] * CORES)
        results = [one for part in parts for one in part]
    lost = keys.lost(results)
    print(f"{home}: keys of {sum(one['count'] for one in results)} entries of {len(results)} kinds")
    print("\n".join([*keys.table(results), *(f"  - {line}" for line in lost[:LISTED])]))
    return 100 * (1 - len(lost) / max(len(results), 1))


def _prompts(folder: Path, home: str, part: str, lines: list[dict[str, Any]]) -> float:
    place = reference.home_of(home)
    with ProcessPoolExecutor(CORES) as pool:
        results = list(pool.map(comparing.compare_file, [(str(place), line) for line in lines], chunksize=8))
    told = comparing.differences(results)
    (folder / f"{home}_differences.txt").write_text("\n".join(told), encoding="utf-8")
    print(f"{home}: prompts of {sum(len(one['entries']) for one in results)} entries of {len(lines)} files")
    shares = []
    for kind, (same, of) in comparing.counted(results).items():
        shares.append(100 * same / max(of, 1))
        print(f"  {kind:<9} {same} of {of} equal: {shares[-1]:.2f} %")
    print("\n".join(f"  - {line[:300]}" for line in told[:LISTED]))
    return min(shares)


def _cleanups(folder: Path, home: str, part: str, lines: list[dict[str, Any]]) -> float:
    found = [cleaning.compare(line, home) for line in comparing.lines(folder / f"{home}.cleanups")]
    known = [one for one in found if "same" in one]
    same, of = sum(one["same"] for one in known), sum(one["of"] for one in known)
    share = 100 * same / max(of, 1)
    print(
        f"{home}: {len(known)} of {len(found)} clean-ups are kshot's; outputs as the home's {same} of {of}: {share:.2f} %"
    )
    wrong = sorted((one for one in known if one["first"]), key=lambda one: one["same"])
    print("\n".join(f"  - {one['name']} {one['same']} of {one['of']}: {one['first']}" for one in wrong[:LISTED]))
    return share


def _scores(folder: Path, home: str, part: str, lines: list[dict[str, Any]]) -> float:
    place, code = reference.home_of(home), part == "with"
    known = _scored(_kept(folder / f"{home}_without.jsonl")) if code else {}
    with tempfile.TemporaryDirectory() as temporary:
        root = place if code else evaluating.without_code(place, home, Path(temporary))
        kept = folder / f"{home}_{part}.jsonl"
        known |= _kept(kept)
        jobs = [(str(root), line, code) for line in lines if line["file"] not in known]
        with kept.open("a", encoding="utf-8") as out:
            for number, one in enumerate(_run(jobs, users_data.written(Path(temporary) / "users")), 1):
                known[one["file"]] = one
                out.write(json.dumps(one, ensure_ascii=False) + "\n")
                out.flush()
                if number % PROGRESS_FILES == 0:
                    print(f"  … {number} of {len(jobs)} files", file=sys.stderr, flush=True)
    results = [known[line["file"]] for line in lines]
    found, reasons = evaluating.summary(results), apart.counted(results)
    scored, of = found["files"]
    share = 100 * scored / max(of, 1)
    print(f"{home}, {part} the home's code: {scored} of {of} files run to a score: {share:.1f} %")
    if code:
        can = of - reasons.total()
        print(
            f"  of the {can} that can be scored on this machine at all: {100 * scored / max(can, 1):.1f} %; of the others,"
        )
        print("\n".join(f"  - {count} files: {why}" for why, count in reasons.most_common()))
    print(
        f"  entries {found['entries'][0]} of {found['entries'][1]}; figures as the home's {found['figures'][0]} of {found['figures'][1]}"
    )
    print("\n".join(f"  - {count} {why}" for why, count in found["lost"][:LISTED]))
    return share


def _run(jobs: list[Any], variables: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Run the files in an environment of the homes' users; its processes end now and then, and with them what is left.

    It is no ProcessPoolExecutor: with ``max_tasks_per_child`` that of Python 3.11 waits forever.
    """
    context = multiprocessing.get_context("spawn")
    packages = reference.users_packages()
    context.set_executable(str(reference.users_python()))
    with context.Pool(CORES, evaluating.prepare, (str(packages), variables), maxtasksperchild=40) as pool:
        yield from pool.imap_unordered(evaluating.run_file, jobs)


def _kept(path: Path) -> dict[str, Any]:
    """What was said of files before, by file: with ``--keep``, an interrupted check goes on where it stopped."""
    return {one["file"]: one for one in comparing.lines(path)} if path.exists() else {}


def _scored(results: dict[str, Any]) -> dict[str, Any]:
    """The files all of whose entries have a score without the home's code: with it, the same code of kshot runs."""
    return {file: one for file, one in results.items() if all("figures" in entry for entry in one["entries"])}


if __name__ == "__main__":
    sys.exit(main())
