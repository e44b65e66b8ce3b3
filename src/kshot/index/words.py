"""Which words of a text the BM25 engines count."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any

from kshot.core.errors import BackendError, MissingExtra, UsageError

_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"  # kana, Han, Hangul: scripts whose words are not set apart
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_ASCII = {code: chr(code).lower() if _WORD.match(chr(code)) else " " for code in range(128)}
STEMS = ("none", "english")
STOPWORDS = ("none", "english")


class Words:
    """Lower-case runs of letters, digits and ``_``; each character of an unspaced script by itself.

    ``stopwords``: leave out the function words of a language. ``stem``: cut the endings of its words (Snowball).
    """

    def __init__(self, stem: str = "none", stopwords: str = "none") -> None:
        """Choose what is done to the words."""
        if stem not in STEMS:
            raise UsageError(f"stem is {stem!r}; it must be one of {', '.join(STEMS)}")
        if stopwords not in STOPWORDS:
            raise UsageError(f"stopwords is {stopwords!r}; it must be one of {', '.join(STOPWORDS)}")
        self.stem, self.stopwords = stem, stopwords
        self.fingerprint = f"words1 stem={stem} stopwords={stopwords}"
        if stem != "none":
            _stemmer(stem)  # say now that it is missing, not after the corpus was read

    def __call__(self, text: str) -> list[str]:
        """The words of a text, in order."""
        found = _WORD.findall(text.lower())
        if self.stopwords != "none":
            found = [word for word in found if word not in self._left_out]
        return self._cut(found) if self.stem != "none" else found

    def spaced(self, text: str) -> str:
        """The words of a text with white space between them: the same words, much faster for plain ASCII."""
        if self.stem == self.stopwords == "none" and text.isascii():
            return text.translate(_ASCII)
        return " ".join(self(text))

    @cached_property
    def _left_out(self) -> frozenset[str]:
        return frozenset(bm25s().stopwords.STOPWORDS_EN)

    @cached_property
    def _cut(self) -> Callable[[list[str]], list[str]]:
        return _stemmer(self.stem)


def bm25s() -> Any:
    """The package bm25s."""
    try:
        import bm25s as package  # type: ignore[import-untyped,unused-ignore]
    except ImportError as exc:
        raise MissingExtra("bm25s", "search", "BM25 search") from exc
    return package


def _stemmer(language: str) -> Callable[[list[str]], list[str]]:
    try:
        from Stemmer import Stemmer  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as exc:
        raise MissingExtra("PyStemmer", "search", f"stem={language}") from exc
    try:
        cut: Callable[[list[str]], list[str]] = Stemmer(language).stemWords
    except KeyError as exc:
        raise BackendError(f"PyStemmer knows no {language}") from exc
    return cut
