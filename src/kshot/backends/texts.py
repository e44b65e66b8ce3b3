"""What models share: texts as tokenizers accept them, what each token shows, and requests that are being answered."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, Generic, TypeAlias, TypeVar

from kshot.core.content import Content, texts_in, with_texts
from kshot.core.errors import UsageError
from kshot.core.records import Failed, Generate, Likelihood, Loglik, Message, RollingStart, Scored, TokenLogprobs


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates by U+FFFD: no tokenizer and no JSON reader accepts them."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def common_length(left: Sequence[Any], right: Sequence[Any]) -> int:
    """Return the length of the common prefix of two texts, or of two tuples."""
    low, high = 0, min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    while low < high:  # by halves: slices compare much faster than characters do
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def valid_message(message: Message) -> Message:
    """Return a message without lone surrogates in its texts."""
    return Message(message.role, valid_content(message.content))


def valid_content(content: Content) -> Content:
    """Return a content without lone surrogates in its texts."""
    if isinstance(content, str):
        return replace_surrogates(content)
    return with_texts(content, [replace_surrogates(text) for text in texts_in(content)])


def cut_at_stop(text: str, stop: Sequence[str]) -> str | None:
    """Return the text before its first stop string, or None if it has none."""
    places = [place for place in (text.find(string) for string in stop) if place >= 0]
    return text[: min(places)] if places else None


def scored_parts(request: Loglik, context: str) -> tuple[str, tuple[str, ...]]:
    """Return the context and the texts to score after it; white space at the end of the context may go to the texts.

    ``context``: the prompt as the model reads it; messages have been rendered by the chat template.
    """
    bare = context.rstrip()
    spaced = request.spaced and bare and not request.prompt.messages
    if not spaced and request.prompt.rules == "kshot":
        return context, request.continuations
    moved = context[len(bare) :]
    return bare, tuple(moved + text for text in request.continuations)


def unscorable(text: str, context: str) -> Failed:
    """Return the failure of a request one of whose texts has no token that a model predicts after the context."""
    quoted = f"{text[:60]!r} after {context[-60:]!r}"
    why = "" if context else "; a first token is predicted only after a prompt, or after BOS (add_bos)"
    return Failed("no_tokens", f"no token of the text can be scored: {quoted}{why}")


# ---- what is longer than a window ----


def cuts_left(truncate: str | None) -> bool:
    """Whether prompts that are too long are cut from the left; any other value is an error."""
    if truncate not in (None, "left"):
        raise UsageError(f"truncate is {truncate!r}", hint="Use left, or leave it out.")
    return truncate == "left"


def start_token(start: RollingStart, bos: int | None, eos: int | None) -> int | None:
    """Return the token before a document; None if there is none or none is wanted. Without a choice: BOS, else EOS."""
    usual = bos if bos is not None else eos
    return {"auto": usual, "lm-eval": usual, "bos": bos, "eos": eos, "none": None}[start]


def rolling_windows(tokens: Sequence[int], first: int | None, limit: int | None) -> Iterator[tuple[list[int], int]]:
    """Cut a document into windows of at most ``limit`` read tokens; each token is scored in one of them.

    Each window is its tokens and the index of the first one that is scored; its last token is predicted and not read.
    The first window begins with the token ``first`` (None: with the document's own first token, which is not scored).
    Later ones begin one token before those that they score, and the last one begins as early as its length allows.
    """
    whole = [*([] if first is None else [first]), *tokens]
    size = len(whole) - 1 if limit is None else limit
    edges = [*range(0, len(whole) - 1, max(size, 1)), len(whole) - 1]
    for before, end in pairwise(edges):
        # The last window is filled up with context, except where it is the first.
        start = max(end - size, 0)
        yield whole[start : end + 1], before + 1 - start


# ---- which part of a text each token shows: tokens that are parts of one character are one piece ----

Pieces: TypeAlias = list[tuple[str, int]]
"""Parts of a text, each with the number of tokens that it stands for; together they are the text."""

_HALF_CHARACTER = "\ufffd"
"""What decoders show for tokens that end within a character."""
_CONTEXT_TOKENS = 8
"""Tokens before a token that are decoded along with it."""


def read_pieces(text: str, ends: Sequence[int], start: int) -> Pieces:
    """Return the pieces of a text from the character ``start`` on, for tokens that end at these characters.

    The bytes of one character may be several tokens: all of them end where the character does. White space that a
    tokenizer leaves out belongs to the token behind it, and at the end of the text to the last token.
    """
    found: Pieces = []
    place = start
    for end in ends:
        if found and end <= place:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((text[place:end], 1))
            place = max(place, end)
    if found:
        found[-1] = (found[-1][0] + text[place:], found[-1][1])
    return found


def scored_pieces(text: str, ends: Sequence[int], scored: int, start: int = 0) -> Pieces:
    """Return the pieces of a text from the character ``start`` on, for the last ``scored`` of its tokens.

    If more are scored than it has, the first of them stand before it (BOS), and show nothing of it.
    """
    first = len(ends) - scored
    if first > 0:  # the very first token of a sequence is not predicted: what it shows is left out
        return read_pieces(text, ends[first:], max(start, ends[first - 1]))
    return [("", 1)] * -first + read_pieces(text, ends, start)


def written_pieces(
    decode_after: Callable[[Sequence[int], Sequence[int]], str], before: Sequence[int], tokens: Sequence[int]
) -> Pieces:
    """Return the pieces of what tokens add ``before`` others; ``decode_after`` returns the text that tokens add."""
    found: Pieces = []
    context, pending = list(before[-_CONTEXT_TOKENS:]), list[int]()
    for token in tokens:
        pending.append(token)
        text = decode_after(context, pending)
        if not text.endswith(_HALF_CHARACTER):
            found.append((text, len(pending)))
            context, pending = [*context, *pending][-_CONTEXT_TOKENS:], []
    if pending:
        found.append((decode_after(context, pending), len(pending)))
    whole = decode_after(before, tokens)
    return found if "".join(text for text, _ in found) == whole else _by_prefixes(decode_after, before, tokens, whole)


def _by_prefixes(
    decode_after: Callable[[Sequence[int], Sequence[int]], str],
    before: Sequence[int],
    tokens: Sequence[int],
    whole: str,
) -> Pieces:
    """Return the pieces where more tokens than a few decide what a token shows: each prefix is decoded whole."""
    found: Pieces = []
    place = counted = 0
    for count in range(1, len(tokens) + 1):
        text = whole if count == len(tokens) else decode_after(before, tokens[:count])
        if len(text) >= place and whole.startswith(text):
            found.append((whole[place : len(text)], count - counted))
            place, counted = len(text), count
    return found


def summed_pieces(pieces: Pieces, values: Sequence[float]) -> TokenLogprobs:
    """Return pieces with the log-probabilities of their tokens."""
    edges = [0, *accumulate(count for _, count in pieces)]
    return tuple(
        (text, values[start] if count == 1 else sum(values[start : start + count]))
        for (text, count), start in zip(pieces, edges, strict=False)
    )


# ---- requests under way: the spans that a model scores, and the text that it writes ----

SpanT = TypeVar("SpanT")


@dataclass(slots=True)
class ScoredSpans(Generic[SpanT]):
    """A Loglik request whose spans are scored one by one.

    A span is a continuation, or one of the windows of a document, of which ``windows`` has the counts: then the
    likelihood of a document is the sum over its windows. ``cut_tokens``: how many were cut from the left of the prompt.
    ``pieces``: the texts of each continuation's tokens, if their log-probabilities are wanted.
    """

    request: Loglik
    spans: Sequence[SpanT]
    windows: Sequence[int] = ()
    cut_tokens: int = 0
    pieces: Sequence[Pieces] = ()
    found: dict[int, tuple[Likelihood, Sequence[float]]] = field(default_factory=dict)

    def add(self, number: int, likelihood: Likelihood, values: Sequence[float] = ()) -> Scored | None:
        """Take the likelihood of a span; return the response once all are there.

        ``values`` are the log-probabilities of its tokens, which are needed where there are ``pieces``.
        """
        self.found[number] = likelihood, values
        if len(self.found) < len(self.spans):
            return None
        edges = accumulate(self.windows or [1] * len(self.spans), initial=0)
        likelihoods = []
        for own, (start, stop) in enumerate(pairwise(edges)):
            parts = [self.found[at][0] for at in range(start, stop)]
            known = [part.greedy for part in parts]
            each = [value for at in range(start, stop) for value in self.found[at][1]]
            likelihoods.append(
                Likelihood(
                    math.fsum(part.logprob for part in parts),
                    sum(part.tokens for part in parts),
                    None if None in known else all(known),
                    summed_pieces(self.pieces[own], each) if self.pieces else None,
                )
            )
        return Scored(tuple(likelihoods), cut_tokens=self.cut_tokens)


@dataclass(slots=True)
class TextInProgress:
    """A text being written: its prompt, its limits, its new tokens, and why it stopped (empty while it goes on).

    ``cut_tokens``: how many were cut from the left of its prompt. ``text``: what its new tokens show, for a model that
    decodes every token. ``logprobs``: the log-probabilities of its new tokens, if they are wanted.
    """

    request: Generate
    prompt: Sequence[int]
    max_new_tokens: int
    cut_tokens: int = 0
    stop_ids: frozenset[int] = frozenset()
    new_tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    text: str = ""
    stop_reason: str = ""

    @property
    def length_reason(self) -> str:
        """Why a text ends that has all tokens it may have."""
        return "length" if self.max_new_tokens == self.request.max_tokens else "window"
