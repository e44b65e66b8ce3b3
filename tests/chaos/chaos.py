"""Kill runs at every named point, resume them, ask a faulty server, and write the figures into docs/reliability.md.

python tests/chaos/chaos.py               # about ten minutes; exit code 1 if anything was lost, doubled or different
python tests/chaos/chaos.py --dry-run     # the same, and the page stays as it is
python tests/chaos/chaos.py --only kills  # one part; the page stays as it is

What was measured is kept in .chaos, so that a measurement which was broken off goes on where it was; other code starts anew.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import asdict
from datetime import datetime, timezone
from hashlib import blake2b
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from benchmarks.marked_pages import written  # noqa: E402 - the path is set above
from kshot.core.kill_points import POINTS  # noqa: E402 - the path is set above
from tests.chaos.faults import run_with_faults  # noqa: E402 - the path is set above
from tests.chaos.kills import ENCODERS, HF, Bench, Launcher, violations, work_folder  # noqa: E402 - the path is set above
from tests.chaos.page import PAGE, tables  # noqa: E402 - the path is set above
from tests.chaos.plan import hits_of, kills_of, missing_kills  # noqa: E402 - the path is set above
from tests.chaos.scenarios import SCENARIOS  # noqa: E402 - the path is set above

SAMPLES = 10_000
AT_LEAST = 5
"""How often each point is hit."""

SEED = 15


def code_digest():
    """Return a digest of all code that takes part."""
    total = blake2b(digest_size=8)
    for path in sorted(file for part in ("src", "tests/chaos") for file in (ROOT / part).rglob("*.py")):
        total.update(path.read_bytes())
    return total.hexdigest()


class Record:
    """What was measured with this code so far, one JSON line each, in the order in which it was measured."""

    def __init__(self, path):
        path.parent.mkdir(exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
        self.rows = dict(json.loads(line) for line in lines if line.endswith("\n"))
        path.write_text("".join(line for line in lines if line.endswith("\n")), encoding="utf-8")
        self._path = path

    def measured(self, name, measure):
        """Return what was measured under this name; measure it now if it was not."""
        if name not in self.rows:
            self.rows[name] = measure()
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([name, self.rows[name]]) + "\n")
        return self.rows[name]


def measure_kills(record, root, scenarios=SCENARIOS, times=1):
    """Kill every scenario at each of its points, then those points that were hit too rarely."""
    from tests.tiny_encoders import sentence_encoder
    from tests.tiny_models import build

    models = {"model": str(build("llama", root / "model")), "encoder": str(sentence_encoder(root / "encoder"))}
    outcomes = []

    def kill(bench, number, kills):
        name = f"{bench.scenario.name} {number}: {', '.join(kills)}"
        outcome = record.measured(name, lambda: asdict(bench.kill(*kills)))
        outcomes.append(outcome)
        wrong = violations(outcome)
        print(f"{len(outcomes):4} {name}: {'; '.join(wrong) if wrong else 'as undisturbed'}", flush=True)

    with ExitStack() as stack:
        launcher = stack.enter_context(closing(Launcher(*HF, *ENCODERS)))
        benches = {}
        for scenario in scenarios:
            bench = stack.enter_context(Bench(scenario, root / scenario.name.replace(" ", "-"), launcher, models))
            benches[scenario.name] = bench
            rng = random.Random(f"{SEED} {scenario.name}")
            for number, kills in enumerate(kills_of(bench.passes, times, rng)):
                kill(bench, number, kills)
        passes_of = {name: bench.passes for name, bench in benches.items()}
        for turn in range(AT_LEAST):  # how often some points are passed depends on how busy the machine is
            more = missing_kills(passes_of, hits_of(outcomes), POINTS, AT_LEAST, f"{SEED} {turn}")
            for number, (name, kills) in enumerate(more):
                kill(benches[name], f"again {turn}.{number}", kills)
    return outcomes


def machine():
    """Say where and when this was measured."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    day = datetime.now(timezone.utc).date().isoformat()
    return f"{day}, commit {commit.stdout.strip() or 'unknown'}, {os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"


def main():
    """Measure, write the page, and say what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry-run", action="store_true", help="leave the page as it is")
    parser.add_argument("--fresh", action="store_true", help="measure everything again")
    parser.add_argument("--only", choices=("kills", "faults"), help="measure one part; the page stays as it is")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="samples on the faulty server")
    given = parser.parse_args()
    path = ROOT / ".chaos" / f"{code_digest()}.jsonl"
    if given.fresh:
        path.unlink(missing_ok=True)
    record, started, outcomes, figures = Record(path), time.monotonic(), [], None
    with work_folder() as name:
        if given.only != "faults":
            outcomes = measure_kills(record, Path(name))
        if given.only != "kills":
            with closing(Launcher()) as launcher:
                measure = lambda: run_with_faults(given.samples, Path(name) / "faults", launcher)  # noqa: E731 - it is used once
                figures = record.measured(f"faults {given.samples}", measure)
    wrong = [
        f"{each['scenario']}, {', '.join(each['kills'])}: {what}" for each in outcomes for what in violations(each)
    ]
    if outcomes:
        rare = Counter({point: AT_LEAST - hits_of(outcomes)[point] for point in POINTS})
        wrong += [f"{point} was hit {AT_LEAST - count} times" for point, count in rare.items() if count > 0]
    wrong += [f"faulty server: {each}" for each in figures["violations"]] if figures else []
    found = tables(outcomes, figures, machine())
    print("\n\n".join(found.values()))
    if not given.dry_run and given.only is None and given.samples == SAMPLES and not wrong:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
    for each in wrong:
        print(f"wrong: {each}")
    print(f"{len(outcomes)} runs killed, {len(wrong)} violations, {time.monotonic() - started:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
