"""The runs of a viewer: their keys, and how little is read when somebody looks again."""

import shutil
from pathlib import Path

import pytest

from kshot.core.errors import RunError
from kshot.runs import listing
from kshot.viewer.catalog import Catalog, RunKeys
from tests.run_folders import figure, make_run, session
from tests.viewer.asking import Clock


def keys_of(catalog):
    return {str(run.folder): run.key for run in catalog.runs()}


def test_a_key_is_the_path_below_the_folder(tmp_path):
    for name in ("first", "deep/er/second", "v1.2_x-y"):
        make_run(tmp_path / name, results=[figure()])
    found = keys_of(Catalog([tmp_path]))
    assert found == {str(tmp_path / name): name.replace("/", "--") for name in ("first", "deep/er/second", "v1.2_x-y")}


def test_a_run_folder_has_its_own_name(tmp_path, monkeypatch):
    make_run(tmp_path / "first", results=[figure()])
    assert list(keys_of(Catalog([tmp_path / "first"])).values()) == ["first"]
    monkeypatch.chdir(tmp_path / "first")
    assert keys_of(Catalog([Path()])) == {".": "first"}


@pytest.mark.parametrize("name", ["模型", "a b", "-x", "a--b", "x" * 200, "100%", "<script>", "a\nb"])
def test_a_key_that_lost_characters_has_a_digest(tmp_path, name):
    make_run(tmp_path / name, results=[figure()])
    ((_, key),) = keys_of(Catalog([tmp_path])).items()
    assert set(key) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert key[0].isalnum()
    assert len(key) < 100
    assert key != name
    assert key == keys_of(Catalog([tmp_path])).popitem()[1]  # the same at the next start


def test_keys_differ_also_where_a_file_system_sees_no_difference(tmp_path):
    keys = RunKeys()
    places = [("a", "run"), ("b", "run"), ("b", "RUN"), ("b", "x/run"), ("b", "x--run"), ("b", "x run"), ("b", "x-run")]
    found = [keys.of(tmp_path / top / name, tmp_path / top) for top, name in places]
    assert len({key.casefold() for key in found}) == len(places)
    assert [keys.of(tmp_path / top / name, tmp_path / top) for top, name in places] == found
    assert found[0] == "run"


def test_a_run_below_two_folders_is_listed_once(tmp_path):
    make_run(tmp_path / "x" / "first", results=[figure()])
    assert len(Catalog([tmp_path, tmp_path / "x", tmp_path / "x" / "first"]).runs()) == 1


def test_an_unknown_key_is_an_error_on_one_line(tmp_path):
    with pytest.raises(RunError, match="there is no run") as caught:
        Catalog([tmp_path]).run("a\n" * 500)
    assert len(str(caught.value)) < 300


def test_a_thousand_runs_are_read_once(tmp_path, monkeypatch):
    first = make_run(tmp_path / "0", results=[figure()])
    for number in range(1, 1000):
        shutil.copytree(first, tmp_path / str(number))
    described = []
    plain = listing.describe
    monkeypatch.setattr(listing, "describe", lambda folder, now: described.append(folder.name) or plain(folder, now))
    clock = Clock()
    catalog = Catalog([tmp_path], clock)
    lines = [run.line for run in catalog.runs()]
    assert len(lines) == len(described) == 1000
    described.clear()
    assert all(one is two.line for one, two in zip(lines, catalog.runs(), strict=True))
    make_run(tmp_path / "new", results=[figure()])
    assert len(catalog.runs()) == 1000  # within a second nobody looks again
    clock.now += 1000.0
    assert len(catalog.runs()) == 1001
    assert described == ["new"]
    (tmp_path / "7" / "summary.json").write_text("{")
    clock.now += 1000.0
    assert catalog.run("7").line["state"] == "damaged"
    assert described == ["new", "7"]


def test_a_folder_that_is_made_later_is_seen(tmp_path):
    clock = Clock()
    catalog = Catalog([tmp_path / "runs"], clock)
    assert catalog.runs() == []
    make_run(tmp_path / "runs" / "first", results=[figure()])
    clock.now += 10.0
    assert [run.key for run in catalog.runs()] == ["first"]
    shutil.rmtree(tmp_path / "runs")
    clock.now += 10.0
    assert catalog.runs() == []


def test_samples_that_are_written_when_a_run_ends_are_seen(tmp_path):
    run = make_run(tmp_path / "first", sessions=[session("stopped")])
    (run / "samples.jsonl").rename(run / "kept")
    clock = Clock()
    catalog = Catalog([tmp_path], clock)
    assert catalog.run("first").line["samples"] is False
    (run / "kept").rename(run / "samples.jsonl")
    clock.now += 10.0
    assert catalog.run("first").line["samples"] is True
