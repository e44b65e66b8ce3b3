"""Requests of lm-eval's task files: every recorded one, as plain text and as a chat."""

import json
from pathlib import Path

import pytest

import kshot
from kshot.core.errors import DataError
from kshot.lmeval.files import read_body, task_config
from kshot.lmeval.functions import Functions
from kshot.lmeval.task_file import TaskFile

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


def template(turns, add_generation_prompt):
    """Write turns as the recordings have them: the last is left open where it begins the reply."""
    text = "".join(f"<|{turn['role']}|>\n{turn['content']}<|end|>\n" for turn in turns)
    return text + "<|assistant|>\n" if add_generation_prompt else text.removesuffix("<|end|>\n")


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


@pytest.mark.parametrize("name", RECORDED)
def test_requests_are_those_of_lm_eval(name, tree, functions):
    recorded = RECORDED[name]
    if recorded["path"].startswith("score/") and not (tree / DATA_FILE).exists():
        pytest.skip(f"its functions read {DATA_FILE}, which only lm-eval itself has")
    path = tree / recorded["path"]
    task = TaskFile(task_config(read_body(path, tree), path, tree), functions)
    for case in recorded["cases"]:
        assert task.requests(recorded["rows"], case["num_fewshot"]) == case["requests"]
    chat = recorded["chat"]
    assert task.requests(recorded["rows"], chat["num_fewshot"], chat_template=template) == chat["requests"]


@pytest.mark.parametrize("name", ["ifeval__ifeval", "arc__arc_easy"])
def test_a_file_alone_finds_its_siblings(name, tree):
    recorded = RECORDED[name]
    with kshot.lmeval.load(tree / recorded["path"]) as task:
        assert task.requests(recorded["rows"]) == recorded["cases"][0]["requests"]


def test_a_file_that_includes_what_lies_above_it_needs_its_tree(tree):
    recorded = RECORDED["noreval__noridiom__nob__noridiom_nob_p3"]
    with pytest.raises(DataError, match="outside the tree of the task"):
        kshot.lmeval.load(tree / recorded["path"])
    with kshot.lmeval.load(tree / recorded["path"], tree) as task:
        assert task.requests(recorded["rows"]) == recorded["cases"][0]["requests"]
