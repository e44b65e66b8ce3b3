"""Plug-ins in files of the user: loaded once, never shadowing anything, errors with their line."""

import pickle
import subprocess
import sys

import pytest

from kshot.core.errors import DataError
from kshot.core.registry import load_plugin_file, module_name


def test_a_neighbour_never_shadows_an_installed_module(tmp_path):
    (tmp_path / "colorsys.py").write_text("raise RuntimeError('shadowed')\n")
    (tmp_path / "one.py").write_text("import colorsys\nclass Only:\n    value = colorsys.rgb_to_hsv(0, 0, 0)\n")
    code = f"from kshot.core.registry import *; print(load_plugin_file(Path({str(tmp_path / 'one.py')!r})).Only.value)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(0.0, 0.0, 0)"


def test_a_file_is_loaded_once_and_anew_when_it_was_edited(tmp_path):
    file = tmp_path / "counted.py"
    file.write_text("class Thing:\n    size = 1\n")
    first = load_plugin_file(file)
    assert load_plugin_file(tmp_path / "." / "counted.py") is first
    file.write_text("class Thing:\n    size = 2\n")
    assert load_plugin_file(file).Thing.size == 2


def test_objects_of_a_file_can_be_unpickled_in_another_process(tmp_path):
    file = tmp_path / "shipped.py"
    file.write_text("class Thing:\n    def __init__(self, size):\n        self.size = size\n")
    packed = pickle.dumps(load_plugin_file(file).Thing(7))
    code = (
        "import pickle, sys; from pathlib import Path; from kshot.core.registry import load_plugin_file\n"
        f"load_plugin_file(Path({str(file)!r})); print(pickle.loads({packed!r}).size)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "7"
    assert module_name(file).startswith("kshot_plugin_shipped_")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class Thing(:\n", r"broken.py:1: this is not Python"),
        ("x = 1\ny = x / 0\n", r"broken.py:2: the file cannot be imported: ZeroDivisionError"),
        ("import sys\nsys.exit(3)\n", r"broken.py:2: the file cannot be imported: SystemExit: 3"),
    ],
)
def test_files_that_fail_are_named_with_their_line(tmp_path, text, message):
    file = tmp_path / "broken.py"
    file.write_text(text)
    for _ in range(2):  # a failed file is not taken for a loaded one
        with pytest.raises(DataError, match=message):
            load_plugin_file(file)
    with pytest.raises(DataError, match="there is no such file"):
        load_plugin_file(tmp_path / "absent.py")
