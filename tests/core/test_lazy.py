"""Packages whose names are imported when they are first used."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

from kshot.core.lazy import lazy_names

PACKAGES = [
    "kshot.backends", "kshot.configs", "kshot.datasets", "kshot.lookup", "kshot.metrics", "kshot.prompts", "kshot.retrievers",
]  # fmt: skip


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_of_a_package_is_found(package):
    found = importlib.import_module(package)
    assert all(getattr(found, name) is not None for name in found.__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_name_is_that_of_a_module(package):
    """Importing the module would hide what the package means by the name."""
    found = importlib.import_module(package)
    assert not set(found.__all__) & {module.name for module in pkgutil.iter_modules(found.__path__)}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_none_of_its_modules(package):
    code = f"import sys, {package}; print([name for name in sys.modules if name.startswith('{package}.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_name_comes_from_the_module_that_the_stub_names(tmp_path):
    (tmp_path / "__init__.pyi").write_text(
        "from math import pi as pi\nfrom string import (\n    digits as digits,\n)\n"
    )
    find, listed, names = lazy_names("kshot.metrics", str(tmp_path / "__init__.py"))
    assert names == ["digits", "pi"]
    assert {"pi", "digits", "__name__"} <= set(listed())  # for completion
    assert find("digits") == "0123456789"
    with pytest.raises(AttributeError, match=r"module 'kshot\.metrics' has no attribute 'tau'"):
        find("tau")
