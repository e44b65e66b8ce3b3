"""What is wanted of one GPU, line by line, in one command; each line takes well under ten minutes on an H200.

    python benchmarks/gpu_lines.py --out DIR                          # all lines
    python benchmarks/gpu_lines.py --out DIR --lines main pool        # some of them
    python benchmarks/gpu_lines.py --out DIR --small                  # a small model and few questions, anywhere

Each line is a process of its own, with a log and a JSON file in the folder; `summary.json` has what was reached and
what is wanted. A line that fails or takes too long leaves the others alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LINES = {
    "main": ["gpu.py", "--compile", "--shapes", "1,500-token prefix"],
    "letters": ["gpu.py", "--compile", "--shapes", "MMLU, letters"],
    "texts": ["gpu.py", "--compile", "--shapes", "MMLU, option texts"],
    "pool": ["gpu_pool.py"],
}
MAX_SECONDS = {"main": 300, "letters": 520, "texts": 520, "pool": 400}


def run_line(name: str, given: argparse.Namespace) -> dict:
    """Run one line; return what it wrote, and how it ended."""
    file = given.out / f"{name}.json"
    file.unlink(missing_ok=True)
    command = [sys.executable, str(HERE / LINES[name][0]), *LINES[name][1:], "--json", str(file)]
    command += ["--small"] if given.small else []
    with (given.out / f"{name}.log").open("w") as log:
        try:
            done = subprocess.run(command, stdout=log, stderr=log, timeout=MAX_SECONDS[name], check=False)
            ended = f"exit code {done.returncode}"
        except subprocess.TimeoutExpired:
            ended = f"stopped after {MAX_SECONDS[name]} s"
    found = json.loads(file.read_text()) if file.exists() else {}
    return {"ended": ended, **found}


def verdicts(name: str, found: dict) -> list[dict]:
    """Return what was reached and what is wanted, with and without compiled parts."""
    if name == "pool":
        none, one = (found.get(way, {}).get("seconds") for way in ("none", "one"))
        return [
            {"what": "pool of one, share of the speed of none", "reached": none and one and none / one, "wanted": 0.97},
            {"what": "two workers on the GPU", "reached": found.get("two"), "wanted": "works, or the reason"},
            {
                "what": "two workers where one fits",
                "reached": found.get("two_in_too_little_memory"),
                "wanted": "works, or the reason",
            },
        ]
    wanted = {
        "main": (("share", 0.60), ("faster", 62.0)),
        "letters": (("seconds", 42.0),),
        "texts": (("seconds", 53.0),),
    }
    row = (found.get("rows") or [{}])[0]
    return [
        {"what": f"{name}, {measure}, {way}", "reached": values.get(measure), "wanted": number}
        for way, values in (("as it is", row), ("compiled", row.get("compiled", {})))
        for measure, number in wanted[name]
    ]


def main() -> None:
    """Run the lines one after the other; write the summary after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--lines", nargs="+", choices=LINES, default=list(LINES))
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    summary: dict = {}
    for name in given.lines:
        found = run_line(name, given)
        summary[name] = {"ended": found["ended"], "verdicts": verdicts(name, found)}
        (given.out / "summary.json").write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
        print(json.dumps({name: summary[name]}, indent=1, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
