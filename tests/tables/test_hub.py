"""Rows and subsets from the hub, and the error where nothing says where rows come from."""

import json
import os
import pickle
import shutil

import pytest

from kshot.core.errors import DataError
from kshot.tables import hub
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


def test_a_hub_that_cannot_be_reached_is_asked_once(monkeypatch):
    """The library would wait and try again for a minute; it looks into its cache alone."""
    datasets = pytest.importorskip("datasets")
    offline = []

    def load_dataset(*_, **__):
        offline.append(datasets.config.HF_HUB_OFFLINE)
        raise ConnectionError("no")

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr(hub, "hub_is_unreachable", lambda: True)
    with pytest.raises(DataError, match="from the hub: it cannot be reached, and the cache has no such rows"):
        load(None, load_args=("nobody/nothing",))
    assert (offline, datasets.config.HF_HUB_OFFLINE) == ([True], False)
    monkeypatch.setattr(hub, "hub_is_unreachable", lambda: False)
    with pytest.raises(DataError, match="from the hub: no"):
        load(None, load_args=("nobody/nothing",))
    assert offline == [True, False]


def test_whatever_the_library_raises_is_a_data_error(monkeypatch):
    """Its own errors are Exceptions, a dataset's code may lack a package, and network libraries have others."""
    datasets = pytest.importorskip("datasets")

    class LibraryError(Exception):
        pass

    for error in (LibraryError("broken rows"), ModuleNotFoundError("No module named 'py7zr'")):
        monkeypatch.setattr(datasets, "load_dataset", failing(error))
        with pytest.raises(DataError, match=r"cannot be loaded from the hub: (broken|No module)"):
            load(None, load_args=("nobody/nothing",))


def failing(error):
    def fail(*_, **__):
        raise error

    return fail


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


@pytest.mark.needs("datasets")
@pytest.mark.parametrize("name", ["pandas", "text", "json", "arrow"])
def test_a_reader_of_the_library_is_no_dataset(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test.txt").write_text("secret")
    (tmp_path / "test.pkl").write_bytes(pickle.dumps([1]))
    with pytest.raises(DataError, match=f"'{name}' is a kind of file, not a dataset on the hub"):
        load(None, load_args=(name,))
    with pytest.raises(DataError, match=f"'{name}' is a kind of file, not a dataset on the hub"):
        discover_subsets(None, "mine", (name,), "test")


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


@pytest.mark.needs("datasets")
@pytest.mark.parametrize("key", ["_data_files", "_indices_data_files"])
@pytest.mark.parametrize("name", ["../secret/data-00000-of-00001.arrow", "{secret}", "sub/rows.arrow", "..", "pipe", 5])
def test_a_saved_copy_names_only_its_own_files(tmp_path, key, name):
    saved(tmp_path / "secret")
    saved(tmp_path / "rows")
    (tmp_path / "rows" / "sub").mkdir()
    shutil.copy(tmp_path / "secret" / ARROW, tmp_path / "rows" / "sub" / "rows.arrow")
    os.mkfifo(tmp_path / "rows" / "pipe")
    state = json.loads((tmp_path / "rows" / "state.json").read_text())
    state[key] = [
        {"filename": name if isinstance(name, int) else name.format(secret=tmp_path / "secret" / ARROW)},
    ]
    (tmp_path / "rows" / "state.json").write_text(json.dumps(state))
    with pytest.raises(DataError, match=r"no name of a file in its folder|it is a device or a pipe"):
        load_saved_copy(tmp_path / "rows")


@pytest.mark.needs("datasets")
@pytest.mark.parametrize("split", ["../secret", "a/../../secret", "..", "", "file::{secret}"])
def test_a_saved_copy_names_only_its_own_splits(tmp_path, split):
    saved(tmp_path / "secret")
    (tmp_path / "rows").mkdir()
    splits = {"splits": [split.format(secret=tmp_path / "secret")]}
    (tmp_path / "rows" / "dataset_dict.json").write_text(json.dumps(splits))
    with pytest.raises(DataError, match="which is no name of a file in its folder"):
        load_saved_copy(tmp_path / "rows")


@pytest.mark.needs("datasets")
def test_the_path_of_a_saved_copy_joins_no_file_systems(tmp_path):
    saved(tmp_path / "file::")
    with pytest.raises(DataError, match="'::' in its path joins file systems"):
        load_saved_copy(tmp_path / "file::")


@pytest.mark.needs("datasets")
@pytest.mark.parametrize("from_hub", [False, True])
def test_files_that_rows_name_are_not_opened(tmp_path, monkeypatch, from_hub):
    import datasets
    import pyarrow as pa

    os.mkfifo(tmp_path / "pipe")  # opening it would wait for ever
    media = {"bytes": None, "path": str(tmp_path / "pipe")}
    row = {"image": media, "inner": {"sounds": [media]}, "parts": [{"image": media}]}
    image, audio = datasets.Image(), datasets.Audio()
    features = datasets.Features({"image": image, "inner": {"sounds": [audio]}, "parts": [{"image": image}]})
    rows = datasets.Dataset(pa.Table.from_pylist([row], schema=features.arrow_schema))
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: rows)
    monkeypatch.setattr(datasets, "load_from_disk", lambda _: rows)
    saved(tmp_path / "rows")
    assert [*(load(None, load_args=("some/name",)) if from_hub else load_saved_copy(tmp_path / "rows"))] == [row]


ARROW = "data-00000-of-00001.arrow"


def saved(folder):
    import datasets

    datasets.Dataset.from_list(ROWS).save_to_disk(folder)
