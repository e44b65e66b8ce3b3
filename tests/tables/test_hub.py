"""Rows and subsets from the hub, and the error where nothing says where rows come from."""

import pytest

from kshot.core.errors import DataError
from kshot.tables.hub import load_saved_copy
from kshot.tables.loading import discover_subsets
from tests.tables.rows import ROWS, load


def test_a_hub_name_without_network_is_a_data_error():
    with pytest.raises(
        DataError, match=r"dataset mine: 'nobody/nothing' cannot be loaded from the hub.*--dataset-path"
    ):
        load(None, load_args=("nobody/nothing",))
    with pytest.raises(DataError, match="dataset mine: 'nobody/nothing' cannot be loaded from the hub"):
        discover_subsets(None, "mine", ("nobody/nothing",), "test")  # at once: the loader would wait as long again


def test_what_is_asked_of_the_hub(monkeypatch):
    datasets = pytest.importorskip("datasets")
    asked = []
    monkeypatch.setattr(datasets, "load_dataset", lambda *args, **more: asked.append((args, more)) or ROWS)
    load(None, "test[:5]", load_args=("race",))
    load(None, "test", load_args=("super_glue", "copa"))
    load(None, "test", "ARC-Easy", load_args=("allenai/ai2_arc",))
    assert asked == [
        (("race", None), {"split": "test[:5]"}),
        (("super_glue", "copa"), {"split": "test"}),
        (("allenai/ai2_arc", "ARC-Easy"), {"split": "test"}),
    ]


@pytest.mark.parametrize(("names", "subsets"), [(["default"], []), (["one"], []), (["b", "a"], ["a", "b"])])
def test_subsets_of_the_hub(monkeypatch, names, subsets):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets, "get_dataset_config_names", lambda _: names)
    assert discover_subsets(None, "mine", ("some/name",), "test") == subsets


def test_nothing_says_where_the_rows_are():
    for load_args in (None, ()):
        with pytest.raises(DataError, match="nothing says where its rows come from"):
            load(None, load_args=load_args)


@pytest.mark.needs("datasets")
@pytest.mark.parametrize("name", ["state.json", "dataset_dict.json"])
@pytest.mark.parametrize("text", ["", "[", "[]", '{"splits": ["../../x"]}', '{"_data_files": [{"filename": "../x"}]}'])
def test_a_damaged_saved_copy_is_one_message(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match="this saved dataset cannot be loaded"):
        load_saved_copy(tmp_path)
