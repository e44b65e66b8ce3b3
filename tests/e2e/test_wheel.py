"""The wheel as a user gets it: it holds the model and the texts."""

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
)


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
