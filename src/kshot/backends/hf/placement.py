"""Where the parts of a model are: on one device, or split over several by a device map of transformers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kshot.core.errors import BackendError, UsageError
from kshot.core.extras import require
from kshot.core.text_files import parse_json

DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
_FILE = ".json"


def read_device_map(given: Any, *, device: str | None, deterministic: bool) -> Any:
    """Return a device map as transformers takes it: a name, or a device for each part of the model.

    It may be in a JSON file. Nothing heavy is imported, so that a wrong one is an error before anything is loaded.
    """
    if given is None:
        return None
    if device is not None:
        raise UsageError("--device and --device-map both say where the model runs", hint="Leave one of them out.")
    if deterministic:
        what = "--deterministic cannot be promised for a model that is split over devices"
        raise UsageError(what, hint="Leave --deterministic or --device-map out.")
    if isinstance(given, str) and given.endswith(_FILE):
        given = _from_file(Path(given).expanduser())
    if isinstance(given, str) and given not in DEVICE_MAPS:
        hint = f"Use {', '.join(DEVICE_MAPS)}, or a JSON file with a device for each part of the model."
        raise UsageError(f"there is no device map {given!r}", hint=hint)
    if isinstance(given, Mapping) and not (given and all(_is_place(*item) for item in given.items())):
        hint = 'Write {"model.embed_tokens": 0, "model.layers.0": 1, "lm_head": "cpu"}, for example.'
        raise UsageError("the device map does not name a device for each part of the model", hint=hint)
    require("--device-map", "accelerate")
    return given


def _from_file(path: Path) -> Any:
    try:
        found = parse_json(path.read_bytes())
    except OSError as exc:
        raise UsageError(f"the device map cannot be read: {exc.strerror}", where=str(path)) from exc
    except ValueError as exc:
        raise UsageError(f"the device map is not JSON ({exc})", where=str(path)) from exc
    if not isinstance(found, dict):
        raise UsageError("the device map is not a JSON object", where=str(path), hint='Write {"PART": DEVICE, …}.')
    return found


def _is_place(part: Any, device: Any) -> bool:
    return isinstance(part, str) and isinstance(device, (str, int)) and not isinstance(device, bool)


def check_split(model: Any, torch: Any, name: str, given: Any) -> None:
    """Refuse a map with parts that the model does not have, and one with which it cannot read a token."""
    if isinstance(given, Mapping):
        parts = [part for part, _ in (*model.named_modules(), *model.named_parameters())]
        if unknown := sorted(set(given).difference(parts)):
            hint = f"Its parts are named like {parts[-1].rpartition('.')[0]}."
            raise BackendError(f"the device map names {unknown[0]!r}, which the model lacks", where=name, hint=hint)
    try:
        with torch.inference_mode():
            model(input_ids=torch.zeros((1, 1), dtype=torch.long, device=input_device(model, torch)), use_cache=False)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, LookupError, TypeError, ValueError, AttributeError, OSError, NotImplementedError) as exc:
        reason = f"{type(exc).__name__}: {exc}".splitlines()[0][:100]
        raise BackendError(
            f"it does not run with this device map ({reason})",
            where=name,
            hint="Use --device-map auto. In a map of your own, parts that share a weight must be on one device.",
        ) from exc


def is_split(model: Any) -> bool:
    """Whether parts of a loaded model are on different devices, or are loaded from disk when they are used."""
    return len(set((getattr(model, "hf_device_map", None) or {}).values())) > 1


def input_device(model: Any, torch: Any) -> Any:
    """Return the device that tokens must be on: that of the first layer. The logits come back to it."""
    if not is_split(model):
        return model.device
    embeddings = model.get_input_embeddings()
    # Weights may be elsewhere until they are used; the hook of accelerate knows where they are used.
    device = getattr(getattr(embeddings, "_hf_hook", None), "execution_device", None)
    return embeddings.weight.device if device is None else torch.device(device)
