"""Subsets of LLMBox's files: how they are averaged, and what a class that lacks its subset says."""

import math

import pytest

import kshot
from kshot.core.errors import DataError
from tests.datasets.fakes import prefers
from tests.datasets.llmbox_tree import CHOICE, GENERATION, ROWS, Tree, changed


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def sized(tree, **splits):
    """Write subsets as folders of rows."""
    for name, count in splits.items():
        folder = tree.rows / name
        folder.mkdir()
        tree.write_rows(test=ROWS[:count])
        (tree.rows / "test.jsonl").rename(folder / "test.jsonl")


def averaged(tree, text, **options):
    rows = kshot.evaluate(prefers("red"), f"{tree.add(text)}:Colours", dataset_path=str(tree.rows), **options).results
    return {row["task"]: row["value"] for row in rows if "average" in row and row["metric"] == "Accuracy"}


def test_subsets_without_categories_count_by_their_samples(tree):
    sized(tree, one=1, three=3)  # of which red is right: 1 of 1, 1 of 3
    assert averaged(tree, CHOICE) == {"mine[Weighted Average]": 50.0}
    (macro,) = averaged(tree, CHOICE, average="macro").values()
    assert math.isclose(macro, (100 + 100 / 3) / 2)


def test_subsets_with_categories_count_the_same(tree):
    sized(tree, one=1, three=3)
    text = changed(
        CHOICE, ("    evaluation_set", "    categorized_subsets = {'all': ['one', 'three']}\n    evaluation_set")
    )
    found = averaged(tree, text)
    assert list(found) == ["mine[All Macro Average]", "mine[Macro Average]"]
    assert all(math.isclose(value, (100 + 100 / 3) / 2) for value in found.values())
    assert set(averaged(tree, text, average="weighted").values()) == {50.0}


SUBSET = "If it has subsets"


def refused(tree, text, name="Words"):
    with pytest.raises(DataError) as caught:
        tree.prompts(text, name)
    return str(caught.value)


def test_a_missing_column_is_no_matter_of_subsets(tree):
    tree.write_rows(test=[{"question": "q"}])
    message = refused(tree, GENERATION)
    assert "format_instance wants 'choices'; the row has: question" in message
    assert SUBSET not in message


def test_a_look_up_by_the_subset_asks_for_one(tree):
    method = "    def init_arguments(self):\n        self.title = {'it': 'Italian'}[self.subset_name]\n\n"
    text = changed(GENERATION, ("    def format_instance", f"{method}    def format_instance"))
    assert SUBSET in refused(tree, text)
    fixed = changed(text, ("    example_set", '    load_args = ("hub/x", "it")\n    example_set'))
    assert SUBSET not in refused(tree, fixed)  # its subset is fixed


def test_what_a_class_says_of_a_ranking_type_is_shown_alone(tree):
    method = "    def init_arguments(self):\n        raise ValueError('only by perplexity')\n\n"
    text = changed(
        CHOICE,
        ("    example_set", '    load_args = ("hub/x", "it")\n    example_set'),
        ("    def format_instance", f"{method}    def format_instance"),
    )
    assert refused(tree, text, "Colours") == "dataset mine: init_arguments fails: ValueError: only by perplexity"


def test_a_language_without_a_name_names_its_dataset(tree, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    method = (
        "    def init_arguments(self):\n        from langcodes import Language\n"
        "        self.language = Language('zh-Hant').language_name('en')\n\n"
    )
    message = refused(tree, changed(GENERATION, ("    def format_instance", f"{method}    def format_instance")))
    assert message.startswith("dataset mine: the name of the language 'zh-Hant' in 'en' needs the package 'langcodes'")
