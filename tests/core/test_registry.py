"""What specs name: built in, in a file, in an installed package."""

import pytest

from kshot.core.errors import DataError, UsageError
from kshot.core.registry import Entry, Registry
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
    with pytest.raises(UsageError, match=r"the package broken-package 1.0 says that 'gone' is no_such_module:Thing"):
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
