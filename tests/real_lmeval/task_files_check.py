"""kshot on lm-eval's own task files, against lm-eval itself: the second part of ``make lmeval-check``.

lm-eval (in ``benchmarks/.peers/lm-eval``) makes requests and scores of a share of its 13,000 task files, spread over all of
them, on made-up rows: with the file's number of examples and with 2, as text and as chat. kshot must make the same. A run that
kshot exports must be read by lm-eval. The test suite does not include this script.

    python tests/real_lmeval/task_files_check.py [--keep FOLDER] [--parts N] [--part K …] [--files PATTERN]

``--parts 1`` compares all files, which takes hours; ``--keep`` uses again what was recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from tests.real_lmeval import task_files  # noqa: E402 - the path is set above

PARTS = 60
ENOUGH = {"requests": 97.0, "chat": 97.0, "scores": 95.0}
LISTED = 12
USERS = ROOT / "benchmarks" / ".peers" / "lm-eval-users"
# What users of these task files have beside kshot: the packages that the functions import.
USERS_PACKAGES = [
    "evaluate",
    "fuzzywuzzy",
    "pymorphy3",
    "wonderwords",
    "emoji",
    "rouge",
    "jieba",
    "word2number",
    "langcodes",
]
USERS_PACKAGES_ALONE = ["antlr4-python3-runtime==4.11.0"]  # sympy wants this one
OLDER = USERS.with_name("lm-eval-older")
OLDER_TRANSFORMERS = "transformers==5.19.0"
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


def main() -> int:
    """Record, compare, print; 1 where a figure is too low."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--keep", type=Path, help="folder for what is recorded; used again. Default: a temporary one")
    parser.add_argument("--parts", type=int, default=PARTS, help="a share of 1/N of all files is compared")
    parser.add_argument("--part", type=int, nargs="*", default=[0], help="which of these shares")
    parser.add_argument("--files", default="*", help="only files whose path below lm_eval/tasks matches")
    options = parser.parse_args()
    python = lmeval_python()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.keep or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        chosen = ["--parts", str(options.parts), "--files", options.files, "--older", str(older_transformers(python))]
        chosen += ["--part", *map(str, options.part)]
        _run(python, str(HERE / "wheel" / "record.py"), str(folder), *chosen)
        recorded = [folder / f"part{part}.jsonl" for part in options.part]
        compared = folder / "compared.jsonl"
        _run(
            str(users_python()), str(HERE / "task_files.py"), str(tasks_of(python)), str(compared), *map(str, recorded)
        )
        low = _told(recorded, compared)
        low += _exported(python, folder)
    print("all enough" if not low else f"too low: {', '.join(low)}")
    return 1 if low else 0


def _told(recorded: list[Path], compared: Path) -> list[str]:
    """Print what was found; the parts of which too little is equal."""
    kinds = task_files.kinds_of(*recorded)
    print(
        f"task files: {kinds['text']} text tasks, {kinds['requests']} of which lm-eval makes requests, {kinds['scores']} of which it scores"
    )
    results = [json.loads(line) for line in compared.read_text(encoding="utf-8").splitlines()]
    low = []
    for part, (same, of) in task_files.counted(results).items():
        share = 100 * same / of if of else 100.0
        print(f"  {part:<9} {same} of {of} equal: {share:.2f} %")
        print(
            "".join(
                f"  - {often} × {example[:300]}\n" for _, often, example in task_files.reasons(results, part)[:LISTED]
            ),
            end="",
        )
        if share < ENOUGH[part]:
            low.append(part)
    return low


def _exported(python: str, folder: Path) -> list[str]:
    """Run some tasks, export them, and have lm-eval print its table and load its samples."""
    run, out = folder / "exported-run", folder / "exported"
    kshot = [sys.executable, "-m", "kshot"]
    tree = ["--lmeval-root", str(ROOT / "examples" / "lmeval"), "-d", "lmeval:planets", "-d", "lmeval:planets_rolling"]
    _run(*kshot, "run", "-m", "embedded", *tree, "--out", str(run), "--no-report")
    _run(*kshot, "export", str(run), "--to", "lmeval", "--out", str(out))
    told = _run(python, str(HERE / "reads_exported.py"), str(out))
    print(f"exported: lm-eval reads {told}")
    return []


def lmeval_python() -> str:
    """The Python of lm-eval's environment, which is made when first needed."""
    from peers import python_of

    found = python_of("lm-eval")
    if found is None:
        sys.exit("lm-eval cannot be installed")
    return found


def older_transformers(python: str) -> Path:
    """A folder with the last transformers that has the metrics of SQuAD, which some task files import."""
    if not OLDER.exists():
        _run(
            python,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-compile",
            "--no-deps",
            "--target",
            str(OLDER),
            OLDER_TRANSFORMERS,
        )
    return OLDER


def tasks_of(python: str) -> Path:
    """The folder of lm-eval's task files."""
    return Path(_run(python, "-c", "import lm_eval; print(lm_eval.__path__[0])")) / "tasks"


def users_python() -> Path:
    """The Python of an environment with kshot as it is here, what this environment has, and the users' packages."""
    mark, python = USERS / "ready", USERS / "bin" / "python"
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(USERS), "platbase": str(USERS)}))
    wanted = " ".join([*USERS_PACKAGES, *USERS_PACKAGES_ALONE, sys.prefix])
    if not mark.exists() or mark.read_text(encoding="utf-8") != wanted:
        print("Setting up the environment of users of task files: 100 MB, about a minute …", flush=True)
        _run(sys.executable, "-m", "venv", "--without-pip", str(USERS))
        here = [str(ROOT / "src"), sysconfig.get_path("purelib")]
        (packages / "kshot.pth").write_text("\n".join(here) + "\n", encoding="utf-8")
        install = [str(python), "-m", "pip", "install", "-q", "--no-compile"]
        _run(*install, *USERS_PACKAGES)
        _run(*install, "--no-deps", "--ignore-installed", *USERS_PACKAGES_ALONE)
        mark.write_text(wanted, encoding="utf-8")
    return python


def _run(*command: str) -> str:
    """Run a command; its output."""
    ran = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, **OFFLINE})
    if ran.returncode:
        sys.exit(f"failed: {' '.join(command)}\n{ran.stderr.strip()[-3000:]}")
    return ran.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
