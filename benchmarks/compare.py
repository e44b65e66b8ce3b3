"""Compare two finished runs of 100,000 samples each, beside a script of pandas and scipy that does the same.

    python benchmarks/compare.py [SAMPLES]

It makes the runs (half a minute), compares them with ``kshot.compare`` and with the script, each in a process of its
own, and prints seconds, CPU seconds and peak memory; then kshot alone with prompts that are ten times as long, and by
BLEU in ten categories. It stops if the results differ, if kshot takes more than 10 CPU seconds by scores, or if its
memory grows with the length of prompts.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

SAMPLES = 100_000
SHORT, LONG = 1_100, 11_000
"""Characters of a prompt; a line of ``samples.jsonl`` is then about 1.7 and 12 KB."""

MOST_SECONDS, MOST_GROWTH_MIB = 10.0, 40.0
BEFORE, AFTER = 55, 56
"""The shares of right answers, in percent: a difference of one point, which 100,000 samples show."""

MEASURED = """
import json, sys, time
started, cpu = time.perf_counter(), time.process_time()
{body}
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({{"found": found, "seconds": time.perf_counter() - started,
    "cpu": time.process_time() - cpu, "mib": peak / 1024}}))
"""

KSHOT = """
import kshot
found = {row["metric"]: [row["difference"], row["p"], row["won"], row["lost"]]
         for row in kshot.compare(*sys.argv[1:]).rows}
"""

PEER = """
import numpy as np, pandas as pd
from scipy.stats import binomtest, permutation_test
runs = []
for path in sys.argv[1:]:
    rows = pd.read_json(path + "/samples.jsonl", lines=True, dtype={"id": str})
    scores = pd.json_normalize(rows["scores"].tolist())
    runs.append(pd.concat([rows[["id", "question"]], scores], axis=1))
both = runs[0].merge(runs[1], on=["id", "question"])
found = {}
for metric in ("Right", "Points"):
    gaps = (both[metric + "_y"] - both[metric + "_x"]).to_numpy()
    won, lost = int((gaps > 0).sum()), int((gaps < 0).sum())
    if metric == "Right":
        p = binomtest(won, won + lost).pvalue
    else:
        p = permutation_test((gaps, np.zeros(len(gaps))), lambda x, y, axis: (x - y).mean(axis=axis),
                             permutation_type="samples", n_resamples=9_999, batch=50, rng=1).pvalue
    found[metric] = [float(gaps.mean()), float(p), won, lost]
"""


def make(folder: Path, samples: int, characters: int) -> None:
    """Run a model on made-up questions."""
    from kshot import Answers, Metric, Prompt, Sample, Task, evaluate
    from kshot.methods.generation import generate

    class Right(Metric):
        name, bounds, binary = "Right", (0.0, 100.0), True

        def rate(self, prediction, _):
            return 100.0 * (float(prediction.split()[0]) > 50)

    class Points(Metric):
        name, bounds = "Points", (0.0, 100.0)

        def rate(self, prediction, _):
            return float(prediction.split()[0])

    text = "word " * (characters // 5)
    questions = [Sample(f"q{at}", {"n": at}, Answers(("x",)), position=at) for at in range(samples)]
    for name, share in (("before", BEFORE), ("after", AFTER)):
        draws = random.Random(name)

        def model(_, draws=draws, share=share):
            right = draws.random() * 100 < share
            return f"{draws.uniform(50.001, 100) if right else draws.uniform(0, 50):.3f} " + "said " * 50

        task = Task(
            "quiz", questions, lambda s, _: Prompt(f"{s.id} {text}"), generate(max_tokens=64), (Right(), Points())
        )
        evaluate(model, task, out=folder / name, fsync="never")


def make_translations(folder: Path, samples: int, characters: int) -> None:
    """Run a model on made-up translations, of which it gets most words right, in ten categories."""
    from kshot import Answers, Bleu, Prompt, Sample, Task, evaluate
    from kshot.methods.generation import generate

    words = [f"word{at}" for at in range(500)]
    draws = random.Random("texts")
    texts = [" ".join(draws.choices(words, k=draws.randrange(8, 30))) for _ in range(samples)]
    questions = [
        Sample(f"q{at}", {"n": at}, Answers((text,)), category=f"c{at % 10}", position=at)
        for at, text in enumerate(texts)
    ]
    for name, share in (("before", 0.85), ("after", 0.852)):
        errors = random.Random(name)

        def model(prompt, errors=errors, share=share):
            text = texts[int(str(prompt).split()[0][1:])]
            return " ".join(word if errors.random() < share else "wrong" for word in text.split())

        task = Task(
            "translate",
            questions,
            lambda s, _: Prompt(f"{s.id} " + "word " * (characters // 5)),
            generate(max_tokens=64),
            (Bleu(),),
        )
        evaluate(model, task, out=folder / name, fsync="never")


def make_apart(folder: Path, samples: int, characters: int, maker: str = "make") -> None:
    """Make the runs in a process of its own: what this one holds would count as the memory of those it starts."""
    script = f"import compare, pathlib; compare.{maker}(pathlib.Path({str(folder)!r}), {samples}, {characters})"
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parent)


def measure(body: str, folder: Path) -> dict:
    """Run a script in a process of its own."""
    script = MEASURED.format(body=body)
    command = [sys.executable, "-c", script, str(folder / "before"), str(folder / "after")]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def check(ours: dict, theirs: dict) -> None:
    """Stop if the two differ by more than random flips do."""
    for metric, (difference, p, *counts) in theirs["found"].items():
        own = ours["found"][metric]
        same = abs(own[0] - difference) < 1e-9 and own[2:] == counts and abs(own[1] - p) < 0.02
        if not same:
            sys.exit(f"{metric}: kshot {own}, scipy {theirs['found'][metric]}")


def told(who: str, found: dict) -> None:
    """Print what was measured."""
    print(f"  {who:18} {found['seconds']:6.1f} s  {found['cpu']:6.1f} s of CPU  {found['mib']:7.0f} MiB", flush=True)


def main() -> None:
    """Measure and print."""
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else SAMPLES
    peaks = []
    for characters in (SHORT, LONG):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make_apart(folder, samples, characters)
            size = (folder / "before" / "samples.jsonl").stat().st_size
            print(f"2 × {samples:,} samples, {size / samples / 1e3:.1f} KB a line")
            ours = measure(KSHOT, folder)
            told("kshot.compare", ours)
            if characters == SHORT:
                theirs = measure(PEER, folder)
                told("pandas and scipy", theirs)
                check(ours, theirs)
        peaks.append(ours["mib"])
        if ours["cpu"] > MOST_SECONDS:
            sys.exit(f"kshot took {ours['cpu']:.1f} s")
    if peaks[1] - peaks[0] > MOST_GROWTH_MIB:
        sys.exit(f"memory grew by {peaks[1] - peaks[0]:.0f} MiB with the length of the prompts")
    with tempfile.TemporaryDirectory() as name:
        make_apart(Path(name), samples, SHORT, "make_translations")
        print(f"2 × {samples:,} translations, by BLEU, as a whole and in 10 categories")
        told("kshot.compare", measure(KSHOT, Path(name)))


if __name__ == "__main__":
    main()
