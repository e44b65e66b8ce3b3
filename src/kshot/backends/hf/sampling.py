"""Token by token: choosing the next token and knowing when to stop, for each row of a batch by itself."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from kshot.backends.hf.loading import invalid_logits
from kshot.backends.texts import TextInProgress, cut_at_stop, summed_pieces, written_pieces
from kshot.core.reasoning import tokens_of, without_thoughts
from kshot.core.records import Generate, Generated, Usage
from kshot.core.serialization import sampling_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kshot.backends.hf.tokens import PromptTokenizer

_BYTES_PER_CHARACTER = 4
"""The most bytes, and so the most tokens, that one character takes."""
_SPARE_TOKENS = 8
_CONTEXT_TOKENS = 16
"""Tokens before the searched ones that are decoded along with them."""


def adjusts_logits(request: Generate) -> bool:
    """Whether a request asks for more than the token with the highest logit."""
    return request.temperature > 0 or (request.repetition_penalty or 1) != 1 or bool(request.no_repeat_ngram_size)


def restart(rows: Iterable[TextInProgress]) -> None:
    """Drop what was written. A text depends on its request alone, so it comes out the same again."""
    for row in rows:
        row.new_tokens, row.stop_reason, row.logprobs = [], "", []


def split_into_batches(
    rows: Sequence[TextInProgress], size: int, limit: int | None, *, equal_lengths: bool = False
) -> Iterator[list[TextInProgress]]:
    """Split rows into batches of at most ``size``, the longest prompts first.

    Finished rows go on being computed until the last row of their batch is finished, so rows are batched only where
    none of them runs past the model's context ``limit`` meanwhile. ``equal_lengths``: all prompts of a batch have the
    same length.
    """
    batch: list[TextInProgress] = []
    for row in sorted(rows, key=lambda row: (-len(row.prompt), -row.max_new_tokens)):
        steps = max([row.max_new_tokens, *(other.max_new_tokens for other in batch)])
        length = max([len(row.prompt), *(len(other.prompt) for other in batch)]) + steps
        unequal = equal_lengths and batch and len(row.prompt) != len(batch[0].prompt)
        if batch and (len(batch) == size or unequal or (limit is not None and length > limit)):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


class ChosenLogprobs:
    """The log-probabilities of the tokens that are chosen for rows, where these want them.

    They are those of the model: of its logits as they were before anything adjusted them.
    """

    def __init__(self, rows: Sequence[TextInProgress]) -> None:
        self._rows = rows
        self._wanted = [index for index, row in enumerate(rows) if row.request.token_logprobs]
        self._logits: Any = None

    def keep(self, logits: Any) -> None:
        """Keep the logits of one step, by row, before they are adjusted."""
        if self._wanted:
            self._logits = logits[self._wanted].float()  # a copy: they are selected by a list

    def record(self, chosen: Sequence[int]) -> None:
        """Add the log-probability of each row's chosen token, unless the row has ended."""
        if not self._wanted:
            return
        tokens = self._logits.new_tensor([chosen[index] for index in self._wanted]).long()
        values = self._logits.gather(1, tokens[:, None])[:, 0] - self._logits.logsumexp(dim=-1)
        for index, value in zip(self._wanted, values.tolist(), strict=True):
            if not self._rows[index].stop_reason:
                self._rows[index].logprobs.append(value)


class RowLogitsProcessor:
    """A logits processor of transformers after which the greedy choice is the choice that each request asks for.

    Sampling is by Gumbel-max: argmax(logits + g), g = -log(-log u), has the distribution softmax(logits). The noise
    comes from the request alone, so a text does not depend on what it is batched with.
    """

    def __init__(self, rows: Sequence[TextInProgress], width: int, name: str, logprobs: ChosenLogprobs) -> None:
        self.rows, self.width, self.name, self.logprobs = rows, width, name, logprobs

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Adjust the scores of every row that is still being written."""
        live = [index for index, row in enumerate(self.rows) if not row.stop_reason]
        # The maximum is NaN where any score is, and it is never infinite in a working model.
        if live and not scores[live].amax(dim=-1).isfinite().all():
            raise invalid_logits(self.name)
        self.logprobs.keep(scores)
        step = input_ids.shape[1] - self.width
        for index in live:
            row = self.rows[index]
            if adjusts_logits(row.request):
                tokens = input_ids[index, self.width - len(row.prompt) :]
                scores[index] = apply_sampling(apply_penalties(scores[index], tokens, row.request), row.request, step)
        return scores


def apply_penalties(scores: Any, tokens: Any, request: Generate) -> Any:
    """Apply the repetition penalty and the ban on repeated n-grams; ``tokens`` are those so far, without padding."""
    if (penalty := request.repetition_penalty) and penalty != 1:
        used = tokens.unique()
        chosen = scores[used]
        scores = scores.index_copy(0, used, (chosen * penalty).where(chosen < 0, chosen / penalty))
    if size := request.no_repeat_ngram_size:
        ids = tokens.tolist()
        tail = ids[len(ids) - size + 1 :]
        banned = [ids[at + size - 1] for at in range(len(ids) - size + 1) if ids[at : at + size - 1] == tail]
        scores = scores.clone()
        scores[banned] = float("-inf")
    return scores


def apply_sampling(scores: Any, request: Generate, step: int) -> Any:
    """Return scores whose argmax is a sample at the temperature, among the top k and the top p."""
    import torch

    if request.temperature <= 0:
        return scores
    scores = scores / request.temperature
    if request.top_k and 0 < request.top_k < scores.shape[0]:
        scores = scores.masked_fill(scores < scores.topk(request.top_k).values[-1], float("-inf"))
    if request.top_p is not None and request.top_p < 1:
        ordered, places = scores.sort(descending=True)
        # On a GPU, running sums of floats differ from run to run.
        shares = ordered.softmax(dim=0).cpu()
        # A token stays while those before it have not reached top_p: the first one always stays.
        dropped = shares.cumsum(dim=0) - shares >= request.top_p
        dropped[0] = False
        dropped = torch.zeros_like(dropped).scatter(0, places.cpu(), dropped).to(scores.device)
        scores = scores.masked_fill(dropped, float("-inf"))
    return scores + gumbel_noise(request, step, scores.shape[0]).to(scores)


def drawn_seed(request: Generate, *parts: int) -> int:
    """Return a seed of the request's own, so that replicas differ and a text does not depend on its batch."""
    text = "\0".join(map(str, (request.seed, sampling_digest(request), *parts)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def gumbel_noise(request: Generate, step: int, size: int) -> Any:
    """Draw standard Gumbel noise for one step of one request: the same on every device and in every batch."""
    import torch

    source = torch.Generator("cpu").manual_seed(drawn_seed(request, step))
    return -torch.empty(size, dtype=torch.float64).exponential_(generator=source).log()


class RowStoppingCriterion:
    """A stopping criterion of transformers, by row: a stop token, a stop string, or the length limit."""

    def __init__(self, rows: Sequence[TextInProgress], tokenizer: PromptTokenizer, logprobs: ChosenLogprobs) -> None:
        self.rows, self.tokenizer, self.logprobs = rows, tokenizer, logprobs

    def __call__(self, input_ids: Any, _scores: Any, **_options: Any) -> Any:
        """Add the last token to every unfinished row, and say which rows are finished."""
        chosen = input_ids[:, -1].tolist()
        self.logprobs.record(chosen)
        for row, token in zip(self.rows, chosen, strict=True):
            if not row.stop_reason:
                append_token(row, token, self.tokenizer)
        return input_ids.new_tensor([bool(row.stop_reason) for row in self.rows]).bool()


def write_rows(
    model: Any, inputs: Mapping[str, Any], rows: Sequence[TextInProgress], name: str, tokenizer: PromptTokenizer
) -> None:
    """Write rows to their ends by transformers' own loop; ``inputs`` are what the model reads of them."""
    import torch
    from transformers import GenerationConfig

    longest = max(row.max_new_tokens for row in rows)
    logprobs = ChosenLogprobs(rows)
    with torch.inference_mode():
        model.generate(
            **inputs,
            generation_config=GenerationConfig(do_sample=False, num_beams=1, max_new_tokens=longest, pad_token_id=0),
            logits_processor=[RowLogitsProcessor(rows, inputs["input_ids"].shape[1], name, logprobs)],
            stopping_criteria=[RowStoppingCriterion(rows, tokenizer, logprobs)],
        )


def append_token(row: TextInProgress, token: int, tokenizer: PromptTokenizer) -> None:
    """Add a token to a row, and set its stop reason if that ends it."""
    row.new_tokens.append(token)
    if token in row.stop_ids or (row.request.stop and _has_stop_string(row, tokenizer)):
        row.stop_reason = "stop"
    elif len(row.new_tokens) >= row.max_new_tokens:
        row.stop_reason = row.length_reason


def _has_stop_string(row: TextInProgress, tokenizer: PromptTokenizer) -> bool:
    # Only the tail can contain a stop string that was not there one token ago.
    tail = row.new_tokens[-(_BYTES_PER_CHARACTER * max(map(len, row.request.stop)) + _SPARE_TOKENS) :]
    earlier = row.new_tokens[: len(row.new_tokens) - len(tail)][-_CONTEXT_TOKENS:]
    before = [*row.prompt[-_CONTEXT_TOKENS:], *earlier][-_CONTEXT_TOKENS:]
    return cut_at_stop(tokenizer.decode_after(before, tail), row.request.stop) is not None


def generated_response(row: TextInProgress, tokenizer: PromptTokenizer) -> Generated:
    """Return the response of a finished row, from its own new tokens."""
    new = row.new_tokens
    kept = new[:-1] if new and new[-1] in row.stop_ids else new
    text = tokenizer.decode_after(row.prompt, kept)
    short = cut_at_stop(text, row.request.stop)
    usage = Usage(len(row.prompt), len(new))
    reason = row.stop_reason if short is None else "stop"
    shown = text if short is None else short
    tokens = None
    if row.request.token_logprobs:
        pieces = written_pieces(tokenizer.decode_after, row.prompt, kept)
        tokens = tokens_of(summed_pieces(pieces, row.logprobs), shown)
    reply = Generated(shown, reason, usage, "", row.cut_tokens, tokens)
    return without_thoughts(reply, opened=tokenizer.opens_thoughts(row.prompt))
