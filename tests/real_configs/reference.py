"""The two homes in an environment of their own: made when first needed, under benchmarks/.peers/configs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
PLACE = ROOT / "benchmarks" / ".peers" / "configs"
SOURCES = PLACE.with_name("config-homes")  # not in the environment: mmengine would import them instead of naming them
HOMES = {"opencompass": "opencompass==0.5.4", "ais_bench": "ais_bench_benchmark==3.1.20260630"}
# What their prompts, clean-ups and most evaluators import; torch and its kin are stand-ins (home/stand_ins.py).
PACKAGES = [
    "mmengine-lite==0.11.0rc3", "datasets==3.6.0", "numpy<2", "pyarrow<20", "pandas<3", "transformers", "tiktoken", "jieba",
    "rouge", "rouge_chinese", "rouge_score", "sacrebleu", "nltk", "rank_bm25==0.2.2", "fuzzywuzzy", "python-Levenshtein",
    "rapidfuzz", "tabulate", "prettytable", "retrying", "requests", "json5", "jsonlines", "func_timeout",
    "timeout_decorator", "scikit_learn", "evaluate", "rich", "immutabledict", "absl-py", "openai", "sympy", "h5py",
    "antlr4-python3-runtime==4.11", "latex2sympy2_extended", "math-verify",
]  # fmt: skip


def python() -> Path:
    """The Python of the environment."""
    made, mark = PLACE / "bin" / "python", PLACE / "ready"
    wanted = " ".join([*PACKAGES, *HOMES.values()])
    if not SOURCES.exists() or not mark.exists() or mark.read_text(encoding="utf-8") != wanted:
        print("Setting up the reference environment: 1 GB, about two minutes …", flush=True)
        _run(sys.executable, "-m", "venv", str(PLACE))
        _run(str(made), "-m", "pip", "install", "-q", "--no-compile", *PACKAGES)
        for name, package in HOMES.items():
            target = str(SOURCES / name)
            _run(
                str(made),
                "-m",
                "pip",
                "install",
                "-q",
                "--no-compile",
                "--no-deps",
                "--upgrade",
                "--target",
                target,
                package,
            )
        mark.write_text(wanted, encoding="utf-8")
    return made


def home_of(framework: str) -> Path:
    """The folder that holds the package of a home."""
    python()
    return SOURCES / framework


def record(framework: str, out: Path, most: int) -> subprocess.Popen[bytes]:
    """Start the recording of what a home says of its own entries."""
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    command = [str(python()), str(HERE / "home" / "record.py"), framework, str(home_of(framework)), str(out), str(most)]
    log = out.with_suffix(".log").open("wb")
    return subprocess.Popen(command, stdout=log, stderr=log, cwd=out.parent, env={**os.environ, **offline})


def _run(*command: str) -> None:
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"the reference environment cannot be made: {ran.stderr.strip()[-2000:]}")
