"""What the tests of installed kshot share: its wheel, built once."""

import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The wheel of this checkout."""
    pytest.importorskip("hatchling", reason="hatchling is not installed: kshot[test]")
    if not (REPO / "pyproject.toml").is_file():
        pytest.skip("this is not a checkout")
    out = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "-q", REPO, "--no-deps", "--no-build-isolation", "-w", out]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = out.glob("kshot-*.whl")
    return made
