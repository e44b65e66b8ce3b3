"""What the recordings of lm-eval hold, for the tests that compare kshot with them."""

import json
from pathlib import Path

import pytest

from kshot.lmeval.files import read_body, task_config
from kshot.lmeval.functions import Functions
from kshot.lmeval.task_file import TaskFile

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT.parent / "shared" / "data" / "golden" / "lmeval"
INSTALLED = ROOT / "benchmarks/.peers/lm-eval/lib/python3.11/site-packages/lm_eval/tasks"
RECORDED = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(GOLDEN.glob("*.json"))}
DATA_FILE = "score/agi_eval/prompt_templates.json"
"""A file that the functions of two tasks read; the recordings do not have it, lm-eval itself does."""
MARKS = [
    pytest.mark.needs("pyyaml", "datasets", "scikit-learn"),
    pytest.mark.skipif(not RECORDED, reason="the recordings of ../shared are not here"),
]


def _written(folder):
    for recorded in RECORDED.values():
        for name, text in recorded["files"].items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    if (INSTALLED / DATA_FILE).exists():
        (folder / DATA_FILE).write_bytes((INSTALLED / DATA_FILE).read_bytes())
    return folder


class RecordedTree:
    """All recorded files in one tree, as lm-eval has them, and the process that runs their functions."""

    def __init__(self, folder):
        self.folder, self.functions = _written(folder), Functions(folder)

    def task(self, name):
        """Return a recorded task; a test whose files are not here is skipped."""
        place = RECORDED[name]["path"]
        if place.startswith("score/") and not (self.folder / DATA_FILE).exists():
            pytest.skip(f"its functions read {DATA_FILE}, which only lm-eval itself has")
        path = self.folder / place
        return TaskFile(task_config(read_body(path, self.folder), path, self.folder), self.functions)
