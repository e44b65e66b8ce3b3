"""Other harnesses, each in an environment of its own under benchmarks/.peers: made when first asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TASK_FUNCTIONS = [
    "rouge", "fuzzywuzzy", "jieba", "pymorphy3", "pymorphy2", "immutabledict", "langdetect", "math_verify",
    "wonderwords", "antlr4-python3-runtime==4.11", "unitxt", "bert_score", "emoji", "json_repair", "unidecode",
    "pycountry", "langcodes",
]  # fmt: skip
"""What the functions of lm-eval's own task files import."""
PACKAGES = {
    "lm-eval": ["lm-eval[api]==0.4.13", "torch==2.13.0", "transformers", "accelerate", *TASK_FUNCTIONS],
    "inspect_ai": ["inspect_ai", "openai"],
}


def python_of(name: str) -> str | None:
    """The Python of a harness's environment; None, with a word of why, where it does not install."""
    home = HERE / ".peers" / name
    python, mark, packages = home / "bin" / "python", home / "ready", " ".join(PACKAGES[name])
    if not mark.exists() or mark.read_text() != packages:
        constraints = ["-c", str(HERE.parent / "constraints.txt")]
        install = [str(python), "-m", "pip", "install", "-q", *PACKAGES[name], *constraints]
        try:
            subprocess.run([sys.executable, "-m", "venv", str(home)], check=True, capture_output=True, text=True)
            subprocess.run(install, check=True, capture_output=True, text=True)
        except subprocess.CalledProcessError as error:
            print(f"{name} left out: {(error.stderr or '?').strip().splitlines()[-1:]}")
            return None
        mark.write_text(packages)
    return str(python)


def version_of(name: str) -> str:
    """Its version, as installed."""
    python = python_of(name)
    script = f"import importlib.metadata as m; print(m.version({name.replace('-', '_')!r}))"
    return subprocess.run([str(python), "-c", script], check=True, capture_output=True, text=True).stdout.strip()
