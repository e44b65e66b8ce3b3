"""Raw predictions as the ``post_processing`` of LLMBox's classes sees them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import total_ordering
from typing import Any, overload


@total_ordering
class ModelNumbers(Sequence[float]):
    """What a model gave for one option or question: NLL and tokens, or probabilities.

    It can be unpacked, indexed and compared. It is neither tuple nor list: a class may take those for the turns of a
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

    def __eq__(self, other: object) -> bool:
        return tuple(other) == self._numbers if isinstance(other, Sequence) else NotImplemented

    def __lt__(self, other: Sequence[float]) -> bool:
        return self._numbers < tuple(other)

    def __hash__(self) -> int:
        return hash(self._numbers)

    def __repr__(self) -> str:
        """Show the numbers."""
        return repr(self._numbers)
