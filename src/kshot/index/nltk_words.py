"""The words of ``nltk.word_tokenize``, which OpenCompass's BM25 counts.

NLTK cuts a text into sentences first, because a full stop is a word of its own only at the end of a sentence. Its rules
for English sentences (Punkt's) are no part of its package: NLTK downloads them. kshot takes them from where NLTK looks,
else from the package llama-index-core, which carries them. Without them it refuses: words cut in another way would give
other examples.
"""

from __future__ import annotations

import atexit
import importlib.util
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path

from kshot.core.errors import BackendError

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
