"""The chunks that llama-index's SentenceSplitter makes: benchmarks are published with them."""

from __future__ import annotations

import importlib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from kshot.core.errors import MissingExtra
from kshot.passages.counting import EXTRA, tokenizer

_UNBROKEN = 100_000
"""The longest run without (or of) white space it is given: it takes such runs apart into objects, one a character."""

_RUN = re.compile(r"\S+|\s+")


def sentence_chunks(text: str, size: int, overlap: int, tokens: str) -> Iterator[tuple[str, int | None]]:
    """The splitter's chunks, each with where it stands; ``None`` if white space inside it is not as in the text."""
    split = _splitter(size, overlap, tokens)
    for begin, block in _digestible(text):
        for chunk, start in _located(block, split(block)):
            yield chunk, None if start is None else begin + start


@lru_cache(maxsize=16)
def _splitter(size: int, overlap: int, tokens: str) -> Callable[[str], list[str]]:
    try:
        parsers: Any = importlib.import_module("llama_index.core.node_parser")
        cutting: Any = importlib.import_module("llama_index.core.node_parser.text.utils")
        punkt: Any = importlib.import_module("nltk.tokenize").PunktSentenceTokenizer()
    except ImportError as exc:
        raise MissingExtra("llama-index-core", EXTRA, "the chunker 'sentence'") from exc
    counted = tokenizer(tokens).count

    @lru_cache(maxsize=4096)
    def of_character(character: str) -> int:
        return min(counted(character), size)  # one character cannot be cut, so it always fits

    def measure(text: str) -> range:
        return range(of_character(text) if len(text) == 1 else counted(text))

    def sentences(text: str) -> list[str]:
        # What the splitter does by default, less a look at NLTK_DATA and a download if that is set.
        found: list[str] = cutting.split_by_sentence_tokenizer_internal(text, punkt)
        return found

    splitter = parsers.SentenceSplitter(
        chunk_size=size, chunk_overlap=overlap, tokenizer=measure, chunking_tokenizer_fn=sentences
    )
    split: Callable[[str], list[str]] = splitter.split_text
    return split


def _digestible(text: str) -> Iterator[tuple[int, str]]:
    """Cut endless runs in pieces; any other text stays whole."""
    begin = 0
    for run in _RUN.finditer(text) if len(text) > _UNBROKEN else ():
        for cut in range(run.start() + _UNBROKEN, run.end(), _UNBROKEN):
            yield begin, text[begin:cut]
            begin = cut
    if begin < len(text):
        yield begin, text[begin:]


def _located(text: str, chunks: Sequence[str]) -> Iterator[tuple[str, int | None]]:
    """Find each chunk by its characters that are not white space: of those the splitter loses none."""
    runs = [run.span() for run in re.finditer(r"\S+", text)]
    before, total = [], 0
    for begin, end in runs:
        before.append(total)
        total += end - begin
    squeezed = "".join(text[begin:end] for begin, end in runs)
    high = 0
    for chunk in chunks:
        solid = "".join(chunk.split())
        # The last place no later than the end of what came before: where a text repeats itself, the first one found
        # may lie too far back for the chunks that follow.
        at = squeezed.rfind(solid, 0, high + len(solid))
        if at < 0:
            yield chunk, None
            continue
        high = max(high, at + len(solid))
        run = bisect_right(before, at) - 1
        start = runs[run][0] + at - before[run]
        yield chunk, start if text.startswith(chunk, start) else None
