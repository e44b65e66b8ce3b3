"""From what a user writes to dataset classes and subsets."""

import json

import pytest
from hypothesis import given, settings, strategies as st

import kshot
from kshot import Em, GenerationDataset
from kshot.core.errors import DataError, UsageError
from kshot.core.specs import parse_spec
from kshot.core.watcher import PlannedTask
from kshot.datasets.catalogue.mmlu import Mmlu
from kshot.datasets.catalogue.race import Race
from kshot.datasets.dataset import name_of
from kshot.datasets.settings import DatasetSettings
from kshot.datasets.source import DATASETS, DatasetSource, resolve, subsets_to_run
from tests.datasets.fakes import from_rows

OWN = '''
from kshot import Em, GenerationDataset


class First(GenerationDataset):
    """One."""

    instruction, metrics, evaluation_set = "{q}", [Em()], "test"
    categorized_subsets = {"Small Ones": ["a", "b"], "big": ["c"]}

    def format_instance(self, row):
        return row
'''


@pytest.fixture
def own(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path / "own.py"


def test_every_entry_of_the_catalogue_is_a_class_named_as_its_file():
    entries = [entry for entry in DATASETS.entries() if entry.origin == "kshot"]
    assert len(entries) >= 14
    for entry in entries:
        cls = entry.load()
        assert name_of(cls) == entry.name
        assert cls.__doc__
        assert cls.__doc__.splitlines()[0].endswith(".")
        assert cls.instruction
        assert cls.evaluation_set
        assert cls.load_args is not None


def source(text, cls, *subsets):
    return DatasetSource(text, cls, subsets, parse_spec(text))


def test_names(own):
    assert resolve("mmlu") == source("mmlu", Mmlu)
    assert resolve("race:high,middle") == source("race:high,middle", Race, "high", "middle")
    assert resolve("race: high , high,") == source("race: high , high,", Race, "high")
    assert resolve(Race).dataset is Race
    assert resolve(f"{own}:First").dataset.__name__ == "First"
    assert resolve(str(own)).dataset.__name__ == "First"
    assert resolve(f"{own}:First:x,y").subsets == ("x", "y")


def test_categories(own):
    stem = resolve("mmlu:[stem]").subsets
    assert stem == tuple(Mmlu.categorized_subsets["stem"])
    assert resolve("mmlu:[Social Sciences], anatomy ,[stem]").subsets == (
        *Mmlu.categorized_subsets["social_sciences"],
        "anatomy",
        *stem,
    )
    assert resolve("mmlu:virology, [stem]").subsets == ("virology", *stem)
    assert resolve(f"{own}:First:[small ones]").subsets == ("a", "b")
    assert resolve(f"{own}:First:[small_ones],b").subsets == ("a", "b")


@settings(max_examples=20)
@given(st.lists(st.from_regex(r"[A-Za-z0-9_.\-]+", fullmatch=True), unique=True, min_size=1))
def test_subsets_come_in_the_order_they_are_named(subsets):
    assert resolve(f"race:{','.join(subsets)}").subsets == tuple(subsets)


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("mmul", UsageError, "no dataset 'mmul'. Did you mean 'mmlu'"),
        ("qqqq", UsageError, "no dataset 'qqqq'. See kshot list datasets"),
        ("", UsageError, "no dataset ''"),
        ("mmlu:[maths]", UsageError, "no category 'maths' in mmlu. Categories: stem, humanities"),
        ("race:[x]", UsageError, "Categories: none"),
        (5, UsageError, "a name, a class or a Task, not int"),
        (int, UsageError, "not type"),
        ("gone.py:X", DataError, "no such file"),
    ],
)
def test_what_cannot_be_found(spec, error, message):
    with pytest.raises(error, match=message.replace(".", r"\.")):
        resolve(spec)


def test_a_class_that_is_not_in_the_file(own):
    with pytest.raises(DataError, match=r"there is no dataset 'Second' in this file\. It has: First"):
        resolve(f"{own}:Second")


# ---- which subsets run ----


def shown(found, **options):
    return subsets_to_run(found, DatasetSettings(**options))


def write(path, **rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([rows]))


def test_all_subsets_of_the_class_unless_some_are_named():
    assert len(shown(resolve("mmlu"))) == 57
    assert shown(resolve("mmlu:virology")) == ["virology"]
    assert shown(resolve("copa")) == [None]  # load_args names the only one


def test_banned_subsets_are_skipped():
    assert shown(resolve("mmlu:all,virology")) == ["virology"]
    with pytest.raises(UsageError, match="dataset race: all subsets asked for are banned: all"):
        shown(resolve("race:all"))
    banned = from_rows(
        GenerationDataset, [], categorized_subsets={"g": ["a", "b"], "h": ["c"]}, banned_subsets=["b"], metrics=[Em()]
    )
    assert shown(resolve(banned)) == ["a", "c"]


def test_a_local_copy_says_which_subsets_there_are(tmp_path):
    write(tmp_path / "virology/test.json", q=1)
    write(tmp_path / "anatomy/test.json", q=1)
    write(tmp_path / "all/test.json", q=1)
    assert shown(resolve("mmlu"), dataset_path=str(tmp_path)) == ["anatomy", "virology"]
    pattern = f"{tmp_path}/{{subset}}/{{split}}.json"
    assert shown(resolve("mmlu"), dataset_path=pattern) == ["anatomy", "virology"]


def test_one_file_runs_once_however_many_subsets_the_class_lists(tmp_path):
    write(tmp_path / "test.json", q=1)
    assert shown(resolve("mmlu"), dataset_path=str(tmp_path / "test.json")) == [None]
    assert shown(resolve("mmlu"), dataset_path=str(tmp_path)) == [None]


def test_files_side_by_side_are_the_listed_subsets(tmp_path):
    write(tmp_path / "virology_test.json", q=1)
    assert len(shown(resolve("mmlu"), dataset_path=str(tmp_path))) == 57


def test_the_evaluation_set_of_the_user_decides_which_folders_count(tmp_path):
    write(tmp_path / "high/validation.json", q=1)
    assert shown(resolve("race"), dataset_path=str(tmp_path), evaluation_set="validation[:1]") == ["high"]


def test_the_hub_is_asked_only_if_the_class_lists_no_subsets(monkeypatch):
    datasets = pytest.importorskip("datasets")
    asked = []
    monkeypatch.setattr(
        datasets, "get_dataset_config_names", lambda name: asked.append(name) or ["middle", "all", "high"]
    )
    assert len(shown(resolve("mmlu"))) == 57
    assert asked == []
    assert shown(resolve("race")) == ["high", "middle"]
    assert asked == ["ehovy/race"]


def test_the_subsets_on_the_hub_are_planned_by_name_before_they_are_loaded():
    pytest.importorskip("datasets")
    names = [f"mmlu:{subset}" for subset in shown(resolve("mmlu"))]
    first = PlannedTask(names[0], total=100, group="mmlu")
    assert resolve("mmlu").planned(DatasetSettings(), [first]) == [
        first,
        *(PlannedTask(name, group="mmlu") for name in names[1:]),
    ]
    assert resolve("mmlu:anatomy").planned(DatasetSettings(), [first]) == [first]


def test_one_class_twice_with_different_subsets(tmp_path):
    for subset in ("high", "middle"):
        row = {"article": subset, "question": "?", "options": ["x", "y"], "answer": "A"}
        write(tmp_path / subset / "test.json", **row)
    previews = kshot.preview(["race:high", "race:middle"], dataset_path=tmp_path)
    assert [(each.task, each.requests[0].prompt.text.splitlines()[0]) for each in previews] == [
        ("race:high", "Article: high"),
        ("race:middle", "Article: middle"),
    ]


@pytest.mark.parametrize(
    ("cls", "name"),
    [("MyDataset", "my_dataset"), ("CNNNews", "cnn_news"), ("Gsm8k", "gsm8k"), ("A", "a"), ("MMLU", "mmlu")],
)
def test_names_of_classes(cls, name):
    assert name_of(type(cls, (GenerationDataset,), {})) == name
    assert name_of(type(cls, (GenerationDataset,), {"name": "other"})) == "other"
