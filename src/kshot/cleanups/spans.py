"""Parts of a text between two marks, found in one pass however often a mark occurs. Standard library only."""

from __future__ import annotations

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Iterator


def spans(text: str, opening: str, closing: str) -> Iterator[tuple[int, int]]:
    """Yield where each pair begins and ends; a reply of openings alone is searched once, not once for each."""
    start = text.find(opening)
    while start >= 0 and (end := text.find(closing, start + len(opening))) >= 0:
        end += len(closing)
        if end == start:  # both are empty
            return
        yield start, end
        start = text.find(opening, end)


def between(text: str, opening: str, closing: str) -> list[str]:
    """Return what each pair encloses, the shortest text each time."""
    return [text[start + len(opening) : end - len(closing)] for start, end in spans(text, opening, closing)]


def without(text: str, opening: str, closing: str) -> str:
    """Leave out every pair and what it encloses."""
    return replaced(text, opening, closing, keep=False)


def unwrapped(text: str, opening: str, closing: str) -> str:
    """Leave out the marks of every pair and keep what it encloses."""
    return replaced(text, opening, closing, keep=True)


def replaced(text: str, opening: str, closing: str, *, keep: bool) -> str:
    """Replace every pair by what it encloses, or by nothing."""
    kept, place = [], 0
    for start, end in spans(text, opening, closing):
        kept.append(text[place:start])
        if keep:
            kept.append(text[start + len(opening) : end - len(closing)])
        place = end
    return "".join([*kept, text[place:]])


def after_thinking(text: str) -> str:
    """Leave out what a model thought: every pair of think tags, then all that stands before a closing tag alone."""
    text = without(text, "<think>", "</think>")
    return text.rpartition("</think>")[2].lstrip() if "</think>" in text else text


def without_end_marks(text: str) -> str:
    """Leave out the marks by which models end a text."""
    return text.replace("<|endoftext|>", "").replace("<|im_end|>", "")
