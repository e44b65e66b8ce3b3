"""kshot against lm-evaluation-harness itself: ``make lmeval-check``.

Three tiny models of different tokenizer families, seven shapes of tasks, 0 and 5 shots. lm-eval runs in an environment
of its own (``benchmarks/.peers/lm-eval``), kshot by its command line. The prompts must be the same bytes,
log-probabilities agree within 1e-4, and all figures be equal. What lm-eval asks about rows of the catalogue's datasets
must be what ``tests/data/lmeval_catalogue.json`` says. ``lmeval:`` tasks run as texts and as chats (``seams.py``). The test
suite does not include this script.

    python tests/real_lmeval/lmeval_check.py [--keep FOLDER] [--shape NAME …] [--seams]
    python tests/real_lmeval/lmeval_check.py --record      # write tests/data/lmeval_*.json, which the tests read
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
DATA = ROOT / "tests" / "data"
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from tests.real_lmeval import seams  # noqa: E402 - the path is set above
from tests.real_lmeval.comparison import (  # noqa: E402 - the path is set above
    FIGURES,
    SHOTS,
    TASK_OF,
    compare,
    distinct_documents,
    options_of,
    read_run,
)
from tests.real_lmeval.models import FAMILIES, build_family, random_model, weights_digest  # noqa: E402 - as above
from tests.real_lmeval.rows import MAKERS, as_text, rows, write_rows  # noqa: E402 - as above

RECORDED_ROWS = 5
SEAM_ROWS, OWN_SHOTS = 6, 2
RECORDED_TOKENIZERS = seams.TOKENIZERS[: seams.ALWAYS_THE_SAME]
RECORDED_SEAM_ROWS, RECORDED_SEAM_SHOTS = 2, 1


def main() -> int:
    """Run both tools, compare, print a table; 1 where anything differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--keep", type=Path, help="folder for models, rows and runs; a new temporary one by default")
    parser.add_argument("--shape", action="append", choices=list(FIGURES), help="compare these shapes only")
    parser.add_argument("--seams", action="store_true", help="compare lmeval: tasks as texts and as chats only")
    parser.add_argument("--record", action="store_true", help="write the facts that the test suite reads")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.keep or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        if options.record:
            record(folder)
            return 0
        failed = compare_seams(folder / "seams")
        if not options.seams:
            failed += compare_all(folder, lmeval_results(folder), options.shape or list(FIGURES))
            failed += compare_catalogue(folder)
    print("all the same" if not failed else f"{failed} comparisons differ")
    return 1 if failed else 0


def in_lmeval(script: str, *arguments: Path | int) -> None:
    """Run a script in lm-eval's environment, which is made when first needed."""
    from peers import python_of

    python = python_of("lm-eval")
    if python is None:
        sys.exit("lm-eval cannot be installed")
    ran = subprocess.run(
        [python, str(HERE / script), *map(str, arguments)], check=False, capture_output=True, text=True
    )
    if ran.returncode:
        sys.exit(f"lm-eval failed: {ran.stderr[-3000:]}")


def lmeval_results(folder: Path) -> dict[str, Any]:
    """Build the models and the rows, and run lm-eval; a folder that has its results is used again."""
    if not (folder / "lmeval.json").exists():
        write_rows(folder)
        texts = [as_text(shape, row) for shape in MAKERS for row in rows(shape, "train")]
        for number, family in enumerate(FAMILIES):
            print(f"training a model: {family}", flush=True)
            build_family(family, folder / "models" / str(number), texts)
        print("running lm-eval", flush=True)
        shutil.copytree(HERE / "tasks", folder / "tasks", dirs_exist_ok=True)
        in_lmeval("in_lmeval.py", folder, *SHOTS)
    found: dict[str, Any] = json.loads((folder / "lmeval.json").read_text(encoding="utf-8"))
    return found


def compare_all(folder: Path, reference: dict[str, Any], shapes: list[str]) -> int:
    """Compare every model, number of shots and shape, print a line for each, and return how many differ."""
    failed = 0
    print(f"{'shape':13} {'shots':>5} {'prompts':>8} {'log-probs':>9} {'largest diff':>12}  figures")
    for number, family in enumerate(FAMILIES):
        print(f"-- {family}")
        for shots in SHOTS:
            run = kshot_run(folder, number, shapes, shots)
            for shape in shapes:
                expected = reference[f"{number} {TASK_OF.get(shape, shape)} {shots}"]
                tally = compare(shape, *read_run(run, shape), expected)
                figures = ", ".join(f"{name} {value:.4f}" for name, value in tally.figures.items())
                head = f"{shape:13} {shots:5} {tally.prompts:8} {tally.logprobs:9} {tally.largest:12.1e}"
                print(f"{head}  {figures}{'  DIFFERS' if tally.differences else ''}", flush=True)
                for difference in tally.differences[:5]:
                    print(f"      {difference}")
                failed += bool(tally.differences)
    return failed


def compare_seams(folder: Path) -> int:
    """Compare ``lmeval:`` tasks as texts and as chats, and print the shares that are equal; 1 where they are too low."""
    if not (folder / "lmeval.json").exists():
        seams.build(folder, SEAM_ROWS)
        print("running lm-eval on texts and chats", flush=True)
        in_lmeval("in_lmeval.py", folder, *seams.SHOTS)
    expected = json.loads((folder / "lmeval.json").read_text(encoding="utf-8"))
    whole, own_whole = seams.Tally(), seams.Tally()
    columns = f"{'answers':>8} {'others':>6} {'figures':>8} {'others':>6} {'largest':>8}"
    print(f"{'':13} {'':{len(columns)}}  by kshot's own rules, {OWN_SHOTS} shots")
    print(f"{'chat template':13} {columns}  {columns}")
    for number, family in enumerate(seams.TOKENIZERS):
        print(f"-- {family}")
        for template in (seams.TEXT, *seams.TEMPLATES):
            tally = seams.Tally()
            for shots in seams.SHOTS:
                runs = {shape: expected[seams.key(number, template, shape, shots)] for shape in seams.SHAPES}
                seams.compare(seams.ran(folder, number, template, shots), runs, tally)
            own = seams.Tally()
            runs = {shape: expected[seams.key(number, template, shape, OWN_SHOTS)] for shape in seams.SHAPES}
            seams.compare(seams.ran(folder, number, template, OWN_SHOTS, own_rules=True), runs, own)
            print(f"{template:13} {tally}  {own}", flush=True)
            for difference in (tally.other_answers + tally.other_figures)[:5]:
                print(f"      {difference}")
            whole.add(tally)
            own_whole.add(own)
    print(f"{'all':13} {whole}  {own_whole}")
    return int(len(whole.other_answers) > (1 - seams.ENOUGH) * whole.answers or bool(whole.other_figures))


def kshot_run(folder: Path, number: int, shapes: list[str], shots: int) -> Path:
    """Run kshot's command line on all shapes, and return the run folder."""
    run = folder / "runs" / f"{number}-{shots}"
    shutil.rmtree(run, ignore_errors=True)
    model = f"hf:{folder / 'models' / str(number)},truncate=left"
    command = [sys.executable, "-m", "kshot", "run", "-m", model, "--out", str(run)]
    for shape in shapes:
        settings = "".join(f",{name}={value}" for name, value in options_of(shape, folder, shots).items())
        command += ["-d", f"{HERE / 'shapes.py'}:{shape.capitalize()}{settings}"]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"kshot failed ({ran.returncode}): {' '.join(command)}\n{ran.stderr[-3000:]}")
    return run


def compare_catalogue(folder: Path) -> int:
    """Ask lm-eval's own tasks about the rows of the catalogue's entries; return how many facts have changed."""
    facts, found = DATA / "lmeval_catalogue.json", folder / "catalogue.json"
    in_lmeval("in_lmeval_catalogue.py", facts, found)
    recorded, current = (json.loads(path.read_text(encoding="utf-8")) for path in (facts, found))
    changed = [name for name in recorded if recorded[name] != current[name]]
    print(f"catalogue: {len(recorded)} entries as recorded" if not changed else f"catalogue: other facts for {changed}")
    return len(changed)


def record(folder: Path) -> None:
    """Write what lm-eval says of a model that is built from a seed, and of the catalogue's rows."""
    write_rows(folder, RECORDED_ROWS)
    shutil.copytree(HERE / "tasks", folder / "tasks", dirs_exist_ok=True)
    model = random_model(folder / "models" / "0")
    in_lmeval("in_lmeval.py", folder, *SHOTS)
    found = json.loads((folder / "lmeval.json").read_text(encoding="utf-8"))
    for run in found.values():
        kept = ("doc_id", "arguments", "resps")
        run["samples"] = [{key: each[key] for key in kept} for each in distinct_documents(run["samples"])]
    facts = {"weights": weights_digest(model), "runs": found}
    (DATA / "lmeval_facts.json").write_text(json.dumps(facts, ensure_ascii=False) + "\n", encoding="utf-8")
    in_lmeval("in_lmeval_catalogue.py", DATA / "lmeval_catalogue.json", DATA / "lmeval_catalogue.json")
    record_seams(folder / "seams")


def record_seams(folder: Path) -> None:
    """Write what lm-eval says of ``lmeval:`` tasks, as texts and as chats."""
    weights = [weights_digest(model) for model in seams.build(folder, RECORDED_SEAM_ROWS, RECORDED_TOKENIZERS)]
    in_lmeval("in_lmeval.py", folder, RECORDED_SEAM_SHOTS)
    found = json.loads((folder / "lmeval.json").read_text(encoding="utf-8"))
    for run in found.values():
        run["samples"] = [{key: sample[key] for key in ("doc_id", "resps")} for sample in run["samples"]]
    facts = {"weights": weights, "runs": found}
    (DATA / "lmeval_seams.json").write_text(json.dumps(facts, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
