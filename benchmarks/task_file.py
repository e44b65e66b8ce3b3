"""One task file through lm-eval's command line and through kshot's, on the same tiny model: figures and CPU seconds.

    python benchmarks/task_file.py [text|letters|drawn …] [--questions N]

500 questions with 4 options and 5 examples on one CPU thread. ``text``: the options are texts, the examples the first
five (as in 6,300 of lm-eval's own task files). ``letters``: the options are letters. ``drawn``: texts, and every
question has examples of its own, lm-eval's default. CPU seconds are those of the whole command, and those without its
start, which a run with two questions tells. The figures must be equal to four digits; else the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from peers import python_of  # noqa: E402
from workloads import VOCABULARY_WORDS, small_model  # noqa: E402

QUESTIONS, EXAMPLES, OPTIONS, FEW = 500, 5, 4, 2
QUESTION_WORDS, OPTION_WORDS = (50, 60), (6, 10)
BATCH = 16
"""lm-eval's batches: larger ones are no faster on a CPU."""
SAME = 5e-5
KINDS = {
    "text": {"doc_to_choice": "choices", "sampler": "first_n"},
    "letters": {"doc_to_choice": "['w1', 'w2', 'w3', 'w4']", "sampler": "first_n"},
    "drawn": {"doc_to_choice": "choices", "sampler": "default"},
}
TASK = """task: {name}
dataset_path: json
dataset_kwargs:
  data_files:
    train: {folder}/train.jsonl
    test: {folder}/test.jsonl
training_split: train
test_split: test
fewshot_split: train
fewshot_config:
  sampler: {sampler}
num_fewshot: {examples}
output_type: multiple_choice
doc_to_text: "{text}"
doc_to_target: answer
doc_to_choice: {doc_to_choice}
metric_list:
  - metric: acc
  - metric: acc_norm
metadata:
  version: 1
"""


def write_rows(folder: Path, count: int) -> None:
    """Write questions of random words: only the examples of a prompt are shared."""
    rng = random.Random(0)

    def words(low: int, high: int) -> str:
        return " ".join(f"w{rng.randrange(VOCABULARY_WORDS)}" for _ in range(rng.randint(low, high)))

    for split, number in (("train", 4 * EXAMPLES), ("test", count)):
        rows = [
            {
                "question": words(*QUESTION_WORDS),
                "choices": [words(*OPTION_WORDS) for _ in range(OPTIONS)],
                "answer": rng.randrange(OPTIONS),
            }
            for _ in range(number)
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_task(folder: Path, name: str) -> Path:
    """Write a task file; letters are shown with their texts, as MMLU shows them."""
    listed = "".join(f" w{at + 1} {{{{choices[{at}]}}}}" for at in range(OPTIONS)) if name == "letters" else ""
    path = folder / "tasks" / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    text = f"{{{{question}}}}{listed} w0"
    path.write_text(
        TASK.format(name=name, folder=folder, examples=EXAMPLES, text=text, **KINDS[name]), encoding="utf-8"
    )
    return path


def cpu_of(command: list[str], folder: Path) -> float:
    """Run a command on one thread; return the CPU seconds of it and its children."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    environment |= {"TOKENIZERS_PARALLELISM": "false", "HF_DATASETS_CACHE": str(folder / "cache")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if ran.returncode:
        sys.exit(f"failed: {' '.join(command)}\n{ran.stderr[-3000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def results_in(folder: Path) -> dict[str, float]:
    """Return the figures of the one results file below a folder, by ``metric,filter``."""
    (path,) = folder.rglob("results_*.json")
    (found,) = json.loads(path.read_text(encoding="utf-8"))["results"].values()
    return {key: value for key, value in found.items() if "," in key and "_stderr" not in key}


def in_lmeval(python: str, folder: Path, name: str, limit: int | None) -> tuple[float, dict[str, float]]:
    """Run lm-eval's command line."""
    out = folder / f"lmeval-{name}-{limit}"
    command = [python, "-m", "lm_eval", "run", "--model", "hf", "--device", "cpu", "--batch_size", str(BATCH)]
    command += ["--model_args", f"pretrained={folder / 'model'},dtype=float32", "--tasks", name]
    command += ["--include_path", str(folder / "tasks"), "--output_path", str(out)]
    command += ["--limit", str(limit)] if limit else []
    return cpu_of(command, folder), results_in(out)


def in_kshot(folder: Path, path: Path, limit: int | None) -> tuple[float, dict[str, float]]:
    """Run kshot's command line, and export its figures as lm-eval writes them."""
    run = folder / f"kshot-{path.stem}-{limit}"
    kshot = [sys.executable, "-m", "kshot"]
    command = [*kshot, "run", "-m", f"hf:{folder / 'model'}", "--device", "cpu", "-d", f"lmeval:{path}"]
    command += ["--data", f"{path.stem}={folder}", "--out", str(run), *(["--limit", str(limit)] if limit else [])]
    spent = cpu_of(command, folder)
    out = folder / f"{run.name}-exported"
    subprocess.run([*kshot, "export", str(run), "--to", "lmeval", "--out", str(out)], check=True, capture_output=True)
    return spent, results_in(out)


def compare(python: str, folder: Path, name: str) -> bool:
    """Run one task file through both; print a line, and return whether the figures are the same."""
    path = write_task(folder, name)
    start = {"lm-eval": in_lmeval(python, folder, name, FEW)[0], "kshot": in_kshot(folder, path, FEW)[0]}
    theirs, ours = in_lmeval(python, folder, name, None), in_kshot(folder, path, None)
    same = theirs[1].keys() == ours[1].keys() and all(abs(theirs[1][key] - ours[1][key]) < SAME for key in theirs[1])
    whole = {"lm-eval": theirs[0], "kshot": ours[0]}
    own = {tool: spent - start[tool] for tool, spent in whole.items()}
    for tool, spent in whole.items():
        print(f"{name:<8} {tool:<8} {spent:7.1f} s CPU, {own[tool]:7.1f} s without the start", flush=True)
    figures = ", ".join(f"{key} {value:.4f} / {ours[1].get(key, float('nan')):.4f}" for key, value in theirs[1].items())
    times = f"{own['lm-eval'] / own['kshot']:.1f} × less CPU ({whole['lm-eval'] / whole['kshot']:.1f} × with the start)"
    print(f"{name:<8} {times}; {figures}{'' if same else '  DIFFERS'}", flush=True)
    return same


def main() -> int:
    """Measure the kinds that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", default=list(KINDS), metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    given = parser.parse_args()
    python = python_of("lm-eval")
    if python is None:
        return 1
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        small_model(folder / "model")
        write_rows(folder, given.questions)
        same = [compare(python, folder, kind) for kind in given.kinds]
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
