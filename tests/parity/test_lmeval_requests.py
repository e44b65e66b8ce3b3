"""Requests of lm-eval's task files: every recorded one, as plain text and as a chat."""

import pytest

import kshot
from kshot.core.errors import DataError
from tests.parity.lmeval_recordings import MARKS, RECORDED, RecordedTree

pytestmark = MARKS


def template(turns, add_generation_prompt):
    """Write turns as the recordings have them: the last is left open where it begins the reply."""
    text = "".join(f"<|{turn['role']}|>\n{turn['content']}<|end|>\n" for turn in turns)
    return text + "<|assistant|>\n" if add_generation_prompt else text.removesuffix("<|end|>\n")


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    tree = RecordedTree(tmp_path_factory.mktemp("tasks"))
    yield tree
    tree.functions.close()


@pytest.mark.parametrize("name", RECORDED)
def test_requests_are_those_of_lm_eval(name, tree):
    recorded = RECORDED[name]
    task = tree.task(name)
    for case in recorded["cases"]:
        assert task.requests(recorded["rows"], case["num_fewshot"]) == case["requests"]
    chat = recorded["chat"]
    assert task.requests(recorded["rows"], chat["num_fewshot"], chat_template=template) == chat["requests"]


@pytest.mark.parametrize("name", ["ifeval__ifeval", "arc__arc_easy"])
def test_a_file_alone_finds_its_siblings(name, tree):
    recorded = RECORDED[name]
    with kshot.lmeval.load(tree.folder / recorded["path"]) as task:
        assert task.requests(recorded["rows"]) == recorded["cases"][0]["requests"]


def test_a_file_that_includes_what_lies_above_it_needs_its_tree(tree):
    recorded = RECORDED["noreval__noridiom__nob__noridiom_nob_p3"]
    with pytest.raises(DataError, match="outside the tree of the task"):
        kshot.lmeval.load(tree.folder / recorded["path"])
    with kshot.lmeval.load(tree.folder / recorded["path"], tree.folder) as task:
        assert task.requests(recorded["rows"]) == recorded["cases"][0]["requests"]
