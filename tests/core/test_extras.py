"""Packages of extras: the table is that of pyproject.toml, and one error names all that are missing."""

import re
import sys
from pathlib import Path

import pytest

from kshot.core.errors import BackendError, MissingExtra
from kshot.core.extras import INCLUDED, PACKAGES, import_package, missing_package, require, require_all
from tests.lacking import lack

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def extras():
    """Return the requirements of each extra, by the names that pip knows."""
    tomllib = pytest.importorskip("tomllib", reason="Python 3.11 reads TOML")
    found = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    tools = {"test", "dev"}
    return {extra: [re.split("[<>=]", each)[0] for each in found[extra]] for extra in found if extra not in tools}


def test_every_package_is_in_its_extra():
    listed = extras()
    for name, package in PACKAGES.items():
        assert name in listed[package.extra], f"{package.extra} does not install {name}"
    known = {name for names in listed.values() for name in names if "kshot" not in name}
    assert known == set(PACKAGES), "an extra installs a package that no error can name"


def test_extras_include_what_the_project_says():
    listed = extras()

    def inside(extra):
        named = [re.fullmatch(r"kshot\[(.*)\]", each) for each in listed[extra]]
        direct = [other for match in named if match for other in match[1].split(",")]
        return {*direct, *(deeper for other in direct for deeper in inside(other))}

    assert {extra: inside(extra) for extra in listed if inside(extra)} == INCLUDED


def test_nothing_is_said_of_what_is_there():
    require("nothing")
    require_all({"one": (), "two": ()})


def test_one_package(monkeypatch):
    lack(monkeypatch, "tantivy")
    with pytest.raises(MissingExtra) as caught:
        require("bm25:disk", "tantivy")
    assert str(caught.value) == "bm25:disk needs the package 'tantivy'. Install it: pip install 'kshot[search]'"


def test_several_packages_and_purposes_are_one_error_with_one_command(monkeypatch):
    lack(monkeypatch, "PyStemmer", "torch", "sentence-transformers", "aiohttp")
    with pytest.raises(MissingExtra) as caught:
        require_all(
            {
                "hybrid": ("PyStemmer", "torch", "sentence-transformers", "torch"),
                "fts5": (),
                "openai:judge": ("aiohttp",),
            }
        )
    assert str(caught.value) == (
        "hybrid needs the packages 'PyStemmer', 'torch' and 'sentence-transformers'; openai:judge needs the package "
        "'aiohttp'. Install them: pip install 'kshot[api,search,dense]'"
    )


def test_an_extra_that_another_one_includes_is_left_out(monkeypatch):
    lack(monkeypatch, "torch", "pylate", "sentence-transformers")
    with pytest.raises(MissingExtra, match=r"pip install 'kshot\[late\]'"):
        require("late", "torch", "sentence-transformers", "pylate")


def test_a_part_of_a_namespace_is_looked_for_without_importing_it(monkeypatch):
    lack(monkeypatch, "llama-index-core")
    with pytest.raises(MissingExtra, match="llama-index-core"):
        require("the chunker sentence", "llama-index-core")
    monkeypatch.delitem(sys.modules, "llama_index.core")
    monkeypatch.setitem(sys.modules, "llama_index", None)  # not even the package around it
    with pytest.raises(MissingExtra, match="llama-index-core"):
        require("the chunker sentence", "llama-index-core")


def test_a_package_that_is_broken(tmp_path, monkeypatch):
    (tmp_path / "jieba.py").write_text("import no_such_thing_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "jieba", raising=False)
    with pytest.raises(
        BackendError, match=r"needs jieba, which cannot be imported \(No module.*--force-reinstall jieba"
    ):
        import_package("Chinese words", "jieba")


def test_an_import_error_that_an_extra_mends():
    found = missing_package(ModuleNotFoundError("no", name="Stemmer"), "stem=english")
    assert str(found) == "stem=english needs the package 'PyStemmer'. Install it: pip install 'kshot[search]'"
    assert missing_package(ModuleNotFoundError("no", name="else"), "x") is None
    assert missing_package(ValueError("no"), "x") is None
