"""The texts of the tokens that are scored, where their log-probabilities are wanted one by one."""

from __future__ import annotations

from collections.abc import Sequence

from kshot.backends.hf.tokens import PromptTokenizer, TokenSpan
from kshot.backends.token_texts import Pieces, document_pieces, read_pieces, written_pieces
from kshot.core.records import Loglik


def continuation_pieces(request: Loglik, spans: Sequence[TokenSpan], tokenizer: PromptTokenizer) -> list[Pieces]:
    """Return the texts of the scored tokens of each continuation; a token across the seam shows only its own part."""
    encoded = tokenizer.encoded_with_ends(request)
    if encoded is None:
        return [_decoded([span], tokenizer) for span in spans]
    length, wholes = encoded
    found = []
    for whole, span in zip(wholes, spans, strict=True):
        first = len(whole.ends) - (len(span.ids) - span.start)
        # The very first token of a sequence is not predicted: what it shows is left out.
        start = max(length, int(whole.ends[first - 1]) if first > 0 else 0)
        found.append(read_pieces(whole.text, whole.ends[first:].tolist(), start))
    return found


def rolling_pieces(request: Loglik, windows: Sequence[Sequence[TokenSpan]], tokenizer: PromptTokenizer) -> list[Pieces]:
    """Return the texts of the scored tokens of each document."""
    encoded = tokenizer.encoded_with_ends(request)
    if encoded is None:
        return [_decoded(some, tokenizer) for some in windows]
    found = []
    for whole, some in zip(encoded[1], windows, strict=True):
        scored = sum(len(span.ids) - span.start for span in some)
        before = max(scored - len(whole.ends), 0)  # a BOS of the tokenizer itself that is scored
        found.append(
            document_pieces(whole.text, whole.ends.tolist(), scores_first=scored >= len(whole.ends), before=before)
        )
    return found


def _decoded(spans: Sequence[TokenSpan], tokenizer: PromptTokenizer) -> Pieces:
    """Return the texts of scored tokens as they are decoded: what the tokenizer has changed stays changed."""
    scored = [token for span in spans for token in span.tokens[span.start :]]
    return written_pieces(tokenizer.decode_after, spans[0].tokens[: spans[0].start], scored)
