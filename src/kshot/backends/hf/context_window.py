"""What fits into a model's context window: requests that do not fit fail, or their prompts are cut from the left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kshot.backends.hf.scoring import TokenizedLoglik
from kshot.backends.hf.tokens import PromptTokenizer, TokenSpan
from kshot.backends.texts import Pieces, TextInProgress, scored_pieces, unscorable, written_pieces
from kshot.core.errors import BackendError
from kshot.core.records import Failed, Generate, Generated, Loglik, Scored, Usage

TokenIds: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """The window of the model ``name``.

    ``limit``: the tokens of a text, those that are written included (None: no limit). ``readable``: the tokens that
    the model can read in order to score the next one. ``cuts``: prompts that are too long are cut from the left.
    """

    name: str
    limit: int | None
    readable: int | None
    cuts: bool = False

    def tokenized(
        self, requests: Sequence[Loglik], tokenizer: PromptTokenizer
    ) -> Iterator[tuple[Loglik, TokenizedLoglik | Scored | Failed]]:
        """Return each request as tokens, or its response if the model need not be asked."""
        yield from ((request, Scored(())) for request in requests if not request.continuations)
        requests = [request for request in requests if request.continuations]
        whole = [request for request in requests if request.rolling is None]
        spans = tokenizer.spans_of_all(whole)
        for request, own in zip(whole, spans, strict=True):
            fitting = self._fit(request, own)
            if request.token_logprobs and isinstance(fitting, TokenizedLoglik):
                fitting.pieces = span_pieces(request, [[span] for span in own], tokenizer)
            yield request, fitting
        for request in requests:
            if request.rolling is not None:
                yield request, self._windows(request, tokenizer)

    def _fit(self, request: Loglik, spans: Sequence[TokenSpan]) -> TokenizedLoglik | Failed:
        for text, span in zip(request.continuations, spans, strict=True):
            if span.empty:
                return unscorable(text, request.prompt.text)
        longest = max(len(span.ids) for span in spans)
        if self.limit is None or self.readable is None or longest <= self.limit:
            return TokenizedLoglik(request, spans)
        if not self.cuts:
            return self._too_long(longest, "the prompt with its continuation")
        most = self.readable + 1  # the last token is predicted and never read
        if (needed := max(len(span.ids) - span.start for span in spans)) >= most:
            return self._too_long(needed, "the continuation")
        return TokenizedLoglik(request, [span.cut(most) for span in spans], cut_tokens=max(longest - most, 0))

    def _windows(self, request: Loglik, tokenizer: PromptTokenizer) -> TokenizedLoglik | Failed:
        if request.rolling is None or request.prompt.text or request.prompt.messages:
            raise BackendError("a document has no prompt before it", where=self.name)
        windows = [tokenizer.rolling_spans(text, request.rolling, self.readable) for text in request.continuations]
        if not all(windows):
            return Failed("no_tokens", "the document has no token that can be scored")
        pieces = span_pieces(request, windows, tokenizer) if request.token_logprobs else ()
        spans = [span for some in windows for span in some]
        return TokenizedLoglik(request, spans, [len(some) for some in windows], pieces=pieces)

    def fit_prompt(self, request: Generate, prompt: TokenIds) -> TextInProgress | Generated | Failed:
        """Return the text to write after the prompt as the model reads it, or the response if it need not be asked.

        A prompt that is cut leaves room for the whole reply.
        """
        kept, room = prompt, request.max_tokens
        if self.limit is not None:
            if self.cuts:
                left = self.limit - request.max_tokens
                if left < 1:
                    return self._too_long(request.max_tokens, "the longest reply")
                kept = prompt[-left:]
            if len(kept) >= self.limit:
                return self._too_long(len(kept), "the prompt")
            room = min(request.max_tokens, self.limit - len(kept))
        if request.max_tokens < 1:
            return Generated("", "length", Usage(len(kept), 0))
        return TextInProgress(request, kept, room, len(prompt) - len(kept))

    def _too_long(self, count: int, what: str) -> Failed:
        return Failed("too_long", f"{what} has {count} tokens; {self.name} takes {self.limit}")


def span_pieces(request: Loglik, groups: Sequence[Sequence[TokenSpan]], tokenizer: PromptTokenizer) -> list[Pieces]:
    """Return the texts of the scored tokens of each continuation, or of each document with its windows.

    A token across the seam shows only the part that belongs to the continuation.
    """
    encoded = tokenizer.encoded_with_ends(request)
    if encoded is None:
        return [_decoded(spans, tokenizer) for spans in groups]
    start, wholes = encoded
    scored = [sum(len(span.ids) - span.start for span in spans) for spans in groups]
    return [
        scored_pieces(whole.text, whole.ends.tolist(), count, start)
        for whole, count in zip(wholes, scored, strict=True)
    ]


def _decoded(spans: Sequence[TokenSpan], tokenizer: PromptTokenizer) -> Pieces:
    """Return the texts of scored tokens as they are decoded: what the tokenizer has changed stays changed."""
    scored = [token for span in spans for token in span.tokens[span.start :]]
    return written_pieces(tokenizer.decode_after, spans[0].tokens[: spans[0].start], scored)
