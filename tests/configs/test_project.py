"""Where a config reads files: which folder is its root, and what is given from it."""

import pytest

from kshot.cli import main
from kshot.configs import load
from kshot.configs.project import NotAllowed, Project
from kshot.core.errors import DataError
from tests.configs.written import tree, write


def made(path, text="x = 1\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_root_is_the_files_own_folder(tmp_path):
    assert Project(made(tmp_path / "a" / "c.py")).root == tmp_path / "a"


def test_the_root_is_the_topmost_tree_of_configs(tmp_path):
    assert Project(made(tmp_path / "opencompass" / "x" / "configs" / "y" / "c.py")).root == tmp_path / "opencompass"


def test_the_home_folder_is_no_root_by_its_name(tmp_path, monkeypatch):
    home = tmp_path / "configs" / "opencompass"
    monkeypatch.setenv("HOME", str(home))
    assert Project(made(home / "work" / "c.py")).root == home / "work"


def test_a_named_root(tmp_path):
    file = made(tmp_path / "a" / "b" / "c.py")
    assert Project(file, tmp_path / "a").roots == [tmp_path / "a"]
    (tmp_path / "other").mkdir()
    assert Project(file, tmp_path / "other").roots == [tmp_path / "a" / "b", tmp_path / "other"]


def test_an_import_that_climbs_needs_the_root_to_be_named(tmp_path):
    made(tmp_path / "base.py", "x = 3\n")
    file = made(tmp_path / "sub" / "c.py", "from ..base import x\n")
    with pytest.raises(DataError, match=r"base.py, which lies outside the project root .*sub.*--home"):
        load(file)
    assert load(file, config_root=tmp_path).variables["x"] == 3


def test_a_package_above_counts_once_it_is_imported(tmp_path):
    configs = tree(tmp_path)
    made(configs / "hint.txt", "think")
    file = made(tmp_path / "mine" / "c.py", "x = 1\n")
    project = Project(file)
    with pytest.raises(NotAllowed):
        project.read(str(configs / "hint.txt"))
    assert project.find([str(configs / "datasets" / "gsm8k" / "gsm8k_gen.py")])
    assert project.read(str(configs / "hint.txt")) == b"think"
    assert project.roots == [tmp_path / "mine", tmp_path / "opencompass"]


def test_a_package_that_is_a_link_is_none(tmp_path):
    made(tmp_path / "secret" / "hidden.py")
    file = made(tmp_path / "project" / "c.py")
    (tmp_path / "project" / "opencompass").symlink_to(tmp_path / "secret")
    with pytest.raises(NotAllowed):
        Project(file).find([str(tmp_path / "project" / "opencompass" / "hidden.py")])


def test_a_link_inside_the_root_is_followed(tmp_path):
    made(tmp_path / "real.py", "x = 5\n")
    (tmp_path / "alias.py").symlink_to("real.py")
    assert load(write(tmp_path, "from .alias import x\n")).variables["x"] == 5


def test_the_root_is_printed(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text('{"q": "a", "a": "b"}\n')
    text = (
        "x_datasets = [dict(abbr='x', path='rows.jsonl', reader_cfg=dict(input_columns=['q'], output_column='a'), "
        "infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='{q}'), "
        "retriever=dict(type='ZeroRetriever'), inferencer=dict(type='GenInferencer')))]"
    )
    write(tmp_path, text)
    assert main(["preview", "config.py"]) == 0
    assert f"config root: {tmp_path}" in capsys.readouterr().err
    write(tmp_path, text.replace("rows.jsonl", "../rows.jsonl"))
    (tmp_path.parent / "rows.jsonl").write_text('{"q": "a", "a": "b"}\n')
    assert main(["preview", "config.py"]) == 2
    assert "--data x=../rows.jsonl" in capsys.readouterr().err
