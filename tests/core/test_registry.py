"""Specs that name a class in a file."""

from pathlib import Path

import pytest

from kshot.core.errors import DataError
from kshot.core.registry import class_in, split_plugin


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("a.py", ("a.py", "")),
        ("a.py:Name", ("a.py", "Name")),
        ("a.py:Name:sub1,sub2", ("a.py", "Name:sub1,sub2")),
        ("/x/my.python/foo.py:Cls", ("/x/my.python/foo.py", "Cls")),
        ("dir.py/foo.py:Cls", ("dir.py/foo.py", "Cls")),
        ("hf:model.python", None),
        ("mmlu:[stem]", None),
    ],
)
def test_specs(spec, expected):
    found = split_plugin(spec)
    assert found == (None if expected is None else (Path(expected[0]), expected[1]))


def test_a_file_may_import_its_neighbours_and_the_only_class_needs_no_name(tmp_path):
    (tmp_path / "neighbour_of_plugin.py").write_text("VALUE = 3\n")
    (tmp_path / "one.py").write_text("from neighbour_of_plugin import VALUE\nclass Only:\n    value = VALUE\n")
    assert class_in(tmp_path / "one.py", "", None).value == 3
    with pytest.raises(DataError, match="there is no such class: Other"):
        class_in(tmp_path / "one.py", "Other", None)
