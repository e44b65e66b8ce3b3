"""Rows from folders, patterns and saved datasets; which subsets there are; and the errors when rows are missing."""

import pytest

from kshot.core.errors import DataError
from kshot.datasets import get_raw_dataset_loader
from kshot.tables.loading import discover_subsets
from tests.tables.rows import ROWS, load, marked, saved, write

# ---- folders ----


@pytest.mark.parametrize(
    ("file", "subset"),
    [
        ("test.jsonl", None),
        ("test.json", "easy"),  # a folder that holds just the subset
        ("mine/test.csv", None),
        ("easy/test.parquet", "easy"),
        ("mine/easy/test.tsv", "easy"),
        ("easy_test.jsonl", "easy"),
        ("easy-test.jsonl", "easy"),
        ("test_easy.jsonl", "easy"),
        ("data/test-00000-of-00001.parquet", None),
        ("easy/test-00000-of-00001.parquet", "easy"),
        ("easy/data/test-00000-of-00001-a1b2c3.parquet", "easy"),
        ("easy/test/0000.parquet", "easy"),
    ],
)
def test_folder_layouts(tmp_path, file, subset):
    rows = [{"q": "x", "a": "1"}]
    write(tmp_path / file, rows)
    write(tmp_path / file.replace("test", "train"), marked("another split"))
    write(tmp_path / "hard" / "test.jsonl", marked("another subset"))
    assert load(tmp_path, subset=subset) == rows


def test_shards_come_in_order_and_lookalikes_do_not(tmp_path):
    for number in (1, 0, 2):
        write(tmp_path / f"data/test-0000{number}-of-00003.parquet", marked(number))
    write(tmp_path / "data/test-hard.parquet", marked("another set"))
    assert [row["from"] for row in load(tmp_path)] == [0, 1, 2]


def test_a_two_part_load_args_names_the_subset_of_a_local_copy(tmp_path):
    write(tmp_path / "copa/test.jsonl", marked("copa"))
    write(tmp_path / "boolq/test.jsonl", marked("boolq"))
    assert load(tmp_path, load_args=("super_glue", "boolq")) == marked("boolq")
    assert load(None, load_args=(str(tmp_path), "copa")) == marked("copa")
    assert load(None, load_args=(str(tmp_path),), subset="copa") == marked("copa")


def test_load_args_may_be_a_path_or_a_pattern(tmp_path, monkeypatch):
    write(tmp_path / "data/test.jsonl", marked("here"))
    monkeypatch.chdir(tmp_path)
    assert load(None, load_args=("data",)) == marked("here")
    assert load(None, load_args=("data/{split}.jsonl",)) == marked("here")
    with pytest.raises(DataError, match=r"^gone\.jsonl: there is no such file"):
        load(None, load_args=("./gone.jsonl",))


def test_a_folder_without_the_split_says_what_is_there(tmp_path):
    write(tmp_path / "train.jsonl")
    with pytest.raises(
        DataError, match=r"no file for split 'test' of subset 'easy' \(the folder has: train\.jsonl\).*pattern"
    ):
        load(tmp_path, subset="easy")


# ---- patterns ----


def test_patterns(tmp_path):
    for subset in ("x", "y"):
        for split in ("dev", "test"):
            write(tmp_path / split / f"{subset}_{split}.csv", marked(f"{subset} {split}"))
    pattern = f"{tmp_path}/{{split}}/{{subset}}_{{split}}.csv"
    assert load(pattern, "dev", "y") == marked("y dev")
    assert load(pattern, "test[:1]", "x") == marked("x test")
    assert load(f"{tmp_path}/{{split}}", "test", "y") == marked("y test")
    with pytest.raises(DataError, match=r"z_test\.csv: there is no such file"):
        load(pattern, subset="z")


def test_a_pattern_without_split_holds_one(tmp_path):
    write(tmp_path / "x.jsonl")
    loader = get_raw_dataset_loader("mine", f"{tmp_path}/{{subset}}.jsonl", "x")
    assert loader("test") == ROWS
    with pytest.raises(DataError, match="cannot be both"):
        loader("train")


# ---- saved datasets ----


def test_saved_datasets(tmp_path):
    saved(tmp_path / "a", test=ROWS, dev=ROWS[:1])
    assert load(tmp_path / "a") == ROWS
    assert load(tmp_path / "a", "dev+test[1:]") == [ROWS[0], *ROWS[1:]]
    assert load(tmp_path, name="a") == ROWS
    assert load(tmp_path, subset="a") == ROWS
    with pytest.raises(DataError, match="no split 'train', only test, dev"):
        load(tmp_path / "a", "train")


def test_saved_datasets_stay_on_disk(tmp_path):
    datasets = pytest.importorskip("datasets")
    saved(tmp_path / "a", test=ROWS)
    rows = get_raw_dataset_loader("mine", tmp_path / "a")("test[1:]")
    assert isinstance(rows, datasets.Dataset)
    assert rows[0] == ROWS[1]


# ---- which subsets there are ----


def found(path, split="test", name="mine", load_args=None):
    return discover_subsets(str(path), name, load_args, split)


def test_subsets_are_the_folders_that_hold_the_split(tmp_path):
    write(tmp_path / "b/test.jsonl")
    write(tmp_path / "a/test-00000-of-00001.parquet")
    write(tmp_path / "only_train/train.jsonl")
    saved(tmp_path / "c", test=ROWS)
    assert found(tmp_path) == ["a", "b", "c"]
    assert found(tmp_path, "test[:5]") == ["a", "b", "c"]
    assert found(tmp_path, "train") == ["c", "only_train"]
    assert found(tmp_path.parent, name=tmp_path.name) == ["a", "b", "c"]
    assert discover_subsets(None, "mine", (str(tmp_path),), "test") == ["a", "b", "c"]


def test_rows_without_subsets_and_paths_that_do_not_say(tmp_path):
    file = write(tmp_path / "plain/test.jsonl")
    saved(tmp_path / "saved", test=ROWS)
    assert found(tmp_path / "plain") == []
    assert found(file) == []
    assert found(tmp_path / "saved") == []
    assert found(f"{tmp_path}/plain/{{split}}.jsonl") == []
    (tmp_path / "empty").mkdir()
    assert found(tmp_path / "empty") is None
    assert found(tmp_path / "gone") is None
    assert discover_subsets(None, "mine", ("a", "b"), "test") is None
    assert discover_subsets(None, "mine", (), "test") is None


def test_subsets_of_a_pattern(tmp_path, monkeypatch):
    for subset in ("x", "y"):
        write(tmp_path / f"data/{subset}/{subset}_test.jsonl")
        write(tmp_path / f"data/flat-{subset}-test.jsonl")
    write(tmp_path / "data/x/other.jsonl")
    assert found(f"{tmp_path}/data/{{subset}}/{{subset}}_{{split}}.jsonl") == ["x", "y"]
    assert found(f"{tmp_path}/data/flat-{{subset}}-{{split}}.jsonl") == ["x", "y"]
    assert found(f"{tmp_path}/data/{{subset}}/other.jsonl") == ["x"]
    assert found(f"{tmp_path}/data/{{subset}}/none.jsonl") is None
    assert found(f"{tmp_path}/gone/{{subset}}/none.jsonl") is None
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert found("./data/{subset}/{subset}_test.jsonl") == ["x", "y"]
    assert found("~/data//{subset}/{subset}_test.jsonl") == ["x", "y"]
    monkeypatch.chdir(tmp_path / "data")
    assert found("{subset}/{subset}_test.jsonl") == ["x", "y"]


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/etc", "..\\evil", "C:\\evil", "x\0"])
@pytest.mark.parametrize("pattern", ["in", "in/{subset}", "in/{subset}/{split}.jsonl"])
def test_no_name_leaves_the_folder(tmp_path, name, pattern):
    (tmp_path / "in").mkdir()
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / "test.jsonl").write_text('{"a": "secret"}\n')
    path = str(tmp_path / pattern)
    with pytest.raises(DataError, match=r"the subset .* would leave this folder"):
        get_raw_dataset_loader("quiz", path, name)("test")
    with pytest.raises(DataError, match=r"the split .* would leave this folder"):
        get_raw_dataset_loader("quiz", path, "s")(name)
    with pytest.raises(DataError, match=r"the dataset .* would leave this folder"):
        get_raw_dataset_loader(name, path, "s")("test")
