"""Loading a causal language model: where its parts go, its precision, weights and fingerprint, and determinism.

It also checks what the model's files alone show; that imports no torch.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kshot import __version__
from kshot.backends.embedded import FOLDER as EMBEDDED_FOLDER
from kshot.backends.texts import cuts_left
from kshot.core import hub
from kshot.core.errors import BackendError, UsageError
from kshot.core.extras import require
from kshot.core.hub import content_digest, find_model_folder, hub_is_unreachable, open_pretrained
from kshot.core.text_files import parse_json

# ---- where the parts of a model are: on one device, or split over several ----

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


# ---- its files ----

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


class ModelFiles:
    """A model in a folder or on the hub: where it is, and the options with which all its parts are opened."""

    def __init__(self, path: str, *, revision: str | None, trust_remote_code: bool) -> None:
        """Refuse a folder that is not a whole model."""
        self.folder = find_model_folder(str(path))
        self.path = str(path) if self.folder is None else str(self.folder)
        self.options: dict[str, Any] = {
            "revision": revision or "main",
            "trust_remote_code": trust_remote_code,
            "local_files_only": self.folder is not None or hub_is_unreachable(),
        }

    def open(self, part: str, auto_class: Any) -> Any:
        """Open the configuration, the tokenizer or the processor."""
        return open_pretrained(part, self.path, auto_class.from_pretrained, **self.options)

    def fingerprint(self, runtime: str, config: Any, *settings: Any) -> str:
        """Hash what runs the model, the model itself with its configuration, and how it is set up."""
        # Only configurations that came from the hub know their commit.
        hub_model = [self.path, self.options["revision"], getattr(config, "_commit_hash", None)]
        model = hub_model if self.folder is None else content_digest(self.folder)
        body = json.dumps([runtime, model, list(settings)], ensure_ascii=False, sort_keys=True)
        return hashlib.blake2b(body.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


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


# ---- errors of a running model that the user can act on ----


def invalid_logits(name: str) -> BackendError:
    """Return the error for a model whose logits are not numbers."""
    return BackendError(
        "the model's logits are NaN or infinite",
        where=name,
        hint="Try another dtype (float32, or bfloat16 in place of float16); otherwise its weights are damaged.",
    )


def out_of_memory(name: str, device: Any) -> BackendError:
    """Return the error for a model that does not fit into the memory of its device."""
    hint = "Use a smaller dtype, or a device with more memory."
    return BackendError(f"out of memory on {device}", where=name, hint=hint)


# ---- deterministic: what torch is told, and what the bits of an answer depend on ----

_owners: set[int] = set()
"""The models that need deterministic algorithms now; torch has one switch for the whole process."""
_earlier: dict[str, bool] = {}
"""How the switches stood before the first of these models."""


def machine_facts(device: Any, torch: Any, transformers: Any) -> list[Any]:
    """Return what the bits of an answer depend on: versions, the kind of device, and on a CPU the number of threads.

    With other threads or another processor, matrix products are summed up in another order.
    """
    versions = [__version__, torch.__version__, transformers.__version__]
    if device.type == "cuda":
        return [*versions, torch.cuda.get_device_name(device), torch.version.cuda, torch.backends.cudnn.version()]
    return [*versions, device.type, torch.backends.cpu.get_cpu_capability(), torch.get_num_threads()]


def require_deterministic_algorithms(owner: object, device: Any, torch: Any) -> None:
    """Have torch refuse algorithms whose results vary, until every owner has released them."""
    if device.type == "cuda":
        # cuBLAS needs a workspace of a fixed size; torch says so and names this variable.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if not _owners:
        _earlier["warn_only"] = torch.is_deterministic_algorithms_warn_only_enabled()
        _earlier["enabled"] = torch.are_deterministic_algorithms_enabled()
        _earlier["fill"] = torch.utils.deterministic.fill_uninitialized_memory
        _earlier["benchmark"] = torch.backends.cudnn.benchmark
    _owners.add(id(owner))
    torch.use_deterministic_algorithms(mode=True)
    torch.backends.cudnn.benchmark = False
    # All memory is written before it is read here, so filling it would only take time.
    torch.utils.deterministic.fill_uninitialized_memory = False


def release_deterministic_algorithms(owner: object, torch: Any) -> None:
    """Put the switches back once no owner is left."""
    if id(owner) not in _owners:
        return
    _owners.remove(id(owner))
    if not _owners:
        torch.use_deterministic_algorithms(mode=_earlier["enabled"], warn_only=_earlier["warn_only"])
        torch.backends.cudnn.benchmark = _earlier["benchmark"]
        torch.utils.deterministic.fill_uninitialized_memory = _earlier["fill"]


# ---- checks of a model before it is loaded ----

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
    """Return the non-text inputs that the model's config declares, or None if its files are not downloaded."""
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
    if compile and deterministic:  # a compiler chooses how numbers are summed up
        what = "--deterministic cannot be promised for a model with compile=yes"
        raise UsageError(what, hint="Leave --deterministic or compile=yes out.")
    read_device_map(device_map, device=device, deterministic=deterministic)


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
