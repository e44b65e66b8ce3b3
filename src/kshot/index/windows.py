"""Cutting a long text into windows that a model can read whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from kshot.core.errors import BackendError, UsageError
from kshot.index.ranking import Ints

_PIECE_CHARACTERS = 1 << 16
"""Characters tokenised in one go: a tokenizer's own record takes some hundred bytes a token."""
_BATCH_CHARACTERS, _BATCH_PIECES = 1 << 19, 4096


class TokenSpans(NamedTuple):
    """The tokens of a text: their ids, where they begin and end in it, and the first token of each one's word."""

    ids: Ints
    begins: Ints
    ends: Ints
    words: Ints


class Window(NamedTuple):
    """A stretch of a text, in characters, and how many tokens it has: none if the text has none."""

    begin: int
    end: int
    tokens: int


class CutTexts(NamedTuple):
    """All windows of many texts, in order: the text of each, where it begins and ends, and how many tokens it has.

    ``frequencies`` says for each token in how many texts it occurs.
    """

    owners: Ints
    begins: Ints
    ends: Ints
    tokens: Ints
    frequencies: Ints

    def batches(self, texts: Sequence[str], size: int) -> Iterator[tuple[slice, list[str]]]:
        """Yield which windows come next, at most ``size`` at a time, and their texts."""
        for first in range(0, len(self.owners), size):
            part = slice(first, first + size)
            places = zip(self.owners[part].tolist(), self.begins[part].tolist(), self.ends[part].tolist(), strict=True)
            yield part, [texts[owner][begin:end] for owner, begin, end in places]


def cut(tokenizer: Any, texts: Iterable[str], size: int, stride: int) -> CutTexts:
    """Cut every text into windows."""
    found: list[tuple[int, ...]] = []
    frequencies = np.zeros(len(tokenizer), dtype=np.int64)
    for owner, (text, tokens) in enumerate(tokenised(tokenizer, texts)):
        found += ((owner, *window) for window in windows(text, tokens, size, stride))
        frequencies[np.unique(tokens.ids)] += 1
    table = np.asarray(found, dtype=np.int64).reshape(-1, 4)
    return CutTexts(table[:, 0], table[:, 1], table[:, 2], table[:, 3], frequencies)


def tokenised(tokenizer: Any, texts: Iterable[str]) -> Iterator[tuple[str, TokenSpans]]:
    """Yield each text with its tokens, without special ones; a text of white space has none."""
    held: list[TokenSpans] = []
    sizes = [0]
    for text, piece, tokens in _piecewise(tokenizer, texts):
        held.append(tokens)
        sizes.append(sizes[-1] + len(piece))
        if sizes[-1] == len(text):
            yield text, _joined(held, sizes[:-1]) if len(held) > 1 else tokens
            held, sizes = [], [0]


def _piecewise(tokenizer: Any, texts: Iterable[str]) -> Iterator[tuple[str, str, TokenSpans]]:
    """Yield the pieces of all texts with their tokens; a bounded number is tokenised at a time."""
    waiting: list[tuple[str, str]] = []
    size = 0
    for text in texts:
        for piece in _pieces(text):
            waiting.append((text, piece))
            size += len(piece)
            if size >= _BATCH_CHARACTERS or len(waiting) >= _BATCH_PIECES:
                yield from _tokenised_batch(tokenizer, waiting)
                waiting, size = [], 0
    if waiting:
        yield from _tokenised_batch(tokenizer, waiting)


def _tokenised_batch(tokenizer: Any, pairs: list[tuple[str, str]]) -> Iterator[tuple[str, str, TokenSpans]]:
    for (text, piece), tokens in zip(pairs, _tokenised_pieces(tokenizer, [piece for _, piece in pairs]), strict=True):
        yield text, piece, tokens


def _pieces(text: str) -> Iterator[str]:
    """Yield the text in pieces of bounded size, divided at white space where there is some."""
    begin = 0
    while len(text) - begin > _PIECE_CHARACTERS:
        reach = begin + _PIECE_CHARACTERS
        middle = begin + _PIECE_CHARACTERS // 2
        end = max(text.rfind(" ", middle, reach), text.rfind("\n", middle, reach))
        end = reach if end < 0 else end
        yield text[begin:end]
        begin = end
    yield text[begin:]


def _joined(parts: list[TokenSpans], shifts: list[int]) -> TokenSpans:
    """Join the tokens of the pieces of one text."""
    counts = np.cumsum([0, *(len(part.ids) for part in parts)])
    return TokenSpans(
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.begins + shift for part, shift in zip(parts, shifts, strict=True)]),
        np.concatenate([part.ends + shift for part, shift in zip(parts, shifts, strict=True)]),
        np.concatenate([part.words + count for part, count in zip(parts, counts[:-1], strict=True)]),
    )


def _tokenised_pieces(tokenizer: Any, texts: list[str]) -> list[TokenSpans]:
    if not getattr(tokenizer, "is_fast", False):  # a tokenizer of any library may be given
        hint = "Convert it: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) writes tokenizer.json."
        raise BackendError("its tokenizer does not say where in a text a token stands", hint=hint)
    coded = tokenizer(
        texts, add_special_tokens=False, truncation=False, padding=False, return_offsets_mapping=True, verbose=False
    )
    return [
        _token_spans(text, coded["input_ids"][at], coded["offset_mapping"][at], coded.word_ids(at))
        for at, text in enumerate(texts)
    ]


def _token_spans(text: str, ids: list[int], offsets: list[tuple[int, int]], words: list[int | None]) -> TokenSpans:
    if not text.strip():
        return TokenSpans(*(np.zeros(0, dtype=np.int64) for _ in range(4)))
    spans = np.asarray(offsets, dtype=np.int64).reshape(-1, 2)
    word = np.asarray([-1 if one is None else one for one in words], dtype=np.int64)
    opens = np.diff(word, prepend=-2) != 0
    first = np.maximum.accumulate(np.where(opens | (word < 0), np.arange(len(word)), 0)) if len(word) else word
    return TokenSpans(np.asarray(ids, dtype=np.int64), spans[:, 0], spans[:, 1], first)


def windows(text: str, tokens: TokenSpans, size: int, stride: int) -> list[Window]:
    """Cut a text into windows of at most ``size`` tokens, each beginning at most ``stride`` after the one before.

    Borders are moved back to where a word begins, so that a window read by itself has the same tokens; only a word
    longer than a window is divided. Nothing is left out, and a text that fits is one window.
    """
    count = len(tokens.ids)
    if count <= size:
        return [Window(0, len(text), count)]
    found = []
    begin = 0
    while True:
        end = min(begin + size, count)
        if end < count and tokens.words[end] > begin:
            end = int(tokens.words[end])
        found.append(Window(int(tokens.begins[begin]), int(tokens.ends[end - 1]), end - begin))
        if end == count:
            return found
        following = int(tokens.words[begin + stride])
        begin = following if following > begin else begin + stride


# ---- the options of windows ----


def check_window_options(window: int | None, stride: int | None, batch_size: int) -> None:
    """Refuse settings that no model could work with."""
    for name, value in (("window", window), ("stride", stride), ("batch_size", batch_size)):
        if value is not None and value < 1:
            raise UsageError(f"{name} is {value}", hint="Use 1 or more.")


def window_room(window: int | None, max_tokens: int, extra: int, model: str) -> int:
    """Return how many tokens of a text fit a window beside the ``extra`` ones: special tokens and prompt."""
    if window is not None and window > max_tokens:
        raise UsageError(f"a window of {window} tokens; {model} reads {max_tokens}", hint=f"Use {max_tokens} or fewer.")
    size = (window or max_tokens) - extra
    if size < 1:
        hint = "Use a larger window or a shorter prompt."
        raise UsageError(
            f"a window of {window or max_tokens} tokens has no room beside {extra} special ones", hint=hint
        )
    return size


def window_stride(given: int | None, size: int, default: int) -> int:
    """Return how far apart windows of this size begin; further than their size would leave text out."""
    if given is not None and given > size:
        raise UsageError(f"a stride of {given} tokens; {size} fit a window", hint=f"Use {size} or fewer.")
    return given or default
