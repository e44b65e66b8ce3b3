"""The wheel as a user gets it: it holds the model, and works where there is no torch."""

import importlib.util
import json
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
INSIDE = (
    "backends/embedded/CARD.md",
    "backends/embedded/config.json",
    "backends/embedded/model.onnx",
    "backends/embedded/model.safetensors",
    "backends/embedded/tokenizer.json",
    "backends/embedded/tokenizer_config.json",
    "lookup/templates.json",
    "passages/handbook/CARD.md",
    "passages/handbook/questions.json",
    "passages/handbook/documents/readme.md",
    "py.typed",
)
UNREACHABLE = (
    "No matching distribution",
    "Could not find a version",
    "ConnectionError",
    "Temporary failure",
    "timed out",
)


def call(*command, cwd, timeout=600):
    return subprocess.run(
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed: pip install -e '.[dev]'")
    if not (REPO / "pyproject.toml").is_file():
        pytest.skip("this is not a checkout")
    out = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", REPO, "--no-deps", "--no-build-isolation", "-w", out]
    done = call(*pip, cwd=out)
    assert done.returncode == 0, done.stderr
    (made,) = out.glob("kshot-*.whl")
    return made


def test_it_holds_the_model_and_the_texts(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        for name in INSIDE:
            assert f"kshot/{name}" in names
            assert archive.read(f"kshot/{name}") == (REPO / "src" / "kshot" / name).read_bytes()
    # an ignore pattern of git (runs/, dist/) must not leave a package out
    modules = {str(Path("kshot") / path.relative_to(REPO / "src" / "kshot")) for path in (REPO / "src").rglob("*.py")}
    assert modules <= names
    assert not [name for name in names if not name.startswith(("kshot/", "kshot-"))]
    assert not [name for name in names if "__pycache__" in name]
    assert wheel.stat().st_size < 6_000_000


def test_it_runs_in_an_empty_environment_without_torch(wheel, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    folder = tmp_path / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
    installed = call(folder / "python", "-m", "pip", "install", "-q", wheel, cwd=tmp_path)
    if installed.returncode and any(sign in installed.stderr for sign in UNREACHABLE):
        pytest.skip(f"the package index cannot be reached: {installed.stderr.strip().splitlines()[-1]}")
    assert installed.returncode == 0, installed.stderr
    look = "import importlib.util as u; print([n for n in ('torch', 'transformers', 'onnx') if u.find_spec(n)])"
    assert call(folder / "python", "-c", look, cwd=tmp_path).stdout.strip() == "[]"
    where = call(folder / "python", "-c", "import kshot; print(kshot.__file__)", cwd=tmp_path).stdout
    assert where.startswith(str(tmp_path))
    asked = ["run", "-d", "lookup:UR", "--length", "10", "--samples", "5", "--out", "run", "--json"]
    done = call(folder / "kshot", *asked, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = [row for row in json.loads(done.stdout)["results"] if row["metric"] == "Accuracy"]
    assert (row["model"], row["value"], row["n"], row["failed"]) == ("embedded", 100, 5, 0)
    assert (tmp_path / "run" / "summary.json").is_file()
