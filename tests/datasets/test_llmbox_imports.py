"""What imports mean in a dataset file that lies in a package: kshot's answers, data modules, neighbours."""

import sys

import pytest

import kshot
from kshot.core.errors import DataError
from kshot.core.registry import before_import
from kshot.datasets.llmbox.imports import Language
from kshot.datasets.settings import DatasetSettings
from kshot.datasets.source import resolve
from tests.datasets.llmbox_tree import CHOICE, EXAMPLES, GENERATION, Tree, changed


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def load(tree, text, name="Words"):
    return resolve(f"{tree.add(text)}:{name}").dataset


def with_import(line):
    return changed(GENERATION, ("from ..metric import Em\n", f"from ..metric import Em\n{line}\n"))


def test_base_classes_and_metrics_are_kshots(tree):
    cls = load(tree, GENERATION)
    assert issubclass(cls, kshot.GenerationDataset)
    assert isinstance(cls.metrics[0], kshot.Em)
    assert issubclass(load(tree, CHOICE, "Colours"), kshot.MultipleChoiceDataset)


def test_every_metric_that_files_use_can_be_made_without_keys_or_network(tree):
    names = [
        "Accuracy",
        "Bleu",
        "Em",
        "F1",
        "GPTEval",
        "GaokaoBenchMetric",
        "IFEval",
        "PPL",
        "PassAtK",
        "PerspectiveApi",
        "Rouge",
        "WordAccuracy",
    ]
    cls = load(tree, with_import(f"from ..metric import {', '.join(names)}\nMADE = [{'(), '.join(names)}()]"))
    made = vars(sys.modules[cls.__module__])["MADE"]
    assert all(isinstance(each, kshot.Metric) for each in made)


@pytest.mark.parametrize("through", ["mine", "between"])
def test_a_file_that_imports_itself_is_refused(tree, through):
    tree.add("from .mine import Words\n", "dataset/between.py")
    text = with_import(f"from .{through} import Words as Other")
    with pytest.raises(DataError, match=r"mine\.py: the file imports itself"):
        load(tree, text)
    assert load(tree, GENERATION).__name__ == "Words"  # and nothing is left behind


def test_load_args_that_are_no_texts_are_refused_before_rows_are_read(tree):
    text = changed(GENERATION, ('example_set = "train"', 'example_set = "train"; load_args = 5'))
    with pytest.raises(DataError, match="load_args is 5"):
        resolve(f"{tree.add(text)}:Words").packages(DatasetSettings())


def test_a_data_module_is_read_from_the_tree(tree):
    tree.add("import re\nKINDS = {'warm': ['red']}\n", "dataset_enum.py")
    cls = load(tree, with_import("from ..dataset_enum import KINDS"))
    assert vars(sys.modules[cls.__module__])["KINDS"] == {"warm": ["red"]}


def test_a_neighbouring_dataset_is_read_from_the_tree(tree):
    tree.add(GENERATION, "dataset/words.py")
    text = "from .words import Words\nfrom . import words\n\nclass More(Words):\n    instruction = '{q}!'\n"
    cls = load(tree, text, "More")
    assert cls.__mro__[1].__name__ == "Words"
    assert tree.prompts(text, "More")[0] == "q0!"
    assert cls.name == "mine"
    assert cls.__mro__[1].name == "words"


def test_nothing_else_of_the_package_is_run(tree):
    tree.add("import torch\nraise RuntimeError('this ran')\n", "model/model.py")
    with pytest.raises(DataError, match=r"mine\.py: it imports model\.model; model\.py is no data module: .*torch"):
        load(tree, with_import("from ..model.model import Model"))
    tree.add("raise RuntimeError('this ran')\n", "metric/__init__.py")
    tree.add("raise RuntimeError('this ran')\n", "dataset/generation_dataset.py")
    tree.add("raise RuntimeError('this ran')\n", "__init__.py")
    tree.add("raise RuntimeError('this ran')\n", "dataset/__init__.py")
    assert load(tree, GENERATION).__name__ == "Words"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("from ..metric import Em, Nonsense", "it imports Nonsense of metric; there is Accuracy, Bleu"),
        ("from ..nowhere import X", "it imports nowhere; there is no such file in the tree"),
        ("from ...above import X", "it imports ...above; that is outside the package"),
        ("from ..kinds import NOT_THERE", "it imports NOT_THERE of kinds; there is KINDS"),
    ],
)
def test_what_cannot_be_imported_is_one_message(tree, line, message):
    tree.add("KINDS = ()\n", "kinds.py")
    with pytest.raises(DataError) as caught:
        load(tree, with_import(line))
    assert message in str(caught.value)
    assert "mine.py" in str(caught.value)


def test_light_modules_of_the_tree_add_what_kshot_does_not_know(tree):
    tree.add("def is_equiv(a, b):\n    return None\n\ndef last_number(text):\n    return 7\n", "utils/math_equiv.py")
    tree.add("import torch\n", "utils/__init__.py")
    tree.add("LETTERS = 'AB'\n", "metric/letters.py")
    tree.add("from .more import WORD\nfrom .dataset.deep import DEPTH\n", "dataset_enum.py")
    tree.add("WORD = 'more'\n", "more.py")
    tree.add("DEPTH = 1\n", "dataset/deep.py")
    lines = """\
from ..utils.math_equiv import is_equiv, last_number
from ..metric.letters import LETTERS
from ..metric.accuracy import Accuracy
from ..dataset_enum import *
"""
    module = vars(sys.modules[load(tree, with_import(lines)).__module__])
    assert module["is_equiv"]("1", "1") is True  # kshot's own
    assert module["last_number"]("x") == 7
    assert (module["LETTERS"], module["WORD"], module["DEPTH"]) == ("AB", "more", 1)
    assert module["Accuracy"]().name == "Accuracy"


def test_helpers_of_other_modules(tree):
    lines = """\
from ..metric.drop_utils import get_answers
from ..utils import math_equiv
from ..utils.math_equiv import is_equiv
from .dataset_utils import get_raw_dataset_loader
from .dataset import Dataset
"""
    module = vars(sys.modules[load(tree, with_import(lines)).__module__])
    blank = {"number": "", "spans": [], "date": {"day": "1", "month": "May", "year": "2020"}}
    several = {"number": ["3", "3"], "spans": [[], []], "date": [{}, {}]}
    assert module["get_answers"]({"answer": blank, "validated_answers": several}) == [("1 May 2020",), ("3",)]
    assert module["math_equiv"](r"\frac12", r"\dfrac{1}{2}")
    assert module["is_equiv"]("x = 0.5", "1/2")
    assert not module["math_equiv"]("3", "4")
    given = {"dataset_name": "x", "dataset_path": str(tree.rows), "subset_name": None, "load_args": ("x",)}
    rows, message = module["get_raw_dataset_loader"](**given, load_kwargs={}, return_msg=True)
    assert rows("train")[0]["q"] == "e0"
    assert str(tree.rows) in message
    assert len(module["get_raw_dataset_loader"](**given, load_kwargs=None, return_msg=False)("test")) == 4


def test_examples_of_the_hub_are_asked_for_when_they_are_shown(tree, monkeypatch):
    asked = []

    def load_from_hub(*place):
        asked.append(place[:3])
        return EXAMPLES

    monkeypatch.setattr("kshot.tables.loading.load_from_hub", load_from_hub)
    lines = "from .dataset_utils import get_raw_dataset_loader"
    method = """\
    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        given = dict(dataset_name="mine", subset_name=None, load_kwargs={}, return_msg=False)
        self.evaluation_data = get_raw_dataset_loader(**given, dataset_path=dataset_path, load_args=())("test")
        self.example_data = get_raw_dataset_loader(**given, dataset_path=None, load_args=("hub/x",))("train")

    def format_instance"""
    text = changed(with_import(lines), ("    def format_instance", method))
    assert tree.prompts(text, "Words")[0] == "q0:"
    assert asked == []
    assert tree.prompts(text, "Words", num_shots=5)[0].startswith("e0: one\n\ne1: two\n\n")
    assert asked == [("hub/x", None, "train")]


def test_the_datasets_library_is_imported_only_when_it_is_used(tree, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    lines = "import datasets as ds\nCONFIG = ds.DownloadConfig(extract_compressed_file=True)"
    cls = load(tree, with_import(lines))
    assert callable(vars(sys.modules[cls.__module__])["CONFIG"])  # it is made when something is downloaded


def test_languages_have_names_without_langcodes(tree, monkeypatch):
    assert [Language(code).language_name("en") for code in ("en", "sw", "jp")] == [
        "English",
        "Swahili",
        "Unknown language [jp]",
    ]
    with pytest.raises(DataError, match="pip install langcodes language_data"):
        Language("zh-hans").language_name("en")
    text = changed(
        GENERATION,
        (
            "    def format_instance",
            (
                "    def init_arguments(self):\n        from langcodes import Language\n"
                '        self.instruction = Language("ro").language_name("en") + " {q}"\n\n    def format_instance'
            ),
        ),
    )
    assert tree.prompts(text, "Words")[0] == "Romanian q0"


def test_a_run_records_neighbours_each_time_and_sees_their_changes(tree):
    enum = tree.add("WORD = 'first'\n", "dataset_enum.py")
    text = changed(
        with_import("from ..dataset_enum import WORD"), ('instruction = "{q}:"', 'instruction = "{q} " + WORD')
    )
    for expected in ("first", "first", "second"):
        enum.write_text(f"WORD = {expected!r}\n")
        used = []
        with before_import(lambda path, digest, name, used=used: used.append(path.name)):
            assert tree.prompts(text, "Words")[0] == f"q0 {expected}"
        assert {"mine.py", "dataset_enum.py"} <= set(used)


def test_a_file_without_relative_imports_is_imported_as_before(tmp_path):
    file = tmp_path / "plain.py"
    file.write_text("import kshot\n\nclass Mine(kshot.GenerationDataset):\n    pass\n")
    cls = resolve(f"{file}:Mine").dataset
    assert cls.name == ""
    assert vars(sys.modules[cls.__module__])["__builtins__"]["__import__"] is __import__
