"""Find, check, open and hash Hugging Face models, in folders and on the hub."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kshot.core.errors import BackendError, UsageError
from kshot.core.extras import importing
from kshot.core.text_files import leaves_folder, parse_json, read_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", re.ASCII)
_VOCABULARY_FILES = (
    "tokenizer.json",
    "*.model",
    "vocab.json",
    "vocab.txt",
    "*.tiktoken",
    "tekken.json",
    "tokenization*.py",
)
_SETTINGS_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
    "chat_template.*",
    "additional_chat_templates/*",
    "*.py",
    *_VOCABULARY_FILES,
)
_BLOCK_BYTES = 1 << 16
_MIDDLE_BLOCKS = 16
_MAX_QUOTED_CHARACTERS = 300
_ASKING_SECONDS = 5.0
_REFUSALS = (401, 403, 404)
_MAX_HEADER_BYTES = 100_000_000
"""The limit of safetensors itself."""


def import_transformers() -> tuple[Any, Any]:
    """Import torch and transformers. Both stay silent unless TRANSFORMERS_VERBOSITY is set."""
    with importing("running a Hugging Face model", "torch", "transformers"):
        import torch
        import transformers

    if "TRANSFORMERS_VERBOSITY" not in os.environ:
        transformers.utils.logging.set_verbosity_error()
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    transformers.utils.logging.disable_progress_bar()
    return torch, transformers


# ---- finding a model ----


def find_model_folder(path: str) -> Path | None:
    """Return the model's folder, checked. None means that the path can only be the name of a model on the hub."""
    folder = Path(path).expanduser()
    if folder.is_dir():
        _check_folder(folder)
        return folder
    if folder.is_file():
        raise BackendError("it is a file, not a model folder", where=path, hint="Give the folder with config.json.")
    if not _HUB_ID.fullmatch(path):
        raise BackendError(
            "there is no such folder", where=path, hint="Give a folder with a saved model, or a hub name."
        )
    return None


def hub_is_unreachable() -> bool:
    """Whether the hub's host name does not resolve. Then only cached files can be used, and a retry would only wait."""
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return False
    try:
        socket.getaddrinfo(urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co")).hostname, 443)
    except OSError:
        return True
    return False


def refusal(name: str, file: str, revision: str) -> str | None:
    """Ask the hub for a file of a model, without fetching it, and return why the hub does not give it.

    A hub that cannot be reached, or that fails, refuses nothing: it may answer when the model is opened.
    """
    from huggingface_hub import errors, get_hf_file_metadata, hf_hub_url

    reasons = {
        errors.GatedRepoError: "it is gated: its authors must allow you to use it",  # first: it is a kind of the next
        errors.RepositoryNotFoundError: "it has no such model, or it is private",
        errors.RevisionNotFoundError: f"the model has no revision {revision}",
        errors.EntryNotFoundError: f"the model has no {file}",
    }
    try:
        get_hf_file_metadata(hf_hub_url(name, file, revision=revision), timeout=_ASKING_SECONDS)
    except errors.HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else 0
        otherwise = f"HTTP {status}" if status in _REFUSALS else None
        return next((reason for kind, reason in reasons.items() if isinstance(error, kind)), otherwise)
    except Exception:  # noqa: BLE001 - each version of the library has other errors of the network
        return None
    return None


def _check_folder(folder: Path) -> None:
    """Refuse a folder that is not a whole model: it would fail later, or would give wrong answers."""
    where = str(folder)
    if not (folder / "config.json").is_file():
        adapter = (folder / "adapter_config.json").is_file()
        what = "it is an adapter, not a whole model" if adapter else "it is not a model folder: it has no config.json"
        hint = "Merge the adapter into its base model first." if adapter else "Save a model there with save_pretrained."
        raise BackendError(what, where=where, hint=hint)
    if not any(any(folder.glob(pattern)) for pattern in _VOCABULARY_FILES):
        hint = "Copy tokenizer.json and tokenizer_config.json of the model it was trained from into the folder."
        raise BackendError("it has no tokenizer", where=where, hint=hint)
    weights = weight_files(folder)
    if not weights:
        raise BackendError("it has no weights", where=where, hint="Download the *.safetensors files too.")
    for index in folder.glob("*.index.json"):
        shards = _shards(index)
        if missing := sorted(name for name in shards if not (folder / name).is_file()):
            what = f"it lacks {len(missing)} of {len(shards)} weight files: {missing[0]}"
            raise BackendError(what, where=where, hint="Download the missing files.")
    for file in weights:
        if file.suffix == ".safetensors" and not _is_complete(file):
            hint = "Download it again (an interrupted download or a Git LFS pointer looks like this)."
            raise BackendError("it is damaged: its size and its header disagree", where=str(file), hint=hint)


def _shards(index: Path) -> set[str]:
    """Return the names of the weight files that an index lists."""
    try:
        names = set(parse_json(read_whole(index))["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        names = {None}
    if not all(isinstance(name, str) and not leaves_folder(name) for name in names):
        what = "it is damaged: it does not map weights to files of its folder"
        raise BackendError(what, where=str(index), hint="Download it again.")
    return names


def weight_files(folder: Path) -> list[Path]:
    """List the files that hold the model's weights."""
    for pattern in ("*.safetensors", "pytorch_model*.bin", "*.bin", "*.pt", "*.pth"):
        if found := sorted(folder.glob(pattern)):
            return found
    return []


def _is_complete(file: Path) -> bool:
    """Whether a safetensors file is as long as its header says: 8 bytes of length, JSON, tensors."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if not 0 < length <= min(size - 8, _MAX_HEADER_BYTES):
            return False
        try:
            header = parse_json(stream.read(length))
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            return False
    return bool(8 + length + max(ends, default=0) == size)


# ---- opening a model ----


def open_pretrained(part: str, path: str, load: Callable[..., Any], **options: Any) -> Any:
    """Call a ``from_pretrained`` for a part of the model. Any error becomes one that names the model and the part."""
    try:
        return load(path, **options)
    except Exception as error:  # tokenizers and safetensors raise bare Exceptions, remote code raises anything
        raise _loading_error(part, path, error) from error


def quote_error(error: Exception) -> str:
    """Return the message of an error on one line, cut to a readable length."""
    message = " ".join(str(error).split()) or type(error).__name__
    return message if len(message) <= _MAX_QUOTED_CHARACTERS else f"{message[:_MAX_QUOTED_CHARACTERS]}…"


def _loading_error(part: str, path: str, error: Exception) -> BackendError:
    # transformers raises a plain ValueError for code that it may not run: only its message tells this case apart.
    if isinstance(error, ValueError) and "trust_remote_code" in str(error):
        what = f"its {part} needs code that comes with the model"
        return BackendError(what, where=path, hint="Allow it with trust_remote_code if you trust its authors.")
    quoted = quote_error(error)
    if isinstance(error, ImportError):
        return BackendError(f"its {part} needs another package: {quoted}", where=path, hint="Install that package.")
    if not Path(path).expanduser().is_dir():
        what = f"there is no such folder, and its {part} could not be fetched from the Hugging Face hub ({quoted})"
        return BackendError(what, where=path, hint="Check the name; offline, give the path of a downloaded folder.")
    return BackendError(f"its {part} cannot be loaded ({quoted})", where=path, hint="Check or re-download its files.")


def choose_device(device: str | None, torch: Any) -> Any:
    """Return the torch device to run on: the requested one, else the first GPU, else the CPU."""
    if device is None or device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise UsageError(f"there is no device {device!r}", hint="Use cpu, cuda or cuda:N.") from None
    if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
        raise UsageError(f"there is no device {device!r}: {torch.cuda.device_count()} GPUs were found", hint="Use cpu.")
    return chosen


# ---- telling models apart ----


def content_digest(folder: Path) -> str:
    """Hash what a model folder holds: settings and vocabulary in full, weights by their size and sampled blocks."""
    total = hashlib.blake2b(digest_size=16)
    settings = {file for pattern in _SETTINGS_FILES for file in folder.glob(pattern) if file.is_file()}
    for file in sorted(settings):
        _add_file(total, file.relative_to(folder).as_posix(), [file.read_bytes()])
    for file in weight_files(folder):
        _add_file(total, file.name, _sampled_blocks(file))
    return total.hexdigest()


def _add_file(total: hashlib.blake2b, name: str, blocks: Iterable[bytes]) -> None:
    own = hashlib.blake2b(digest_size=16)
    for block in blocks:
        own.update(block)
    total.update(f"{name}\0{own.hexdigest()}\n".encode())


def _sampled_blocks(file: Path) -> Iterable[bytes]:
    """Yield the size, the head, evenly spaced middle blocks and the tail: enough to tell two trainings apart."""
    size = file.stat().st_size
    yield str(size).encode()
    with file.open("rb") as stream:
        if size <= _BLOCK_BYTES * (_MIDDLE_BLOCKS + 2):
            yield stream.read()
            return
        for step in range(_MIDDLE_BLOCKS + 2):
            stream.seek((size - _BLOCK_BYTES) * step // (_MIDDLE_BLOCKS + 1))
            yield stream.read(_BLOCK_BYTES)
