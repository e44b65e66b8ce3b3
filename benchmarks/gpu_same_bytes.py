"""Check the promises of ``hf:`` about equal bytes on a GPU (or, without one, on this CPU).

    python benchmarks/gpu_same_bytes.py

Every run is a process of its own: two equal runs, and with ``--deterministic`` a batch size of 1, one of 16, and a run
that was broken off and resumed (its journal had lost every second answer). It prints which files are equal, and by how
much log-probabilities differ if they are not. Deterministic runs that differ are an error; plain ones are only
reported.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from gpu import DATASET  # noqa: E402
from workloads import SHAPES, requests, small_model  # noqa: E402

COUNTS = {"text": 30, "prefix1500": 20, "no prefix": 30, "fifty options": 6, "20 to 4,000 tokens": 8}
TEXTS = """

from kshot import Em, GenerationDataset


class Texts(GenerationDataset):
    instruction = "{question}"
    evaluation_set = "test"
    metrics = [Em()]
    extra_model_args = {"temperature": 0.7, "top_p": 0.9, "max_tokens": 12}
    load_raw_dataset = Given.load_raw_dataset

    def format_instance(self, row):
        return {"question": row["question"], "target": row["options"][0]}
"""


def run(place: Path, out: str, *more: str) -> Path:
    """Run kshot on both datasets."""
    command = [sys.executable, "-m", "kshot", "run", "-m", "hf:model", "--dataset-path", "questions.jsonl"]
    command += ["-d", "given.py:Given", "-d", "given.py:Texts", "--ranking-type", "ppl_no_option", "--out", out, *more]
    path = os.pathsep.join([str(HERE.parent / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, cwd=place, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return place / out


def logprobs(folder: Path) -> list[float]:
    """Return all log-probabilities of a run, in the order of their keys."""
    rows = sorted(map(json.loads, (folder / "journal.jsonl").read_text().splitlines()), key=lambda row: row["key"])
    return [item[0] for row in rows for item in row["response"].get("scored", ())]


def compare(what: str, one: Path, other: Path) -> bool:
    """Print whether two runs have equal files."""
    unequal = [
        name for name in ("samples.jsonl", "summary.json") if (one / name).read_bytes() != (other / name).read_bytes()
    ]
    pairs = zip(logprobs(one), logprobs(other), strict=True)
    difference = max(abs(a - b) for a, b in pairs)
    told = f"{', '.join(unequal)} differ; log-probabilities by {difference:.1e}" if unequal else "equal bytes"
    print(f"  {what:<34} {told}", flush=True)
    return not unequal


def check(place: Path, *options: str) -> bool:
    """Do all runs with some options; return whether the deterministic ones are equal."""
    compare("two equal runs", run(place, "plain", *options), run(place, "again", *options))
    fixed = (*options, "--deterministic")
    first = run(place, "first", *fixed, "--batch-size", "1")
    same = compare("deterministic, batch size 16", first, run(place, "sixteen", *fixed, "--batch-size", "16"))
    shutil.copytree(first, place / "broken")
    lines = (first / "journal.jsonl").read_text().splitlines(keepends=True)
    (place / "broken" / "journal.jsonl").write_text("".join(lines[::2]))
    same &= compare("deterministic, resumed", first, run(place, "broken", *fixed))
    for name in ("plain", "again", "first", "sixteen", "broken"):
        shutil.rmtree(place / name)
    return same


def main() -> None:
    """Check float32 and bfloat16."""
    import torch

    kind = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        small_model(place / "model", layers=6, width=512)
        questions = [question for name, count in COUNTS.items() for question in requests(SHAPES[name], count=count)]
        lines = [json.dumps({"question": question, "options": options}) for question, options in questions]
        (place / "questions.jsonl").write_text("\n".join(lines) + "\n")
        (place / "given.py").write_text(DATASET + TEXTS)
        same = True
        for dtype in ("float32", "bfloat16"):
            print(f"{kind}, {dtype}, torch {torch.__version__}, {len(questions)} questions and texts", flush=True)
            same &= check(place, "--dtype", dtype)
    if not same:
        sys.exit("deterministic runs differ")


if __name__ == "__main__":
    main()
