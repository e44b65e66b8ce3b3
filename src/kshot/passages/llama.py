"""Chunks made by llama-index's SentenceSplitter, as published results use them."""

from __future__ import annotations

import importlib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from kshot.core.extras import importing
from kshot.passages.counting import tokenizer

LLAMA_INDEX = "llama-index-core"

_MAX_RUN_CHARACTERS = 100_000
"""The longest run without (or of) white space that the splitter gets: it makes an object of each character of a run."""

_RUN = re.compile(r"\S+|\s+")


def sentence_chunks(text: str, size: int, overlap: int, tokens: str) -> Iterator[tuple[str, int | None]]:
    """Yield the chunks with their positions; ``None`` where a chunk has other white space than the text."""
    split = _splitter(size, overlap, tokens)
    for begin, block in _blocks(text):
        for chunk, start in _located(block, split(block)):
            yield chunk, None if start is None else begin + start


@lru_cache(maxsize=16)
def _splitter(size: int, overlap: int, tokens: str) -> Callable[[str], list[str]]:
    with importing("the chunker 'sentence'", LLAMA_INDEX):
        parsers: Any = importlib.import_module("llama_index.core.node_parser")
        utils: Any = importlib.import_module("llama_index.core.node_parser.text.utils")
        punkt: Any = importlib.import_module("nltk.tokenize").PunktSentenceTokenizer()
    count = tokenizer(tokens).count

    @lru_cache(maxsize=4096)
    def count_character(character: str) -> int:
        return min(count(character), size)  # one character cannot be cut, so it always fits

    def tokenize(text: str) -> range:  # the splitter takes the length of what this returns
        return range(count_character(text) if len(text) == 1 else count(text))

    def sentences(text: str) -> list[str]:
        # The splitter's default, without its download where NLTK_DATA is set.
        found: list[str] = utils.split_by_sentence_tokenizer_internal(text, punkt)
        return found

    splitter = parsers.SentenceSplitter(
        chunk_size=size, chunk_overlap=overlap, tokenizer=tokenize, chunking_tokenizer_fn=sentences
    )
    split: Callable[[str], list[str]] = splitter.split_text
    return split


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield the text in blocks: runs that are too long are cut, any other text stays whole."""
    begin = 0
    for run in _RUN.finditer(text) if len(text) > _MAX_RUN_CHARACTERS else ():
        for cut in range(run.start() + _MAX_RUN_CHARACTERS, run.end(), _MAX_RUN_CHARACTERS):
            yield begin, text[begin:cut]
            begin = cut
    if begin < len(text):
        yield begin, text[begin:]


def _located(text: str, chunks: Sequence[str]) -> Iterator[tuple[str, int | None]]:
    """Find each chunk by its characters that are not white space: the splitter keeps all of those."""
    runs = [run.span() for run in re.finditer(r"\S+", text)]
    before, total = [], 0
    for begin, end in runs:
        before.append(total)
        total += end - begin
    squeezed = "".join(text[begin:end] for begin, end in runs)
    covered = 0
    for chunk in chunks:
        solid = "".join(chunk.split())
        # The last match that begins within what is covered so far: where a text repeats itself, the first match may lie
        # too far back for the chunks that follow.
        at = squeezed.rfind(solid, 0, covered + len(solid))
        if at < 0:
            yield chunk, None
            continue
        covered = max(covered, at + len(solid))
        run = bisect_right(before, at) - 1
        start = runs[run][0] + at - before[run]
        yield chunk, start if text.startswith(chunk, start) else None
