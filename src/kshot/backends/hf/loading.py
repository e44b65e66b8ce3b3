"""Loading a causal language model: its precision, its weights, its fingerprint."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from kshot.core.errors import BackendError, UsageError
from kshot.core.hub import content_digest, open_pretrained

_OTHER_MODEL_HINT = "config.json and the weights are not of the same model: re-download."


def choose_dtype(dtype: Any, device: Any, config: Any, torch: Any) -> Any:
    """Return the torch dtype of the weights: the requested one; float32 on a CPU; else the one of the saved model."""
    if dtype is None:
        dtype = "float32" if device.type == "cpu" else "auto"
    if dtype == "auto":
        # Configurations name it in one of two places, or nowhere.
        dtype = getattr(config, "dtype", None) or getattr(config.get_text_config(), "dtype", None) or "float32"
    found = getattr(torch, dtype.removeprefix("torch."), None) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise UsageError(f"no model runs in the dtype {dtype}", hint="Use float32, bfloat16 or float16.")
    return found


def load_model(path: str, device: Any, transformers: Any, *, auto_class: Any = None, **options: Any) -> Any:
    """Load the causal language model for inference. transformers would fill missing weights at random: refuse them.

    ``auto_class``: how transformers finds the class of the model (None: as a causal language model). With a
    ``device_map`` among the options, transformers splits the model over devices.
    """
    found = auto_class or transformers.AutoModelForCausalLM
    model, info = open_pretrained("weights", path, found.from_pretrained, output_loading_info=True, **options)
    missing = sorted(map(str, info.get("missing_keys") or ())) + sorted(map(str, info.get("mismatched_keys") or ()))
    if missing:
        what = f"{len(missing)} weights are missing or have another shape, {missing[0]} for one"
        raise BackendError(what, where=path, hint=_OTHER_MODEL_HINT)
    surplus = sorted(
        key for key in map(str, info.get("unexpected_keys") or ()) if _belongs_to_surplus_layer(key, model)
    )
    if surplus:
        what = f"the weights have more layers than config.json names, {surplus[0]} for one"
        raise BackendError(what, where=path, hint=_OTHER_MODEL_HINT)
    # A quantised model is on its device already, and may not be moved; nor may one that is split.
    placed = "device_map" in options or model.device.type != "cpu"
    return (model if placed else model.to(device)).eval()


def _belongs_to_surplus_layer(key: str, model: Any) -> bool:
    """Whether a weight belongs to a layer after the last. Other surplus (buffers, heads of other tasks) is harmless."""
    layers = getattr(model.config.get_text_config(), "num_hidden_layers", None)  # not every configuration counts them
    found = re.search(r"\.(?:layers|h|blocks)\.(\d+)\.", f".{key}")
    return found is not None and isinstance(layers, int) and int(found[1]) >= layers


def model_fingerprint(runtime: str, origin: tuple[str, Path | None, str, Any], *settings: Any) -> str:
    """Hash what runs a model, the model (path, folder, revision, configuration), and how it is set up."""
    path, folder, revision, config = origin
    # Only configurations that came from the hub know their commit.
    model = content_digest(folder) if folder is not None else [path, revision, getattr(config, "_commit_hash", None)]
    body = json.dumps([runtime, model, list(settings)], ensure_ascii=False, sort_keys=True)
    return hashlib.blake2b(body.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
