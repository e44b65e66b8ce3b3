"""Texts in the form that tokenizers and servers accept."""

from __future__ import annotations


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates by U+FFFD: no tokenizer and no JSON reader accepts them."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
