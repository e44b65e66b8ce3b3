"""``make fuzz``: every fuzz target for its share of some minutes, with new examples, on all cores.

``python tests/fuzz/run.py [--minutes M] [--seed S] [--jobs J] [TARGET …]``. A finding is shown with its example, and
with the command that repeats it; the exit code is then 1.
"""

import argparse
import importlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
GRACE_SECONDS = 240
"""A worker that is still there so long after its time, in spite of its own watch over hangs, is killed."""


def targets():
    """Return the names of all targets."""
    return sorted(path.stem.removeprefix("test_") for path in HERE.glob("test_*.py"))


def tests_of(target):
    """Import a target, and return its tests by name."""
    module = importlib.import_module(f"tests.fuzz.test_{target}")
    return {
        name: test for name, test in vars(module).items() if name.startswith("test_") and hasattr(test, "hypothesis")
    }


# ---- a worker: one target in a process of its own ----


def work(target, seconds, seed, result):
    """Run the tests of a target in turn until the time is over or one fails; return the exit code."""
    from hypothesis import seed as seeded

    from tests.fuzz import harness

    tests = tests_of(target)
    counts = dict.fromkeys(tests, 0)
    deadline = time.monotonic() + seconds
    rounds = 0
    failed = None
    while failed is None and (rounds == 0 or time.monotonic() < deadline):
        for name, test in tests.items():
            before, this_seed = harness.watched.examples, f"{seed}.{rounds}"
            try:
                seeded(this_seed)(test)()
            except BaseException:  # noqa: BLE001 - whatever it is, it is the finding
                traceback.print_exc()
                print(f"\nseed {this_seed} of {target}.{name}")
                failed = name
            counts[name] += harness.watched.examples - before
            # Every test has its turn; a target whose tests are slow may take twice its time for that.
            if failed is not None or time.monotonic() >= (deadline if rounds else deadline + seconds):
                break
        rounds += 1
    Path(result).write_text(json.dumps({"examples": counts, "failed": failed}))
    return 1 if failed else 0


# ---- the parent ----


def run_target(target, seconds, seed, folder):
    """Run one target in a process of its own; return what there is to say about it."""
    result = Path(folder, f"{target}.json")
    command = [sys.executable, str(HERE / "run.py"), "--worker", target, "--result", str(result)]
    command += ["--seconds", str(seconds), "--seed", str(seed)]
    environment = {**os.environ, "KSHOT_FUZZ": "1", "PYTHONPATH": f"{ROOT}", "PYTHONFAULTHANDLER": "1"}
    environment |= {"KSHOT_CACHE": str(Path(folder, "cache")), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        output, _ = process.communicate(timeout=2 * seconds + GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        output += f"\n{target} did not end, and was killed"
    facts = json.loads(result.read_text()) if result.exists() else {"examples": {}, "failed": "the process itself"}
    if process.returncode and facts["failed"] is None:
        facts["failed"] = f"exit code {process.returncode}"
    return {**facts, "target": target, "seconds": time.monotonic() - began, "output": output}


def shown(fact):
    """Return the line of one target."""
    count = sum(fact["examples"].values())
    verdict = f"FOUND in {fact['failed']}" if fact["failed"] else "no finding"
    return f"{fact['target']:<20} {count:>10,} examples  {fact['seconds']:>6.0f} s  {verdict}"


def main():
    """Share the time among the targets, and report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("targets", nargs="*", help="those to run (all of them by default)")
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("FUZZ_MINUTES") or 10))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", default=None, help="repeats a run of one target: the seed that was shown")
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--result", help=argparse.SUPPRESS)
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if given.worker:
        sys.exit(work(given.worker, given.seconds, given.seed, given.result))
    unknown = set(given.targets) - set(targets())
    if unknown:
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(targets())}")
    sys.exit(run_all(given.targets or targets(), given.minutes, given.jobs, given.seed))


def run_all(names, minutes, jobs, seed):
    """Run targets side by side; return the exit code."""
    seed = seed or str(random.SystemRandom().randrange(2**32))
    seconds = minutes * 60 * min(jobs, len(names)) / len(names)
    print(f"{len(names)} targets, {seconds:.0f} seconds each, {jobs} at a time, seed {seed}", flush=True)
    findings = []
    with tempfile.TemporaryDirectory(prefix="kshot-fuzz-") as folder, ThreadPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(run_target, name, seconds, seed, folder) for name in names]):
            fact = done.result()
            print(shown(fact), flush=True)
            if fact["failed"]:
                findings.append(fact)
    for fact in findings:
        print(f"\n==== {fact['target']}: {fact['failed']} ====\n{fact['output']}")
        print(f"Again: FUZZ_MINUTES=1 .venv/bin/python tests/fuzz/run.py {fact['target']} --seed {seed}")
    print(f"\n{len(findings)} finding{'s' * (len(findings) != 1)} in {len(names)} targets")
    return 1 if findings else 0


if __name__ == "__main__":
    main()
