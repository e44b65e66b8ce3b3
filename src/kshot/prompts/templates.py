"""All templates of config files: of text and dialogues, of conversations, of images and sound, and raw messages."""

from __future__ import annotations

from kshot.core.errors import DataError
from kshot.core.records import Row
from kshot.prompts.dialogue import Filled, PromptList
from kshot.prompts.media_template import MMPromptTemplate
from kshot.prompts.meta import is_mark
from kshot.prompts.prompt_template import FIELD, PromptTemplate, Shape, fill, splice, texts_of
from kshot.prompts.raw_messages import RawPromptTemplate

__all__ = ["MMPromptTemplate", "MultiTurnPromptTemplate", "PromptTemplate", "RawPromptTemplate", "fill", "splice"]


class MultiTurnPromptTemplate(PromptTemplate):
    """A dialogue whose round repeats for each element of its list-valued columns; answers are not masked."""

    masks_output = False

    def _compose(self, shape: Shape, row: Row, ice: Filled, *, keep_sep: bool = False) -> Shape:
        if isinstance(shape, str):
            return super()._compose(shape, row, ice, keep_sep=keep_sep)
        result = PromptList()
        pending = PromptList()
        for item in shape:
            if is_mark(item) and pending:
                repeats = _turn_rows(pending, row) if item["section"] in ("round", "ice") else [row]
                for turn in repeats:
                    result.extend(super()._compose(pending, turn, ice, keep_sep=keep_sep))
                pending = PromptList()
            (result if is_mark(item) else pending).append(item)
        result.extend(super()._compose(pending, row, ice, keep_sep=keep_sep))
        return result


def _turn_rows(items: PromptList, row: Row) -> list[Row]:
    """Return a row for each turn: list-valued columns that the round names give their elements, empty ones nothing."""
    named = {name for text in texts_of(items) for name in FIELD.findall(text)}
    lists = {name: value for name, value in row.items() if name in named and isinstance(value, (list, tuple))}
    sizes = {len(value) for value in lists.values() if value}
    if len(sizes) > 1:
        lengths = ", ".join(f"{name} has {len(value)}" for name, value in lists.items())
        raise DataError(f"the columns of a conversation differ in length: {lengths}")
    if not lists:
        return [row]
    if not sizes:
        raise DataError(f"the conversation is empty: {', '.join(lists)} has no elements")
    return [
        {**row, **{name: value[turn] if value else "" for name, value in lists.items()}} for turn in range(max(sizes))
    ]
