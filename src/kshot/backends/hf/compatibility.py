"""Which models can be tree-packed, and up to what length: by their configuration, then by a trial."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kshot.backends.hf.model_errors import invalid_logits
from kshot.backends.hf.packing import PackedModel
from kshot.backends.hf.plain_batches import is_stateful
from kshot.backends.hf.tree_batches import plan_tree_batches
from kshot.backends.hf.trie import TokenSequence, Trie, build_trie
from kshot.backends.hf.trie_pass import TriePass

_REQUIRED_ARGUMENTS = ("attention_mask", "position_ids", "past_key_values", "use_cache")
_PACKABLE_LAYERS = {"full_attention", "sliding_attention", "chunked_attention"}
_MIN_WINDOW_TOKENS = 16
_TRIAL_TREE_TOKENS = 256
_TRIAL_ERRORS = (RuntimeError, TypeError, ValueError, AttributeError, LookupError, AssertionError)
_ROUNDING = {4: 2e-3, 2: 0.25, 1: 0.25}
"""By bytes of the dtype: the mean difference of log-probabilities up to which it is rounding. A wrong mask gives 1."""


def packing_obstacle(model: Any, arguments: frozenset[str]) -> str:
    """Say why a model cannot be tree-packed, from its configuration; empty if nothing there forbids it.

    Configurations differ by architecture, so each setting is looked for.
    """
    config = model.config.get_text_config()
    layers = set(getattr(config, "layer_types", None) or ())
    if is_stateful(model) or layers - _PACKABLE_LAYERS:
        return "it keeps a state from token to token"
    if getattr(config, "alibi", False) or config.model_type in ("bloom", "mpt"):
        return "its attention has position biases (ALiBi)"
    kernel = model.config._attn_implementation  # noqa: SLF001 - transformers has no public name for it
    if kernel not in ("sdpa", "eager"):
        return f"its attention kernel ({kernel}) takes no mask"
    if missing := [name for name in _REQUIRED_ARGUMENTS if name not in arguments]:
        return f"it takes no {missing[0]}"
    if (longest := max_packed_length(config)) is not None and longest < _MIN_WINDOW_TOKENS:
        return f"its attention window has {longest} tokens"
    return ""


def max_packed_length(config: Any) -> int | None:
    """Return the longest sequence for which a mask of ancestors is right: up to a window, all tokens are seen."""
    layers = getattr(config, "layer_types", None)
    limits = []
    window = getattr(config, "sliding_window", None)
    if window and ("sliding_attention" in layers if layers else getattr(config, "use_sliding_window", True)):
        limits.append(window)
    if layers and "chunked_attention" in layers:
        limits.append(config.attention_chunk_size)
    if "local" in (getattr(config, "attention_layers", None) or ()):
        limits.append(config.window_size)
    for rope in _rope_settings(getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)):
        # These turn by other angles once a sequence is longer than this, so lengths must not be mixed.
        if rope.get("rope_type", rope.get("type")) in ("dynamic", "longrope"):
            origin = rope.get("original_max_position_embeddings") or getattr(
                config, "original_max_position_embeddings", None
            )
            limits.append(origin or config.max_position_embeddings)
    return min(limits, default=None)


def _rope_settings(settings: Any) -> list[dict[str, Any]]:
    """Return the rotary settings, of the model or of each type of layer."""
    if not isinstance(settings, dict):
        return []
    return [settings, *(value for value in settings.values() if isinstance(value, dict))]


_LEAST_LOGPROB = -1e4
"""What stands for -inf, the log-probability of a token that a model rules out, where differences are taken."""


def trial_failure(packed: PackedModel) -> str:
    """Compute short sequences both ways with the model itself; say how they differ, empty if they agree.

    The trial shows what a configuration does not say: masks or positions that are ignored, caches of another kind.
    With compiled parts the sequences are longer, so that their rows and tree batches go through these.
    """
    torch, model = packed.torch, packed.model
    vocabulary = model.get_input_embeddings().weight.shape[0]
    texts, start = _long_texts() if packed.compiled else _short_texts()
    sequences = [np.array([token % vocabulary for token in text], np.int32) for text in texts]
    trie = build_trie([TokenSequence(sequence, start) for sequence in sequences])
    # The padding comes last and changes nothing before it, so it needs no mask.
    longest = max(map(len, sequences))
    padded = np.stack([np.resize(sequence, longest) for sequence in sequences]).astype(np.int64)
    tolerance = _ROUNDING[min(model.dtype.itemsize, 4)]
    with torch.inference_mode():
        expected = model(input_ids=packed.to_device(padded), use_cache=False).logits
        if bool((expected.isnan() | expected.isposinf()).any()):  # -inf: the model rules a token out
            raise invalid_logits(packed.name)
        expected = [logits[start : len(tokens)] for logits, tokens in zip(expected, sequences, strict=True)]
        try:
            # Two rows: ancestors in the cache, in the row, in both.
            difference = _max_difference(packed, trie, expected, -(-len(trie) // 2))
        except _TRIAL_ERRORS as error:
            return f"computing it so fails ({type(error).__name__}: {str(error).splitlines()[0][:100]})"
        if packed.batches_trees and difference <= tolerance:
            batched = plan_tree_batches(trie, _TRIAL_TREE_TOKENS, equal_width=packed.compiled is not None)
            try:
                packed.batches_trees = _max_difference(packed, batched, expected, len(trie)) <= tolerance
            except _TRIAL_ERRORS:
                packed.batches_trees = False
    return "" if difference <= tolerance else f"a trial differs from unpacked computing by {difference:.2g} on average"


def _short_texts() -> tuple[list[list[int]], int]:
    """Return sequences of at most 12 tokens, and from which place on they are compared."""
    prefix = [7 * number + 3 for number in range(8)]
    return [[*prefix, 5, 2, 11, 1], [*prefix, 5, 9], [*prefix, 4, 4, 8], [2, *prefix, 6, 1, 7]], len(prefix)


def _long_texts() -> tuple[list[list[int]], int]:
    """Return the sequences of three trees, each of which is longer than a block of a mask."""
    stems = [[root, *(7 * number + 3 for number in range(8))] for root in (2, 5, 11)]
    tails = [[(number * (root + 3) + number**2) % 97 for number in range(32)] for root in range(4)]
    return [[*stem, branch, *tail] for stem in stems for branch, tail in enumerate(tails)], len(stems[0])


def _max_difference(packed: PackedModel, trie: Trie, expected: Sequence[Any], step: int) -> float:
    """Return the largest mean difference of log-probabilities among the sequences of a trie."""
    torch = packed.torch
    trie_pass = TriePass(packed, trie, np.unique(np.concatenate(trie.nodes)))
    found: dict[int, Any] = {}
    while not trie_pass.done:
        row = trie_pass.step(min(trie_pass.place + step, len(trie)))
        found |= dict(zip(row.wanted.tolist(), row.logits, strict=True))
    differences = []
    for right, nodes in zip(expected, trie.nodes, strict=True):
        ours = torch.stack([found[place] for place in nodes.tolist()])
        both = [logits.float().log_softmax(-1).clamp(min=_LEAST_LOGPROB) for logits in (ours, right)]
        differences.append((both[0] - both[1]).abs().mean())
    # NaN compares with nothing, so it counts as the largest difference.
    return float(torch.stack(differences).nan_to_num(nan=float("inf")).max())
