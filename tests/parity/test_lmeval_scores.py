"""Scores of lm-eval's task files: every recorded round, by themselves and through a whole run."""

import json
import math
from pathlib import Path

import pytest

from kshot.lmeval.files import read_body, task_config
from kshot.lmeval.functions import Functions
from kshot.lmeval.task_file import TaskFile
from tests.lmeval.replayed import lmeval_figures, ran

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT.parent / "shared" / "data" / "golden" / "lmeval"
INSTALLED = ROOT / "benchmarks/.peers/lm-eval/lib/python3.11/site-packages/lm_eval/tasks"
RECORDED = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(GOLDEN.glob("*.json"))}
DATA_FILE = "score/agi_eval/prompt_templates.json"
"""A file that the functions of two tasks read; the recordings do not have it, lm-eval itself does."""

pytestmark = [
    pytest.mark.needs("pyyaml", "datasets", "scikit-learn"),
    pytest.mark.skipif(not RECORDED, reason="the recordings of ../shared are not here"),
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """All recorded files in one tree, as lm-eval has them."""
    folder = tmp_path_factory.mktemp("tasks")
    for recorded in RECORDED.values():
        for name, text in recorded["files"].items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    if (INSTALLED / DATA_FILE).exists():
        (folder / DATA_FILE).write_bytes((INSTALLED / DATA_FILE).read_bytes())
    return folder


@pytest.fixture(scope="module")
def functions(tree):
    worker = Functions(tree)
    yield worker
    worker.close()


def is_same(found, recorded):
    """Whether two values are the same, but for the nine digits that were recorded."""
    if recorded == "nan":
        return isinstance(found, float) and math.isnan(found)
    if isinstance(recorded, dict):
        return found.keys() == recorded.keys() and all(is_same(found[key], recorded[key]) for key in recorded)
    if isinstance(recorded, list):
        return len(found) == len(recorded) and all(map(is_same, found, recorded))
    if isinstance(recorded, float):
        return math.isclose(found, recorded, rel_tol=1e-8, abs_tol=2e-9)
    return found == recorded


@pytest.mark.parametrize("name", RECORDED)
def test_scores_are_those_of_lm_eval(name, tree, functions):
    recorded = RECORDED[name]
    if recorded["path"].startswith("score/") and not (tree / DATA_FILE).exists():
        pytest.skip(f"its functions read {DATA_FILE}, which only lm-eval itself has")
    path = tree / recorded["path"]
    task = TaskFile(task_config(read_body(path, tree), path, tree), functions)
    for given in recorded["scores"]:
        found = task.score(recorded["rows"], given["responses"])
        assert is_same(found["metrics"], given["metrics"]), (found["metrics"], given["metrics"])
        assert is_same(found["docs"], given["docs"]), (found["docs"], given["docs"])
    first = recorded["scores"][0]
    result = ran(task, recorded["rows"], first["responses"])
    assert all(row["failed"] == 0 for row in result.results)
    assert is_same(lmeval_figures(result), first["metrics"])


def test_the_comparison_sees_a_difference():
    assert not is_same({"acc,none": 0.5}, {"acc,none": 0.25})
    assert not is_same([1, 0.1], [1, 0.1000001])
    assert not is_same({"a": 1}, {"a": 1, "b": 2})
