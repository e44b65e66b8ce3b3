"""Which words of a text BM25 counts: one rule for example retrievers and search engines."""

from __future__ import annotations

import atexit
import importlib.util
import re
import shutil
import tempfile
from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path

from kshot.core.errors import BackendError, UsageError
from kshot.core.extras import importing

_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"  # kana, Han, Hangul: scripts that put no space between words
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_ASCII = {code: chr(code).lower() if _WORD.match(chr(code)) else " " for code in range(128)}
_LUCENE_STOPWORDS = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was
will with
"""
_ENGLISH_STOPWORDS = frozenset(_LUCENE_STOPWORDS.split())
"""Lucene's list, which the package bm25s has as well."""
LANGUAGES = ("none", "english")


class Words:
    """Lower-case runs of letters, digits and ``_``; each character of an unspaced script by itself.

    ``stopwords``: leave out the function words of a language. ``stem``: cut the endings of its words (Snowball).
    """

    def __init__(self, stem: str = "none", stopwords: str = "none") -> None:
        """Choose the language of endings and of function words."""
        for name, value in (("stem", stem), ("stopwords", stopwords)):
            if value not in LANGUAGES:
                raise UsageError(f"{name} is {value!r}; it must be one of {', '.join(LANGUAGES)}")
        self.stem, self.stopwords = stem, stopwords
        self.fingerprint = f"words1 stem={stem} stopwords={stopwords}"
        if stem != "none":
            _stemmer(stem)  # a missing package is an error now, not after the corpus was read

    def __call__(self, text: str) -> list[str]:
        """Return the words of a text, in order."""
        found = _WORD.findall(text.lower())
        if self.stopwords != "none":
            found = [word for word in found if word not in _ENGLISH_STOPWORDS]
        return self._stems(found) if self.stem != "none" else found

    def spaced(self, text: str) -> str:
        """Return the words of a text with white space between them: the same words, much faster for plain ASCII."""
        if self.stem == self.stopwords == "none" and text.isascii():
            return text.translate(_ASCII)
        return " ".join(self(text))

    @cached_property
    def _stems(self) -> Callable[[list[str]], list[str]]:
        return _stemmer(self.stem)


def word_packages(stem: str) -> tuple[str, ...]:
    """Return the packages of kshot's extras that this stemming needs."""
    return () if stem == "none" else ("PyStemmer",)


def _stemmer(language: str) -> Callable[[list[str]], list[str]]:
    with importing(f"stem={language}", *word_packages(language)):
        from Stemmer import Stemmer

    try:
        stem_words: Callable[[list[str]], list[str]] = Stemmer(language).stemWords
    except KeyError as exc:
        raise BackendError(f"PyStemmer has no stemmer for {language}", hint="Update PyStemmer.") from exc
    return stem_words


# ---- the words of nltk.word_tokenize, which OpenCompass's BM25 counts ----

# NLTK cuts a text into sentences first, because a full stop is a word of its own only at the end of a sentence. Its
# rules for English sentences (Punkt's) are no part of its package: NLTK downloads them. kshot takes them from where
# NLTK looks, else from the package llama-index-core, which carries them. Without them it refuses: words cut in another
# way would give other examples.

_CARRIER_MODULE = "llama_index"
_PUNKT = "tokenizers/punkt_tab/english/"


def check_nltk_words() -> None:
    """Refuse a machine without the rules for sentences."""
    if not _has_rules():
        raise BackendError(
            "NLTK has no rules for English sentences",
            hint="Run: python -m nltk.downloader punkt_tab (or: pip install 'kshot[passages]', which brings "
            "llama-index-core, and that carries them).",
        )


def nltk_words(text: str) -> list[str]:
    """Return the words and punctuation marks of a text."""
    check_nltk_words()
    from nltk.tokenize import word_tokenize

    words: list[str] = word_tokenize(text)
    return words


@lru_cache(maxsize=1)
def _has_rules() -> bool:
    """Whether the rules for English sentences are on this machine; those of another package become known to NLTK."""
    import nltk.data

    for folder in (None, *_carried_folders()):
        if folder is not None:
            nltk.data.path.append(str(folder))  # NLTK reads no file outside the folders of its list
        try:
            rules = Path(str(nltk.data.find(_PUNKT)))
        except LookupError:
            continue
        if any(path.stat().st_nlink > 1 for path in rules.glob("*")):
            nltk.data.path.insert(0, _copied(rules))
        return True
    return False


def _carried_folders() -> list[Path]:
    """Return where the carrier's data for NLTK would be; nothing of it is imported."""
    found = importlib.util.find_spec(_CARRIER_MODULE)
    folders = (found and found.submodule_search_locations) or ()
    return [Path(folder) / "core" / "_static" / "nltk_cache" for folder in folders]


def _copied(rules: Path) -> str:
    """Copy rules to where NLTK reads them: it refuses files with several names, as uv and conda install packages."""
    folder = tempfile.mkdtemp(prefix="kshot-nltk-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shutil.copytree(rules, Path(folder) / _PUNKT)
    return folder
