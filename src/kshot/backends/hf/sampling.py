"""Token by token: choosing the next one and knowing when to stop, each row of a batch for itself."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kshot.core.errors import BackendError
from kshot.core.records import Generate, Generated, Usage, digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kshot.backends.hf.tokens import Tokens


@dataclass(slots=True)
class Row:
    """One text being written: what it starts from, how far it may go, and how it ended."""

    request: Generate
    prompt: tuple[int, ...]
    room: int
    ends: frozenset[int]
    told: list[int] = field(default_factory=list)
    finish: str = ""

    @property
    def shaped(self) -> bool:
        """Whether anything but the model's own logits decides the next token."""
        asked = self.request
        return asked.temperature > 0 or (asked.repetition_penalty or 1) != 1 or bool(asked.no_repeat_ngram_size)


def begin_again(rows: Iterable[Row]) -> None:
    """Forget what was written: a text depends on its request alone, so it comes out the same."""
    for row in rows:
        row.told, row.finish = [], ""


def broken(name: str) -> BackendError:
    """Say that a model's output is not numbers."""
    return BackendError(
        "the model's logits are NaN or infinite",
        where=name,
        hint="Try another dtype (float32, or bfloat16 in place of float16); otherwise its weights are damaged.",
    )


def batches(rows: Sequence[Row], size: int, limit: int | None, *, equal: bool = False) -> Iterator[list[Row]]:
    """Longest prompt first, at most ``size`` together, none of which runs past the model's context for another.

    Rows that are done go on being computed until the last is, so a nearly full one cannot wait for a long answer.
    ``equal``: prompts of one length only.
    """
    batch: list[Row] = []
    for row in sorted(rows, key=lambda row: (-len(row.prompt), -row.room)):
        steps = max([row.room, *(other.room for other in batch)])
        reach = max([len(row.prompt), *(len(other.prompt) for other in batch)]) + steps
        uneven = equal and batch and len(row.prompt) != len(batch[0].prompt)
        if batch and (len(batch) == size or uneven or (limit is not None and reach > limit)):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


class NextToken:
    """A logits processor after which the greedy choice is the choice asked for.

    Sampling is by Gumbel-max: argmax(logits + g), g = -log(-log u), has the distribution softmax(logits). The noise
    comes from the request alone, so a text does not depend on what it is batched with.
    """

    def __init__(self, rows: Sequence[Row], width: int, name: str) -> None:
        self.rows, self.width, self.name = rows, width, name

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Shape the scores of every row that is still being written."""
        live = [index for index, row in enumerate(self.rows) if not row.finish]
        # The maximum is NaN where any score is, and never infinite in a healthy model.
        if live and not scores[live].amax(dim=-1).isfinite().all():
            raise broken(self.name)
        step = input_ids.shape[1] - self.width
        for index in live:
            row = self.rows[index]
            if row.shaped:
                seen = input_ids[index, self.width - len(row.prompt) :]
                scores[index] = sampled(penalised(scores[index], seen, row.request), row.request, step)
        return scores


def penalised(scores: Any, seen: Any, asked: Generate) -> Any:
    """Scores after the repetition penalty and the ban on repeated n-grams; padding is not among the seen."""
    if (penalty := asked.repetition_penalty) and penalty != 1:
        some = seen.unique()
        chosen = scores[some]
        scores = scores.index_copy(0, some, (chosen * penalty).where(chosen < 0, chosen / penalty))
    if size := asked.no_repeat_ngram_size:
        told = seen.tolist()
        tail = told[len(told) - size + 1 :]
        banned = [told[at + size - 1] for at in range(len(told) - size + 1) if told[at : at + size - 1] == tail]
        scores = scores.clone()
        scores[banned] = float("-inf")
    return scores


def sampled(scores: Any, asked: Generate, step: int) -> Any:
    """Scores whose argmax is a sample at the temperature, among the top k and the top p."""
    import torch

    if asked.temperature <= 0:
        return scores
    scores = scores / asked.temperature
    if asked.top_k and 0 < asked.top_k < scores.shape[0]:
        scores = scores.masked_fill(scores < scores.topk(asked.top_k).values[-1], float("-inf"))
    if asked.top_p is not None and asked.top_p < 1:
        ordered, places = scores.sort(descending=True)
        shares = ordered.softmax(dim=0)
        # A token stays while those before it have not reached top_p: the first one always does.
        beyond = shares.cumsum(dim=0) - shares >= asked.top_p
        beyond[0] = False
        scores = scores.masked_fill(torch.zeros_like(beyond).scatter(0, places, beyond), float("-inf"))
    return scores + noise(asked, step, scores.shape[0]).to(scores)


def noise(asked: Generate, step: int, size: int) -> Any:
    """Draw standard Gumbel noise for one step of one request, the same wherever and with whomever it runs."""
    import torch

    seed = hashlib.blake2b(f"{asked.seed}\0{digest(asked)}\0{step}".encode(), digest_size=8).digest()
    source = torch.Generator("cpu").manual_seed(int.from_bytes(seed, "big") >> 1)
    return -torch.empty(size, dtype=torch.float64).exponential_(generator=source).log()


class Halt:
    """A stopping criterion per row: an end token, a stop string, or no room left."""

    def __init__(self, rows: Sequence[Row], tokens: Tokens) -> None:
        self.rows, self.tokens = rows, tokens

    def __call__(self, input_ids: Any, _scores: Any, **_options: Any) -> Any:
        """Note which rows have ended, and how."""
        for row, token in zip(self.rows, input_ids[:, -1].tolist(), strict=True):
            if not row.finish:
                advance(row, token, self.tokens)
        return input_ids.new_tensor([bool(row.finish) for row in self.rows]).bool()


def advance(row: Row, token: int, tokens: Tokens) -> None:
    """Add a token to a row, and note whether that ends it."""
    row.told.append(token)
    if token in row.ends or (row.request.stop and _stopped(row, tokens)):
        row.finish = "stop"
    elif len(row.told) >= row.room:
        row.finish = "length"


def _stopped(row: Row, tokens: Tokens) -> bool:
    # Only the tail can hold a stop string that was not there one token ago; 4 bytes are the most a character takes.
    told = row.told[-(4 * max(map(len, row.request.stop)) + 8) :]
    earlier = row.told[: len(row.told) - len(told)][-16:]
    before = [*row.prompt[-16:], *earlier][-16:]
    return cut(tokens.write(before, told), row.request.stop) is not None


def cut(text: str, stop: Sequence[str]) -> str | None:
    """Keep the text before the first stop string in it; None where there is none."""
    places = [place for place in (text.find(string) for string in stop if string) if place >= 0]
    return text[: min(places)] if places else None


def finished(row: Row, tokens: Tokens) -> Generated:
    """Tell what a row came to, from its own new tokens."""
    kept = row.told[:-1] if row.told and row.told[-1] in row.ends else row.told
    text = tokens.write(row.prompt, kept)
    short = cut(text, row.request.stop)
    usage = Usage(len(row.prompt), len(row.told))
    return Generated(text, row.finish, usage) if short is None else Generated(short, "stop", usage)
