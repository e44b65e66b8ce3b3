"""The wheel as a user gets it: it holds the model, the texts, and the scripts of pages."""

import zipfile
from pathlib import Path

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
    "report/page/web/app.js",
    "report/page/web/LICENSES.txt",
    "report/page/web/style.css",
)


def test_it_holds_the_model_and_the_texts(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        for name in INSIDE:
            assert f"kshot/{name}" in names
            assert archive.read(f"kshot/{name}") == (REPO / "src" / "kshot" / name).read_bytes()
    # an ignore pattern of git (runs/, dist/, web/) must not leave a package or its files out
    package = REPO / "src" / "kshot"
    files = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert {str(Path("kshot") / path.relative_to(package)) for path in files} <= names
    assert not [name for name in names if not name.startswith(("kshot/", "kshot-"))]
    assert not [name for name in names if "__pycache__" in name]
    assert wheel.stat().st_size < 7_000_000  # the model has 4.3 MB
