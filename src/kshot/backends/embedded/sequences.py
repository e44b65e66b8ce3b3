"""What the embedded model reads for a Loglik request: prompts with continuations, and windows of documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from kshot.backends.rolling import joined_windows, rolling_windows, start_token, summed_windows
from kshot.backends.texts import replace_surrogates, scored_parts, unscorable
from kshot.backends.token_texts import Pieces, document_pieces, read_pieces, with_token_logprobs
from kshot.core.errors import BackendError
from kshot.core.records import Failed, Likelihood, Loglik, Prompt, Scored

_Span: TypeAlias = tuple[list[int], int]
"""A whole sequence, and the index of the first token whose probability is wanted."""


def text_of(prompt: Prompt) -> str:
    """Return the text of a prompt; a conversation is an error."""
    if prompt.messages:
        raise BackendError("it has no chat template", where="embedded", hint="Use --model-type base.")
    return replace_surrogates(prompt.text)


def too_long(count: int, limit: int) -> Failed:
    """Return the failure of a prompt that does not fit into the context window."""
    return Failed("too_long", f"the prompt has {count} tokens; the embedded model takes {limit}")


@dataclass(slots=True)
class PartialLoglik:
    """A Loglik request whose continuations, or the windows of whose documents, are scored one by one.

    ``pieces``: the texts of the tokens of each continuation, if they are wanted; ``values``: their log-probabilities.
    """

    request: Loglik
    count: int
    windows: Sequence[int] = ()
    cut_tokens: int = 0
    pieces: Sequence[Pieces] = ()
    found: dict[int, Likelihood] = field(default_factory=dict)
    values: dict[int, Sequence[float]] = field(default_factory=dict)

    @property
    def scored(self) -> Scored | None:
        """The response, once all are found."""
        if len(self.found) < self.count:
            return None
        found = summed_windows([self.found[number] for number in range(self.count)], self.windows)
        if self.pieces:
            values = joined_windows([self.values[number] for number in range(self.count)], self.windows)
            found = with_token_logprobs(found, self.pieces, values)
        return Scored(found, cut_tokens=self.cut_tokens)


class ScoredSequence(NamedTuple):
    """A prompt with one of its continuations: its tokens, and the index of the continuation's first token."""

    entry: PartialLoglik
    number: int
    tokens: list[int]
    start: int


@dataclass(frozen=True, slots=True)
class SequenceMaker:
    """Makes the sequences of requests, for a window of ``limit`` tokens; ``cuts``: longer ones lose their left part."""

    tokenizer: Any
    eos_id: int
    limit: int
    cuts: bool

    def sequences(self, request: Loglik) -> list[ScoredSequence] | Failed:
        """Return the sequences of a request, or its failure."""
        found = self._windows(request) if request.rolling else self._spans(request)
        if isinstance(found, Failed):
            return found
        entry, spans = found
        return [ScoredSequence(entry, number, *span) for number, span in enumerate(spans)]

    def _spans(self, request: Loglik) -> tuple[PartialLoglik, list[_Span]] | Failed:
        context, texts = scored_parts(request, text_of(request.prompt))
        counted = request.prompt.rules == "lm-eval"
        spans = [self._span(context, text, counted=counted) for text in texts]
        for text, (tokens, start) in zip(request.continuations, spans, strict=True):
            if start >= len(tokens):
                return unscorable(text, request.prompt.text)
        pieces = self._pieces(context, texts, spans) if request.token_logprobs else ()
        longest = max((len(tokens) for tokens, _ in spans), default=0)
        if longest <= self.limit:
            return PartialLoglik(request, len(spans), pieces=pieces), spans
        if not self.cuts:
            return too_long(longest, self.limit)
        most = self.limit + 1  # the last token is predicted and never read
        if (needed := max(len(tokens) - start for tokens, start in spans)) >= most:
            return too_long(needed, self.limit)
        cut = [(tokens[-most:], start - max(len(tokens) - most, 0)) for tokens, start in spans]
        return PartialLoglik(request, len(spans), cut_tokens=max(longest - most, 0), pieces=pieces), cut

    def _pieces(self, context: str, texts: Sequence[str], spans: Sequence[_Span]) -> list[Pieces]:
        """Return the texts of the scored tokens of each continuation."""
        wholes = [context + replace_surrogates(text) for text in texts]
        found = []
        for whole, encoding, (_, start) in zip(wholes, self.tokenizer.encode_batch(wholes), spans, strict=True):
            ends = [end for _, end in encoding.offsets]
            found.append(read_pieces(whole, ends[start:], max(len(context), ends[start - 1])))
        return found

    def _span(self, context: str, continuation: str, *, counted: bool) -> _Span:
        """Return the tokens of both texts, and where the continuation begins; a token across the seam is part of it.

        ``counted`` (lm-eval's rule): it begins after as many tokens as the context alone has, and those are read first.
        """
        found = self.tokenizer.encode(context + replace_surrogates(continuation))
        if counted:
            before = self.tokenizer.encode(context).ids
            return [*before, *found.ids[len(before) :]], max(len(before), 1)
        ends = (index for index, (_, end) in enumerate(found.offsets) if end > len(context))
        return found.ids, max(next(ends, len(found.ids)), 1)  # the first token of all is given, not predicted

    def _windows(self, request: Loglik) -> tuple[PartialLoglik, list[_Span]] | Failed:
        """Cut documents into windows. The model has no BOS token, so EOS stands before a document."""
        assert request.rolling is not None  # noqa: S101 - the caller has looked
        if request.rolling == "bos":
            raise BackendError("it has no BOS token", where="embedded", hint="Use --rolling-start eos or none.")
        first = start_token(request.rolling, None, self.eos_id)
        texts = [replace_surrogates(text) for text in request.continuations]
        encoded = self.tokenizer.encode_batch(texts)
        windows = [list(rolling_windows(each.ids, first, self.limit)) for each in encoded]
        if not all(windows):
            return Failed("no_tokens", "the document has no token that can be scored")
        spans = [span for some in windows for span in some]
        pieces = [
            document_pieces(text, [end for _, end in each.offsets], scores_first=first is not None)
            for text, each in (zip(texts, encoded, strict=True) if request.token_logprobs else ())
        ]
        return PartialLoglik(request, len(spans), [len(some) for some in windows], pieces=pieces), spans
