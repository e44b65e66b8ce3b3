"""Opening a Hugging Face model: finding it, saying what is wrong with it, and telling it from any other."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kshot.core.errors import BackendError, MissingExtra, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", re.ASCII)
_VOCABULARIES = (
    "tokenizer.json",
    "*.model",
    "vocab.json",
    "vocab.txt",
    "*.tiktoken",
    "tekken.json",
    "tokenization*.py",
)
_SETTINGS = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
    "chat_template.*",
    "additional_chat_templates/*",
    "*.py",
    *_VOCABULARIES,
)
_BLOCK = 1 << 16
_STRIDES = 16
_QUOTED = 300


def libraries() -> tuple[Any, Any]:
    """Import torch and transformers, silenced unless TRANSFORMERS_VERBOSITY asks them to speak."""
    try:
        import torch
        import transformers
    except ModuleNotFoundError as error:
        raise MissingExtra("transformers", "hf", "running a Hugging Face model") from error
    if "TRANSFORMERS_VERBOSITY" not in os.environ:
        transformers.utils.logging.set_verbosity_error()
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    transformers.utils.logging.disable_progress_bar()
    return torch, transformers


def find(path: str) -> Path | None:
    """Find and check the model's folder; None stands for what can only be the name of a model on the hub."""
    folder = Path(path).expanduser()
    if folder.is_dir():
        _check(folder)
        return folder
    if folder.is_file():
        raise BackendError("is a file, not a model folder", where=path, hint="Give the folder that holds config.json.")
    if not _HUB_ID.fullmatch(path):
        raise BackendError(
            "there is no such folder", where=path, hint="Give a folder with a saved model, or a hub name."
        )
    return None


def unreachable() -> bool:
    """Tell whether the hub's name does not even resolve: then only cached files are left, and retrying only waits."""
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return False
    try:
        socket.getaddrinfo(urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co")).hostname, 443)
    except OSError:
        return True
    return False


def _check(folder: Path) -> None:
    """Refuse early what would fail later, or worse, would not."""
    where = str(folder)
    if not (folder / "config.json").is_file():
        adapter = (folder / "adapter_config.json").is_file()
        what = "holds an adapter, not a whole model" if adapter else "is not a model folder: it has no config.json"
        hint = "Merge the adapter into its base model first." if adapter else "Save a model there with save_pretrained."
        raise BackendError(what, where=where, hint=hint)
    if not any(any(folder.glob(pattern)) for pattern in _VOCABULARIES):
        hint = "Copy tokenizer.json and tokenizer_config.json of the model it was trained from into the folder."
        raise BackendError("has no tokenizer", where=where, hint=hint)
    weights = weight_files(folder)
    if not weights:
        raise BackendError("has no weights", where=where, hint="Download the *.safetensors files into the folder too.")
    for index in folder.glob("*.index.json"):
        shards = set(json.loads(index.read_text("utf-8")).get("weight_map", {}).values())
        if missing := sorted(name for name in shards if not (folder / name).is_file()):
            what = f"lacks {len(missing)} of {len(shards)} weight files: {missing[0]}"
            raise BackendError(what, where=where, hint="Download the missing files.")
    for file in weights:
        if file.suffix == ".safetensors" and not _whole(file):
            hint = "Download it again (an interrupted download or a Git LFS pointer looks like this)."
            raise BackendError("is damaged: its size and its header disagree", where=str(file), hint=hint)


def weight_files(folder: Path) -> list[Path]:
    """List the files that hold the model's weights."""
    for pattern in ("*.safetensors", "pytorch_model*.bin", "*.bin", "*.pt", "*.pth"):
        if found := sorted(folder.glob(pattern)):
            return found
    return []


def _whole(file: Path) -> bool:
    """Whether a safetensors file is as long as its header says: 8 bytes of length, JSON, tensors."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if not 0 < length <= size - 8:
            return False
        try:
            header = json.loads(stream.read(length))
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            return False
    return bool(8 + length + max(ends, default=0) == size)


def opened(what: str, path: str, load: Callable[..., Any], **options: Any) -> Any:
    """Call a ``from_pretrained``; whatever it throws becomes one error that names the model."""
    try:
        return load(path, **options)
    except Exception as error:  # tokenizers and safetensors throw bare Exceptions, remote code anything
        raise _refusal(what, path, error) from error


def _refusal(what: str, path: str, error: Exception) -> BackendError:
    said = " ".join(str(error).split()) or type(error).__name__
    said = said if len(said) <= _QUOTED else f"{said[:_QUOTED]}…"
    if "trust_remote_code" in said:
        what = f"its {what} needs code that comes with the model"
        return BackendError(what, where=path, hint="Allow it with trust_remote_code if you trust its authors.")
    if isinstance(error, ImportError):
        return BackendError(f"its {what} needs another package: {said}", where=path, hint="Install that package.")
    if not Path(path).expanduser().is_dir():
        what = f"there is no such folder, and its {what} could not be fetched from the Hugging Face hub ({said})"
        return BackendError(what, where=path, hint="Check the name; offline, give the path of a downloaded folder.")
    return BackendError(f"its {what} cannot be loaded ({said})", where=path, hint="Check or re-download its files.")


def place(device: str | None, torch: Any) -> Any:
    """Choose the device to run on: the one asked for, else the first GPU, else the CPU."""
    if device is None or device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        asked = torch.device(device)
    except RuntimeError:
        raise UsageError(f"there is no device {device!r}", hint="Use cpu, cuda or cuda:N.") from None
    if asked.type == "cuda" and (asked.index or 0) >= torch.cuda.device_count():
        raise UsageError(f"device {device!r} asked for; {torch.cuda.device_count()} found", hint="Use cpu.")
    return asked


def precision(dtype: Any, device: Any, config: Any, torch: Any) -> Any:
    """Choose the torch dtype of the weights: as asked; float32 on a CPU; else the one the model was saved in."""
    if dtype is None:
        dtype = "float32" if device.type == "cpu" else "auto"
    if dtype == "auto":
        dtype = getattr(config, "dtype", None) or getattr(config.get_text_config(), "dtype", None) or "float32"
    found = getattr(torch, dtype.removeprefix("torch."), None) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise UsageError(f"no model runs in the dtype {dtype}", hint="Use float32, bfloat16 or float16.")
    return found


def load_model(path: str, device: Any, transformers: Any, **options: Any) -> Any:
    """Load the causal language model, ready to answer; one with weights missing is refused, not filled in at random."""
    model, info = opened(
        "weights", path, transformers.AutoModelForCausalLM.from_pretrained, output_loading_info=True, **options
    )
    lacking = sorted(map(str, info.get("missing_keys") or ())) + sorted(map(str, info.get("mismatched_keys") or ()))
    if lacking:
        what = f"{len(lacking)} weights are missing or have another shape, {lacking[0]} for one"
        raise BackendError(what, where=path, hint="config.json and the weights are not of the same model: re-download.")
    surplus = sorted(key for key in map(str, info.get("unexpected_keys") or ()) if _is_beyond(key, model))
    if surplus:
        what = f"the weights have more layers than config.json names, {surplus[0]} for one"
        raise BackendError(what, where=path, hint="config.json and the weights are not of the same model: re-download.")
    # A quantised model is where it belongs already, and may not be moved.
    return (model.to(device) if model.device.type == "cpu" else model).eval()


def _is_beyond(key: str, model: Any) -> bool:
    """Whether a weight belongs to a layer after the last; other surplus (buffers, heads of other tasks) is harmless."""
    layers = getattr(model.config.get_text_config(), "num_hidden_layers", None)
    found = re.search(r"\.(?:layers|h|blocks)\.(\d+)\.", f".{key}")
    return found is not None and isinstance(layers, int) and int(found[1]) >= layers


def content(folder: Path) -> str:
    """Hash of what a model folder holds: settings and vocabulary in full, weights by size and sampled blocks."""
    total = hashlib.blake2b(digest_size=16)
    settings = {file for pattern in _SETTINGS for file in folder.glob(pattern) if file.is_file()}
    for file in sorted(settings):
        _feed(total, file.relative_to(folder).as_posix(), [file.read_bytes()])
    for file in weight_files(folder):
        _feed(total, file.name, _samples(file))
    return total.hexdigest()


def fingerprint(kind: str, origin: tuple[str, Path | None, str, Any], *settled: Any) -> str:
    """Hash of who runs a model, of the model (path, folder, revision, configuration), and of how it is set up."""
    path, folder, revision, config = origin
    model = content(folder) if folder is not None else [path, revision, getattr(config, "_commit_hash", None)]
    body = json.dumps([kind, model, list(settled)], ensure_ascii=False, sort_keys=True)
    return hashlib.blake2b(body.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _feed(total: Any, name: str, blocks: Iterable[bytes]) -> None:
    one = hashlib.blake2b(digest_size=16)
    for block in blocks:
        one.update(block)
    total.update(f"{name}\0{one.hexdigest()}\n".encode())


def _samples(file: Path) -> Iterable[bytes]:
    """Size, head, evenly spaced middle blocks, tail: enough to tell two trainings apart without reading it all."""
    size = file.stat().st_size
    yield str(size).encode()
    with file.open("rb") as stream:
        if size <= _BLOCK * (_STRIDES + 2):
            yield stream.read()
            return
        for step in range(_STRIDES + 2):
            stream.seek((size - _BLOCK) * step // (_STRIDES + 1))
            yield stream.read(_BLOCK)
