"""Texts as models and servers take them."""

from __future__ import annotations


def sound(text: str) -> str:
    """Replace lone surrogates, which no tokenizer and no JSON reader takes, by the sign for an unknown character."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
