"""What specs name: built in, in a file, in an installed package."""

import pytest

from kshot.core.errors import DataError, UsageError
from kshot.core.registry import Entry, Registry, described
from kshot.core.specs import parse_spec


def things(*entries, **more):
    return Registry("things", "thing", [Entry("child", "builtins:dict", "built in"), *entries], **more)


def test_a_second_registration_names_both():
    with pytest.raises(
        UsageError, match=r"two things are called 'child': builtins:dict \(kshot\) and other:Thing \(me 2\)"
    ):
        things(Entry("child", "other:Thing", origin="me 2"))
    registry = things()
    with pytest.raises(UsageError, match="two things are called 'child'"):
        registry.add(Entry("child", "other:Thing"))


def test_unknown_names_suggest_the_closest():
    with pytest.raises(UsageError, match=r"there is no thing 'chidl'. Did you mean 'child'\? See kshot list things"):
        things().get("chidl")
    assert things(any_case=True).get("CHILD").name == "child"


def test_a_package_that_cannot_be_imported_is_named():
    registry = things(Entry("gone", "no_such_module:Thing", origin="broken-package 1.0"))
    with pytest.raises(UsageError, match=r"broken-package 1.0 says that 'gone' is no_such_module:Thing"):
        registry.get("gone").load()


def test_a_file_may_import_its_neighbours_and_the_only_class_needs_no_name(tmp_path):
    (tmp_path / "neighbour_of_plugin.py").write_text("VALUE = 3\n")
    file = tmp_path / "one.py"
    file.write_text("from neighbour_of_plugin import VALUE\ndef helper(): ...\nclass Only:\n    value = VALUE\n")
    assert things().load(parse_spec(f"{file}"))[0].value == 3
    assert things().load(parse_spec(f"{file}:helper"))[0].__name__ == "helper"
    with pytest.raises(DataError, match=r"there is no thing 'Other' in this file. It has: helper, Only"):
        things().load(parse_spec(f"{file}:Other"))
    file.write_text("class A: ...\nclass B: ...\n")
    with pytest.raises(DataError, match=r"this file has 2 things that could be a thing. Write .*one.py:NAME"):
        things().load(parse_spec(f"{file}"))


def test_parts_of_a_spec_that_are_not_used_are_errors(tmp_path):
    file = tmp_path / "parts.py"
    file.write_text(
        "class Plain:\n    def __init__(self, *, size: int = 1): self.size = size\n"
        "class Sized:\n    def __init__(self, path, *, size: int = 1): self.path, self.size = path, size\n"
        "def function(text, times: int = 1): return text * times\n"
    )
    assert things().make(f"{file}:Plain,size=3").size == 3
    assert things().make(f"{file}:Sized:a:b,size=3").path == "a:b"
    assert things().make(f"{file}:function,times=2")("x") == "xx"
    for spec in ("Plain:more", "function:more"):
        with pytest.raises(UsageError, match="nothing can follow its name: 'more'"):
            things().make(f"{file}:{spec}")
    with pytest.raises(UsageError, match=r"there is no option 'size'\. It knows: times"):
        things().make(f"{file}:function,size=2")
    with pytest.raises(UsageError, match="it takes no options: it is an object"):
        things(Entry("object", "os:environ")).make("object,size=2")


def test_names_that_differ_by_case_alone_are_one_name_where_case_does_not_count():
    registry = things(Entry("CHILD", "other:Thing", origin="me 2"), any_case=True)
    with pytest.raises(UsageError, match="two things are called"):
        registry.find("child")


def test_a_package_that_fails_is_listed_with_the_reason(tmp_path, monkeypatch):
    (tmp_path / "broken_plugin_module.py").write_text("raise ValueError('not today')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    shown = described(Entry("broken", "broken_plugin_module:Thing", origin="broken-package 1.0"))
    assert "broken-package 1.0" in shown.text
    assert "ValueError: not today" in shown.text
