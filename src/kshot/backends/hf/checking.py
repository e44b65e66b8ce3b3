"""What can be told of a Hugging Face model before anything is loaded: no torch is imported for it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from kshot.backends.embedded import FOLDER as EMBEDDED_FOLDER
from kshot.backends.hf.context_window import cuts_left
from kshot.backends.hf.loading import read_device_map
from kshot.core import hub
from kshot.core.errors import BackendError, UsageError
from kshot.core.text_files import parse_json

_DTYPE = re.compile(r"(torch\.)?(auto|half|float|double|bfloat16|float(8_\w+|16|32|64))")
PROCESSOR_FILES = ("processor_config.json", "preprocessor_config.json")
"""A model that reads images has one of these: how they become numbers."""
_DEVICE = re.compile(r"[a-z]+(:\d+)?")


def check_model(path: str, **options: Any) -> None:
    """Refuse options that cannot work, a folder that is not a whole model, and a hub name that cannot be fetched."""
    check_options(**options)
    folder = EMBEDDED_FOLDER if path == "embedded" else hub.find_model_folder(str(path))
    if folder is None:
        _check_hub_name(str(path), options.get("revision") or "main")
        return
    file = Path(folder) / "config.json"
    try:
        config = parse_json(file.read_bytes())
    except ValueError as exc:
        raise BackendError(f"it is not JSON ({exc})", where=str(file), hint="Download it again.") from exc
    if not isinstance(config, dict):
        raise BackendError("it is not a model's configuration", where=str(file), hint="Download it again.")


def readable_media(path: str) -> frozenset[str] | None:
    """Return what a model reads beside text, as far as its files tell; None if there are none here yet."""
    folder = EMBEDDED_FOLDER if path == "embedded" else hub.find_model_folder(str(path))
    if folder is None:
        return None
    return frozenset({"image"}) if any((Path(folder) / name).is_file() for name in PROCESSOR_FILES) else frozenset()


def check_options(
    *,
    device: str | None = None,
    device_map: Any = None,
    deterministic: bool = False,
    dtype: Any = None,
    batch_size: int | None = None,
    row_tokens: int | None = None,
    max_length: int | None = None,
    padding_side: str = "left",
    truncate: str | None = None,
    compile: bool = False,  # noqa: A002 - the name of the option
    **others: Any,
) -> None:
    """Refuse values that no model can take."""
    del others  # any value of theirs may work
    for name, value in {"batch_size": batch_size, "row_tokens": row_tokens, "max_length": max_length}.items():
        if value is not None and value < 1:
            raise UsageError(f"{name} is {value}", hint="Use 1 or more, or leave it out.")
    if padding_side not in ("left", "right"):
        raise UsageError(f"padding_side is {padding_side!r}", hint="Use left or right.")
    if isinstance(dtype, str) and not _DTYPE.fullmatch(dtype):
        raise UsageError(f"no model runs in the dtype {dtype}", hint="Use float32, bfloat16 or float16.")
    if device is not None and not _DEVICE.fullmatch(device):
        raise UsageError(f"there is no device {device!r}", hint="Use cpu, cuda or cuda:N.")
    cuts_left(truncate)
    check_compile(compile, deterministic=deterministic)
    read_device_map(device_map, device=device, deterministic=deterministic)


def check_compile(compiles: bool, *, deterministic: bool) -> None:  # noqa: FBT001 - the option itself
    """Refuse compiled parts where the same bytes are promised: a compiler chooses how numbers are summed up."""
    if compiles and deterministic:
        what = "--deterministic cannot be promised for a model with compile=yes"
        raise UsageError(what, hint="Leave --deterministic or compile=yes out.")


def _check_hub_name(name: str, revision: str) -> None:
    """Refuse a model on the hub that is not in the cache, if the hub does not give it, or cannot be asked."""
    from huggingface_hub import constants, try_to_load_from_cache

    if isinstance(try_to_load_from_cache(name, "config.json", revision=revision), str):
        return
    if constants.HF_HUB_OFFLINE or hub.hub_is_unreachable():
        raise BackendError(
            "there is no such folder, it is not in the cache of the Hugging Face hub, and the hub cannot be asked",
            where=name,
            hint="Check the name; offline, give the path of a downloaded folder.",
        )
    if (reason := hub.refusal(name, "config.json", revision)) is not None:
        raise BackendError(
            f"there is no such folder, and the Hugging Face hub does not give it ({reason})",
            where=name,
            hint="Check the name and the revision; for a private or gated model, run hf auth login.",
        )
