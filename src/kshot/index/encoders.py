"""From texts to vectors and scores: MiniLM, sentence-transformers, ColBERT, cross-encoders, a user's own function.

Each model is loaded when it is first used.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeAlias
from weakref import WeakValueDictionary

import numpy as np

from kshot.core import hub
from kshot.core.errors import BackendError, BadValue
from kshot.core.extras import require
from kshot.index.model_folders import MINILM, MINILM_PACKAGE, encoder_packages, minilm_folder, refuse_code
from kshot.index.ranking import Array
from kshot.index.vectors import unit_vectors

Side: TypeAlias = Literal["query", "passage"]
TextEncoder: TypeAlias = Callable[[Sequence[str]], Any]
"""Turns texts into an array with a row for each: a user's own function, or what ``text_encoder`` gives."""

MINILM_WINDOW = 128
"""all-MiniLM-L6-v2 accepts 256 tokens but was trained on texts cut at 128 (its model card): it reads those best."""
BATCHES_AT_ONCE = 32
"""Batches handed to a model at a time: it sorts what it is given by length, so that little is padded."""
SHARD_PASSAGES, SHARD_CHARACTERS = 512, 1 << 18
"""What is encoded as one shard: a minute or so on a CPU, which is what an interrupted build loses."""

_PROMPT_NAMES: dict[Side, tuple[str, ...]] = {"query": ("query",), "passage": ("document", "passage", "corpus")}
_FIRST_WITH_COLBERT = 6
"""From this version on sentence-transformers reads ColBERT models itself; PyLate 1.6 works with those before it."""
_DEFAULT_MAX_TOKENS = 512


def load_model(folder: Path, load: Callable[..., Any], device: str | None) -> Any:
    """Load a model onto the device, ready to use; any failure becomes one error that names the folder."""
    refuse_code(folder)
    torch, _ = hub.import_transformers()
    with warnings.catch_warnings():  # of deprecations between these packages, which no user can fix
        warnings.simplefilter("ignore", FutureWarning)
        chosen = str(hub.choose_device(device, torch))
        return hub.open_pretrained("model", str(folder), load, device=chosen).eval()


class FolderModel(ABC):
    """A model in a folder, loaded onto a device when it is first used."""

    def __init__(self, folder: Path, device: str | None) -> None:
        self.folder, self._device = folder, device

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle where the model is, not the model."""
        return type(self), (self.folder, self._device)

    @cached_property
    @abstractmethod
    def model(self) -> Any:
        """The model itself."""

    @property
    def tokenizer(self) -> Any:
        """Its tokenizer."""
        return self.model.tokenizer


class SentenceEncoder(FolderModel):
    """A sentence-transformers model: one vector for a text, or one for each of its tokens."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle where the model is; those of one folder are one again."""
        return sentence_encoder, (self.folder, self._device)

    @cached_property
    def model(self) -> Any:
        """The model itself."""
        from sentence_transformers import SentenceTransformer

        return load_model(self.folder, SentenceTransformer, self._device)

    @property
    def max_tokens(self) -> int:
        """The most tokens that it reads, special ones included."""
        return _max_tokens(self.model.max_seq_length, self.tokenizer, self.model[0].auto_model.config)

    def extra_tokens(self, prompt: str) -> int:
        """Return how many tokens stand in a window beside the text's own: special ones and the prompt's."""
        ahead = self.tokenizer(prompt, add_special_tokens=False)["input_ids"]
        return int(self.tokenizer.num_special_tokens_to_add()) + len(ahead)

    def prompt(self, side: Side, own: str | None) -> str:
        """Return what goes before each text: the user's own prompt, else the one in the model's settings."""
        if own is not None:
            return own
        known = self.model.prompts or {}
        return next((str(known[name]) for name in _PROMPT_NAMES[side] if known.get(name)), "")

    def vectors(self, texts: Sequence[str], side: Side, prompt: str, batch_size: int) -> Array:
        """Return one normalised vector for each text."""
        encode = self.model.encode_query if side == "query" else self.model.encode_document
        found = encode(
            list(texts), prompt=prompt, batch_size=batch_size, normalize_embeddings=True, show_progress_bar=False
        )
        return _finite(np.array(found, dtype=np.float32).reshape(len(texts), -1), self.folder)

    def token_vectors(self, texts: Sequence[str], prompt: str, batch_size: int) -> list[tuple[Array, Array]]:
        """Return for each text the ids of its tokens and their normalised last hidden states.

        Special tokens and those of the prompt are left out: they stand for no word of the text, and a query's [SEP]
        would match the [SEP] of every passage.
        """
        import torch

        found: dict[int, tuple[Array, Array]] = {}
        for chosen in batches_by_length(texts, batch_size):
            coded = self.tokenizer(
                [prompt + texts[at] for at in chosen],
                padding=True,
                truncation=True,
                max_length=self.max_tokens,
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
                found[at] = ids[mask].numpy(), _finite(state[mask].numpy(), self.folder)
        return [found[at] for at in range(len(texts))]


_OPEN_ENCODERS: WeakValueDictionary[tuple[Path, str | None], SentenceEncoder] = WeakValueDictionary()


def sentence_encoder(folder: Path, device: str | None) -> SentenceEncoder:
    """Return the encoder of this folder; search engines that use it at the same time share it."""
    found = _OPEN_ENCODERS.get((folder, device))
    if found is None:
        found = _OPEN_ENCODERS[folder, device] = SentenceEncoder(folder, device)
    return found


class ColBERT(FolderModel):
    """A late-interaction model, read by PyLate, or by sentence-transformers from version 6 on.

    Both give the same vectors; PyLate's releases so far work with sentence-transformers before 6 only.
    """

    def __init__(self, folder: Path, device: str | None) -> None:
        super().__init__(folder, device)
        self._native = int(version("sentence-transformers").split(".")[0]) >= _FIRST_WITH_COLBERT
        if not self._native:
            require("searching with a ColBERT model", "pylate")

    @cached_property
    def model(self) -> Any:
        """The model itself."""
        if self._native:
            from sentence_transformers import MultiVectorEncoder as Loader
        else:
            from pylate.models import ColBERT as Loader
        return load_model(self.folder, Loader, self._device)

    @property
    def max_tokens(self) -> int:
        """The most tokens of a passage that it reads, special ones and the mark of a passage included."""
        # the two libraries keep it in different places, and not every model sets it
        own = getattr(self.model[0] if self._native else self.model, "document_length", None)
        return _max_tokens(own, self.tokenizer, self.model[0].auto_model.config)

    @property
    def extra_tokens(self) -> int:
        """How many tokens stand in a window beside the text's own: special ones and the mark of a passage."""
        return int(self.tokenizer.num_special_tokens_to_add()) + 1

    def token_vectors(self, texts: Sequence[str], side: Side, batch_size: int) -> list[Array]:
        """Return for each text the normalised vectors that the model compares; the model itself chooses them."""
        if self._native:
            encode = self.model.encode_query if side == "query" else self.model.encode_document
            found = encode(list(texts), batch_size=batch_size, convert_to_numpy=True, show_progress_bar=False)
        else:
            query = side == "query"
            found = self.model.encode(list(texts), is_query=query, batch_size=batch_size, show_progress_bar=False)
        return [_finite(np.asarray(one, dtype=np.float32), self.folder) for one in found]


class PairEncoder(FolderModel):
    """A cross-encoder: it reads two texts together and gives one score."""

    @cached_property
    def model(self) -> Any:
        """The model itself."""
        from sentence_transformers import CrossEncoder

        model = load_model(self.folder, CrossEncoder, self._device)
        if model.num_labels != 1:
            what = f"it gives {model.num_labels} scores for a pair, not one"
            raise BackendError(what, where=str(self.folder), hint="Use a cross-encoder trained to rank.")
        return model

    @cached_property
    def max_tokens(self) -> int:
        """The most tokens of a pair that it reads, special ones included."""
        model = self.model
        own = getattr(model, "max_seq_length", None) or model.max_length  # the second before sentence-transformers 6
        return _max_tokens(own, model.tokenizer, model.config)

    @property
    def extra_tokens(self) -> int:
        """How many special tokens a pair has."""
        return int(self.tokenizer.num_special_tokens_to_add(pair=True))

    def scores(self, pairs: Sequence[tuple[str, str]], batch_size: int) -> list[float]:
        """Return the score of each pair, before any sigmoid."""
        import torch

        found = self.model.predict(
            list(pairs), batch_size=batch_size, activation_fn=torch.nn.Identity(), show_progress_bar=False
        )
        scores: list[float] = _finite(np.asarray(found, dtype=np.float64).reshape(-1), self.folder).tolist()
        return scores


def batches_by_length(texts: Sequence[str], size: int) -> Iterator[list[int]]:
    """Yield the numbers of texts in batches: those of similar length together, so that little is padded."""
    order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
    return (order[first : first + size] for first in range(0, len(order), size))


def _max_tokens(own: int | None, tokenizer: Any, config: Any) -> int:
    """Return the most tokens a model reads: its own setting, else its tokenizer's, but no more than its positions."""
    positions = getattr(config, "max_position_embeddings", None)  # not every architecture has it
    known = [one for one in (own or tokenizer.model_max_length, positions) if isinstance(one, int) and one > 0]
    return min(known, default=_DEFAULT_MAX_TOKENS)


def _finite(vectors: Array, folder: Path) -> Array:
    """Return the vectors, or raise an error if a value is not finite."""
    if not np.isfinite(vectors).all():
        hint = "Its weights may be damaged: download it again."
        raise BackendError("it gives vectors that are not numbers", where=str(folder), hint=hint)
    return vectors


# ---- encoders as plain functions ----


def text_encoder_packages(model: str) -> tuple[str, ...]:
    """Return the packages of kshot's extras that ``text_encoder`` needs: for MiniLM, plain transformers."""
    model = model_name("encoder", model)
    return ("torch", "transformers", MINILM_PACKAGE) if model.lower() == MINILM else encoder_packages(model)


def model_name(name: str, value: Any) -> str:
    """Return the name or folder of a model; any other value is an error: a config may name anything."""
    if not isinstance(value, str):
        raise BadValue(f"the {name} is {value!r:.60}; it must be the name or the folder of a model")
    return value


def text_encoder(model: str, batch_size: int, purpose: str, *, unit: bool = False) -> TextEncoder:
    """Return a model as a function: ``minilm``, or the name or folder of a sentence-transformers model.

    ``unit``: MiniLM's vectors have length 1, as sentence-transformers gives them; any other model's are its own.
    """
    require(purpose, *text_encoder_packages(model))
    if model.lower() == MINILM:
        encode = _minilm(batch_size, purpose)
        return (lambda texts: unit_vectors(encode(texts))) if unit else encode
    from sentence_transformers import SentenceTransformer

    refuse_code(Path(model).expanduser())
    loaded = hub.open_pretrained("model", model, SentenceTransformer, local_files_only=hub.hub_is_unreachable())
    return lambda texts: loaded.encode(list(texts), batch_size=batch_size, show_progress_bar=False)


def _minilm(batch_size: int, purpose: str) -> TextEncoder:
    """Return all-MiniLM-L6-v2 with plain transformers: the mean of the token vectors, as the model was trained."""
    folder = str(minilm_folder(purpose))
    from transformers import AutoModel, AutoTokenizer

    tokenizer, network = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    return lambda texts: mean_pooled(tokenizer, network, texts, batch_size)


def mean_pooled(tokenizer: Any, network: Any, texts: Sequence[str], batch_size: int, max_tokens: int = 256) -> Array:
    """Return the mean of the last layer over the tokens of each text; texts of similar length share a batch."""
    import torch

    found: list[Any] = [None] * len(texts)
    for chosen in batches_by_length(texts, batch_size):
        batch = tokenizer(
            [texts[at] for at in chosen], padding=True, truncation=True, max_length=max_tokens, return_tensors="pt"
        )
        with torch.inference_mode():
            hidden = network(**batch).last_hidden_state
        mask = batch["attention_mask"][:, :, None].to(hidden.dtype)
        means = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1)
        for at, vector in zip(chosen, means.float().numpy(), strict=True):
            found[at] = vector
    return np.stack(found) if found else np.zeros((0, 1), dtype=np.float32)


def checked_vectors(vectors: Any, rows: int, name: str) -> Array:
    """Return what an encoder or a user gave as a floating-point array with one finite vector for each row."""
    array = np.asarray(vectors)
    if not np.issubdtype(array.dtype, np.floating):
        array = array.astype(np.float32)
    if array.ndim != 2 or len(array) != rows:  # noqa: PLR2004 - rows and columns
        raise BadValue(f"the {name} vectors have the shape {array.shape}; there are {rows} {name} rows")
    if not np.isfinite(array.sum(axis=1)).all():
        raise BadValue(f"the {name} vectors hold values that are not numbers")
    return array
