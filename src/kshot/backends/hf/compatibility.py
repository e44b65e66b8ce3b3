"""Which models can be computed tree-packed, and up to what length: by their configuration, then by trying."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kshot.backends.hf.packing import Packer
from kshot.backends.hf.sampling import broken
from kshot.backends.hf.tree_batches import planted
from kshot.backends.hf.trie import Item, Trie, grown
from kshot.backends.hf.trie_pass import Walk

_NEEDS = ("attention_mask", "position_ids", "past_key_values", "use_cache")
_PLAIN = {"full_attention", "sliding_attention", "chunked_attention"}
_SHORT = 16
_TRIAL = 12
_FAULTS = (RuntimeError, TypeError, ValueError, AttributeError, IndexError, NotImplementedError)
_ERROR = {4: 2e-3, 2: 0.25, 1: 0.25}
"""Mean difference of log-probabilities that is rounding, by bytes of the dtype; a wrong mask differs by about 1."""


def obstacle(model: Any, takes: frozenset[str]) -> str:
    """Why a model cannot be tree-packed, from what it says of itself; empty where nothing is known against it."""
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ())
    if getattr(model, "_is_stateful", False) or kinds - _PLAIN:
        return "it keeps a state from token to token"
    if getattr(config, "alibi", False) or config.model_type in ("bloom", "mpt"):
        return "its attention has position biases (ALiBi)"
    if model.config._attn_implementation not in ("sdpa", "eager"):  # noqa: SLF001 - there is no other name for it
        return f"its attention kernel ({model.config._attn_implementation}) takes no mask"  # noqa: SLF001
    if lacking := [name for name in _NEEDS if name not in takes]:
        return f"it takes no {lacking[0]}"
    if (most := reach(config)) is not None and most < _SHORT:
        return f"its attention window has {most} tokens"
    return ""


def reach(config: Any) -> int | None:
    """The longest sequence that a mask of ancestors is right for: up to a window all tokens are seen anyway."""
    kinds = getattr(config, "layer_types", None)
    limits = []
    window = getattr(config, "sliding_window", None)
    if window and ("sliding_attention" in kinds if kinds else getattr(config, "use_sliding_window", True)):
        limits.append(window)
    if kinds and "chunked_attention" in kinds:
        limits.append(config.attention_chunk_size)
    if "local" in (getattr(config, "attention_layers", None) or ()):
        limits.append(config.window_size)
    for rope in _ropes(getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)):
        # These turn by other angles once a sequence is longer than this, so lengths must not be mixed.
        if rope.get("rope_type", rope.get("type")) in ("dynamic", "longrope"):
            origin = rope.get("original_max_position_embeddings") or getattr(
                config, "original_max_position_embeddings", None
            )
            limits.append(origin or config.max_position_embeddings)
    return min(limits, default=None)


def _ropes(settings: Any) -> list[dict[str, Any]]:
    """Rotary settings, of the model or of each kind of layer."""
    if not isinstance(settings, dict):
        return []
    return [settings, *(value for value in settings.values() if isinstance(value, dict))]


def trial(packer: Packer) -> str:
    """Compute four short sequences both ways with the model itself; say how far apart they are, if they are.

    Whatever a configuration does not tell (masks or positions ignored, caches of another kind) comes out here.
    """
    torch, model = packer.torch, packer.model
    size = model.get_input_embeddings().weight.shape[0]
    stem = [(7 * number + 3) % size for number in range(_TRIAL - 4)]
    texts = [[*stem, 5, 2, 11, 1], [*stem, 5, 9], [*stem, 4, 4, 8], [2, *stem, 6, 1, 7]]
    sequences = [np.array([token % size for token in text], np.int32) for text in texts]
    trie = grown([Item(sequence, len(stem)) for sequence in sequences])
    # What comes last changes nothing before it, so the padding needs no mask.
    whole = np.stack([np.resize(sequence, _TRIAL) for sequence in sequences]).astype(np.int64)
    fine = _ERROR[min(model.dtype.itemsize, 4)]
    with torch.inference_mode():
        expected = model(input_ids=packer.sent(whole), use_cache=False).logits
        if not bool(expected.isfinite().all()):
            raise broken(packer.name)
        expected = [one[len(stem) : len(tokens)] for one, tokens in zip(expected, sequences, strict=True)]
        try:
            # Two rows: ancestors in the cache, in the row, in both.
            apart = _apart(packer, trie, expected, -(-len(trie) // 2))
        except _FAULTS as error:
            return f"computing it so fails ({type(error).__name__}: {str(error).splitlines()[0][:100]})"
        if packer.wide and apart <= fine:
            try:
                packer.wide = _apart(packer, planted(trie, 4 * _TRIAL, even=False), expected, 4 * _TRIAL) <= fine
            except _FAULTS:
                packer.wide = False
    return "" if apart <= fine else f"a trial differs from unpacked computing by {apart:.2g} on average"


def _apart(packer: Packer, trie: Trie, expected: Sequence[Any], step: int) -> float:
    """The largest mean difference of log-probabilities, over the sequences of a trie."""
    torch = packer.torch
    walk = Walk(packer, trie, np.unique(np.concatenate(trie.nodes)))
    found: dict[int, Any] = {}
    while not walk.done:
        row = walk.step(min(walk.place + step, len(trie)))
        found |= dict(zip(row.wanted.tolist(), row.logits, strict=True))
    apart = []
    for right, nodes in zip(expected, trie.nodes, strict=True):
        ours = torch.stack([found[place] for place in nodes.tolist()]).float().log_softmax(-1)
        apart.append((ours - right.float().log_softmax(-1)).abs().mean())
    # NaN is no number to compare with: where it comes up, it is to be the largest.
    return float(torch.stack(apart).nan_to_num(nan=float("inf")).max())
