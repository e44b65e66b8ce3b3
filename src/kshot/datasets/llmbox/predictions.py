"""Raw predictions as the ``post_processing`` of LLMBox's classes sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload


class ModelNumbers(Sequence[float]):
    """What a model gave for one option or question: NLL and tokens, or probabilities.

    It can be unpacked and indexed. It is neither tuple nor list: a class may take those for the turns of a
    conversation.
    """

    def __init__(self, numbers: Sequence[float]) -> None:
        self._numbers = tuple(numbers)

    @overload
    def __getitem__(self, index: int) -> float: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[float]: ...
    def __getitem__(self, index: Any) -> Any:
        """Return one of the numbers, or several."""
        return self._numbers[index]

    def __len__(self) -> int:
        return len(self._numbers)

    def __repr__(self) -> str:
        """Show the numbers."""
        return repr(self._numbers)
