"""The letters of options: A, B, … Z, AA, AB and so on."""

from __future__ import annotations


def letter(index: int) -> str:
    """Return the letter of an option, as spreadsheets name their columns."""
    name = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        name = chr(ord("A") + rest) + name
    return name


def lettered(options: tuple[str, ...] | list[str]) -> list[str]:
    """Return the options, each after its letter: ``A. first``."""
    return [f"{letter(i)}. {option.lstrip()}" for i, option in enumerate(options)]


def letter_index(name: str) -> int:
    """Return the index that a letter names: 0 for A, 26 for AA."""
    index = 0
    for character in name:
        index = index * 26 + ord(character) - ord("A") + 1
    return index - 1
