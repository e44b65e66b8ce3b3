"""One loaded model: which way each request is computed, how many tokens that took, and what the user should know."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from kshot.backends.hf.compiling import CompiledModel, compiling_obstacle
from kshot.backends.hf.loading import input_device, invalid_logits, is_split, out_of_memory
from kshot.backends.hf.packing import PackedModel
from kshot.backends.hf.sampling import restart, split_into_batches, write_rows, write_texts
from kshot.backends.hf.scoring import PendingRows, TriePass, finish_first, score_trie
from kshot.backends.hf.tokens import PromptTokenizer, TokenizedLoglik, TokenSpan
from kshot.backends.hf.trie import (
    IdArray,
    TokenCounts,
    TokenSequence,
    Trie,
    build_trie,
    cut_into_blocks,
    plan_tree_batches,
)
from kshot.backends.texts import TextInProgress
from kshot.core.errors import BackendError
from kshot.core.records import Likelihood, Loglik, Scored

# ---- plain batches, for models that cannot be tree-packed: sequences padded to one length, and ``generate`` ----

PaddingSide: TypeAlias = Literal["left", "right"]

_MAX_LOGITS = 1 << 29
"""The most logits of a batch of texts that are scored, unless one text alone has more."""


@dataclass(slots=True)
class _PlainSequence:
    """One sequence to run, without its last token, and the continuations that it answers."""

    tokens: IdArray
    rank: tuple[int, int, int]
    wanted: list[tuple[TokenizedLoglik, int, TokenSpan]] = field(default_factory=list)

    @property
    def start(self) -> int:
        """The first position whose prediction is needed."""
        return min(span.start for _, _, span in self.wanted) - 1


class PlainModel:
    """A model that runs on batches of padded sequences."""

    def __init__(self, model: Any, torch: Any, name: str, *, arguments: frozenset[str], side: PaddingSide) -> None:
        """Take a loaded model; ``arguments`` are those that its ``forward`` accepts."""
        self._model, self._torch, self._name, self._arguments = model, torch, name, arguments
        # A stateful model may read the padding in spite of the mask: it must come last there, or not at all.
        self._masks_padding = "attention_mask" in arguments and not is_stateful(model)
        self._side: PaddingSide = side if self._masks_padding else "right"
        self._device, self._is_split = input_device(model, torch), is_split(model)
        self._max_batch = 1 << 30
        self.computed = 0

    def _padded(self, sequences: Sequence[Sequence[int] | IdArray], side: PaddingSide) -> dict[str, Any]:
        """Return tensors of equal length: tokens, attention mask, and positions from the first real token on."""
        width = max(map(len, sequences))
        ids = self._torch.zeros((len(sequences), width), dtype=self._torch.long)
        mask = self._torch.zeros_like(ids)
        for index, sequence in enumerate(sequences):
            place = slice(width - len(sequence), None) if side == "left" else slice(len(sequence))
            ids[index, place] = self._torch.as_tensor(sequence)
            mask[index, place] = 1
        tensors = {"input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(-1) - 1).clamp(min=0)}
        return {name: tensor.to(self._device) for name, tensor in tensors.items()}

    def _halve(self, size: int, error: Exception) -> int:
        """After out of memory, allow half as many sequences in a batch from now on."""
        if size <= 1:
            raise out_of_memory(self._name, self._device) from error
        self._max_batch = size // 2
        if self._device.type == "cuda":
            self._torch.cuda.empty_cache()
        return self._max_batch

    # ---- Loglik ----

    def score(self, requests: Sequence[TokenizedLoglik], size: int) -> Iterator[tuple[Loglik, Scored]]:
        """Answer in batches of ``size`` sequences, the longest first, each request as soon as it is complete."""
        sequences: dict[bytes, _PlainSequence] = {}
        for number, request in enumerate(requests):
            longest = request.longest
            for index, span in enumerate(request.spans):
                # The last token is predicted and never read, so all one-token continuations share one sequence.
                read = span.ids[:-1]
                rank = (-longest, number, -len(read))
                sequences.setdefault(read.tobytes(), _PlainSequence(read, rank)).wanted.append((request, index, span))
        # The longest request comes first, its options together: it is journalled before the next one begins.
        ordered = sorted(sequences.values(), key=lambda sequence: sequence.rank)
        at = 0
        while at < len(ordered):
            batch = self._limited(ordered[at : at + min(size, self._max_batch)])
            try:
                found = self._run(batch)
            except self._torch.OutOfMemoryError as error:
                self._halve(len(batch), error)
                continue
            while found:  # logits are wide: each is dropped as soon as it is summed up
                yield from self._sum_up(*found.pop(0))
            at += len(batch)

    def _limited(self, batch: Sequence[_PlainSequence]) -> Sequence[_PlainSequence]:
        """Return as many of the first sequences of a batch as the limit on logits allows; long texts need many."""
        most = _MAX_LOGITS // int(self._model.config.get_text_config().vocab_size)
        selects = "logits_to_keep" in self._arguments and self._side == "left"
        widest = 0
        for count, sequence in enumerate(batch):
            widest = max(widest, len(sequence.tokens) - (sequence.start if selects else 0))
            if count and (count + 1) * widest > most:
                return batch[:count]
        return batch

    def _run(self, batch: Sequence[_PlainSequence]) -> list[tuple[_PlainSequence, Any]]:
        """Return the logits that each sequence of a batch needs."""
        inputs = self._padded([sequence.tokens for sequence in batch], self._side)
        width = inputs["input_ids"].shape[1]
        shifts = [width - len(sequence.tokens) if self._side == "left" else 0 for sequence in batch]
        kept = range(width)
        if "logits_to_keep" in self._arguments:
            # Logits are wide: ask for the columns that some row needs and no others.
            pairs = zip(batch, shifts, strict=True)
            needed = {at + shift for sequence, shift in pairs for at in range(sequence.start, len(sequence.tokens))}
            kept = range(min(needed), max(needed) + 1)
            # The last layer of a split model is elsewhere: only a number is right there. The last column is needed.
            last = self._torch.arange(kept.start, kept.stop, device=self._device)
            inputs["logits_to_keep"] = len(kept) if self._is_split else last
        inputs = {name: value for name, value in inputs.items() if name in self._arguments}
        with self._torch.inference_mode():
            logits = self._model(**inputs, use_cache=False).logits
        self.computed += inputs["input_ids"].numel()
        starts = [sequence.start + shift - kept.start for sequence, shift in zip(batch, shifts, strict=True)]
        return [
            (sequence, row[first : first + len(sequence.tokens) - sequence.start])
            for sequence, row, first in zip(batch, logits, starts, strict=True)
        ]

    def _sum_up(self, sequence: _PlainSequence, logits: Any) -> Iterator[tuple[Loglik, Scored]]:
        """Sum log softmax(logits)[token] over each wanted span, in float32; ``logits`` begin at ``sequence.start``."""
        logits = logits.float()
        totals = logits.logsumexp(dim=-1)
        if not totals.isfinite().all():
            raise invalid_logits(self._name)
        likeliest = logits.argmax(dim=-1)
        for request, index, span in sequence.wanted:
            targets = self._torch.tensor(span.tokens[span.start :], device=logits.device)
            first = span.start - 1 - sequence.start
            found = logits[first:].gather(1, targets[:, None])[:, 0] - totals[first:]
            greedy = bool((likeliest[first : first + len(targets)] == targets).all())
            likelihood = Likelihood(found.double().sum().item(), len(targets), greedy)
            if (scored := request.add(index, likelihood, found.tolist() if request.pieces else ())) is not None:
                yield request.request, scored

    # ---- Generate ----

    def generate(
        self, rows: Sequence[TextInProgress], size: int, limit: int | None, tokenizer: PromptTokenizer
    ) -> Iterator[TextInProgress]:
        """Write the rows to their ends, batch by batch."""
        # RWKV's own generate() gives other texts in a batch than alone (seen with transformers 5.22).
        size = 1 if "state" in self._arguments else min(size, self._max_batch)
        equal_lengths = not self._masks_padding
        batches = deque(split_into_batches(rows, size, limit, equal_lengths=equal_lengths))
        while batches:
            batch = batches.popleft()
            try:
                # generate() works the position ids out from the mask.
                inputs = self._padded([row.prompt for row in batch], "left")
                del inputs["position_ids"]
                write_rows(self._model, inputs, batch, self._name, tokenizer)
                self.computed += inputs["input_ids"].numel()
            except self._torch.OutOfMemoryError as error:
                half = self._halve(len(batch), error)
                restart(batch)
                left = [row for some in (batch, *batches) for row in some]
                batches = deque(split_into_batches(left, half, limit, equal_lengths=equal_lengths))
            else:
                yield from batch


def is_stateful(model: Any) -> bool:
    """Whether a model keeps a state from token to token."""
    return bool(getattr(model, "_is_stateful", False))  # models of remote code may lack it


# ---- which models can be tree-packed: by their configuration, then by a trial ----

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


T = TypeVar("T")


# ---- the model ----


class ModelRunner:
    """A model that computes tries where it can, and plain batches where it cannot.

    ``alone``: it computes every request by itself, and nothing but the request decides how. ``compiles``: parts of it
    are compiled, where a trial shows that they may be.
    """

    def __init__(
        self,
        model: Any,
        torch: Any,
        name: str,
        *,
        row_tokens: int | None,
        side: PaddingSide,
        alone: bool,
        compiles: bool = False,
    ) -> None:
        self._model, self._torch, self._name = model, torch, name
        arguments = frozenset(inspect.signature(model.forward).parameters)
        self._plain = PlainModel(model, torch, name, arguments=arguments, side=side)
        self._row_tokens, self._alone = row_tokens, alone
        self._notes: dict[str, None] = {}
        self._requested = 0
        self.pending: PendingRows = deque()
        self._max_packed_length = max_packed_length(model.config.get_text_config())
        self._packed = self._try_packing(arguments)
        if compiles:
            self._try_compiling()

    def _try_packing(self, arguments: frozenset[str]) -> PackedModel | None:
        reason = packing_obstacle(self._model, arguments)
        if not reason:
            options: Any = {"arguments": arguments, "row_tokens": self._row_tokens, "alone": self._alone}
            packed = PackedModel(self._model, self._torch, self._name, **options)
            if not (reason := trial_failure(packed)):
                packed.computed = 0
                return packed
        self._notes[f"runs in plain batches, not as a trie: {reason}"] = None
        return None

    def _try_compiling(self) -> None:
        """Compile what can be compiled: all parts, all but the attention, or none, as trials allow."""
        packed = self._packed
        reason = compiling_obstacle(self._model, alone=self._alone) if packed else "it runs in plain batches"
        if packed is not None and not reason:
            batches_trees = packed.batches_trees
            packed.compiled = CompiledModel(self._model, self._torch)
            lost = "a trial of tree batches differs from unpacked computing"
            while reason := trial_failure(packed) or (lost if batches_trees > packed.batches_trees else ""):
                packed.batches_trees = batches_trees
                if not packed.compiled.drop_attention(reason):
                    packed.compiled = None
                    break
            packed.computed = 0
        if reason:
            self._notes[f"runs uncompiled: {reason}"] = None

    @property
    def token_counts(self) -> TokenCounts:
        """Tokens requested, and computed."""
        packed = self._packed.computed if self._packed else 0
        return TokenCounts(self._requested, packed + self._plain.computed)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about how it worked."""
        compiled = self._packed.compiled if self._packed else None
        return (*self._notes, *(compiled.notes if compiled else ()))

    def score(self, requests: Sequence[TokenizedLoglik], size: int) -> Iterator[tuple[Loglik, Scored]]:
        """Answer the requests, each as soon as it is complete. The last rows may stay ``pending``."""
        self._check_ids(span.ids for request in requests for span in request.spans)
        packed: list[TokenizedLoglik] = []
        plain: list[TokenizedLoglik] = []
        for request in requests:
            (packed if self._can_pack(request.longest) else plain).append(request)
        for model, some in self._packed_groups(packed):
            trie = self._build_trie(self._counted(_sequences(some)), model)
            if model.batches_trees and not self._alone:
                trie = plan_tree_batches(trie, model.row_lengths.max_tree_tokens, equal_width=model.is_cuda)
            yield from score_trie(model, trie, some, self.pending)
        for some in self._groups(plain):
            self._counted(_sequences(some))
            yield from self._plain.score(some, size)

    def finish_pending(self) -> Iterator[tuple[Loglik, Scored]]:
        """Answer what is still pending."""
        while self.pending:
            yield from finish_first(self.pending)

    def generate(
        self, rows: Sequence[TextInProgress], size: int, limit: int | None, tokenizer: PromptTokenizer
    ) -> Iterator[TextInProgress]:
        """Write all rows to their ends, and give each back as soon as it is finished."""
        self._check_ids(np.array(row.prompt, np.int32) for row in rows)
        packed: list[TextInProgress] = []
        plain: list[TextInProgress] = []
        for row in rows:
            (packed if self._can_pack(len(row.prompt) + row.max_new_tokens) else plain).append(row)
        for model, texts in self._packed_groups(packed):
            yield from self._generate_packed(model, texts, size, tokenizer)
        for texts in self._groups(plain):
            self._counted(_prompts(texts))
            yield from self._plain.generate(texts, size, limit, tokenizer)

    def _generate_packed(
        self, model: PackedModel, rows: Sequence[TextInProgress], size: int, tokenizer: PromptTokenizer
    ) -> Iterator[TextInProgress]:
        left = {id(row): row for row in rows}
        size = model.max_texts(size, max(len(row.prompt) + row.max_new_tokens for row in rows))
        while left:
            trie = self._build_trie(self._counted(_prompts(left.values())), model)
            try:
                for row in write_texts(model, trie, [*left.values()], size, tokenizer):
                    del left[id(row)]
                    yield row
            except self._torch.OutOfMemoryError as error:
                size //= 2
                if size < 1:
                    raise out_of_memory(self._name, model.device) from error
                model.prefixes.clear()
                restart(left.values())
            if left and model.is_cuda:  # after the except block: the error keeps the tensors of its frames alive
                self._torch.cuda.empty_cache()

    def _can_pack(self, longest: int) -> bool:
        """Whether sequences of this length are computed as a trie."""
        if self._packed is None or self._max_packed_length is None or longest <= self._max_packed_length:
            return self._packed is not None
        limit = self._max_packed_length
        note = f"runs sequences over {limit} tokens, its attention window, in plain batches"
        self._notes[note] = None
        return False

    def _groups(self, some: Sequence[T]) -> list[Sequence[T]]:
        """Return what is computed together."""
        return [[one] for one in some] if self._alone else [some] if some else []

    def _packed_groups(self, some: Sequence[T]) -> list[tuple[PackedModel, Sequence[T]]]:
        return [(self._packed, group) for group in self._groups(some)] if self._packed is not None else []

    def _counted(self, sequences: list[TokenSequence]) -> list[TokenSequence]:
        """Return the sequences, whose tokens are now requested."""
        self._requested += sum(len(sequence.tokens) for sequence in sequences)
        return sequences

    def _build_trie(self, sequences: Sequence[TokenSequence], model: PackedModel) -> Trie:
        """Lay the sequences out; those of a request by itself in blocks."""
        trie = build_trie(sequences, model.cached_tokens())
        return cut_into_blocks(trie, model.row_lengths.block_tokens) if self._alone else trie

    def _check_ids(self, sequences: Iterable[IdArray]) -> None:
        """Refuse tokens for which the model has no weights."""
        largest = max((int(tokens.max()) for tokens in sequences), default=0)
        if largest >= (rows := self._model.get_input_embeddings().weight.shape[0]):
            what = f"the tokenizer gave token {largest} and the model knows {rows}"
            raise BackendError(
                what, where=self._name, hint="The tokenizer is another model's: put the right one there."
            )


def _sequences(requests: Iterable[TokenizedLoglik]) -> list[TokenSequence]:
    return [sequence for request in requests for sequence in request.sequences]


def _prompts(rows: Iterable[TextInProgress]) -> list[TokenSequence]:
    return [TokenSequence(np.array(row.prompt, np.int32), len(row.prompt) - 1) for row in rows]
