"""The answers of methods that are more than a value: with what led to them, or several to one sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kshot.core.records import UNANSWERED, Failed

NO_MATCH = "no match"
"""The rule of a reply in which the user's pattern finds nothing."""


@dataclass(frozen=True, slots=True)
class Explained:
    """An answer with what led to it. A method may return it in place of the bare answer, which is what metrics see.

    ``why`` goes into the sample's row. ``others`` are the answers by other rules, by the name of the rule, which a
    metric with that ``rule`` scores. ``tied`` are the rules by which several options came first; "": the answer's own.
    ``values`` were measured with the answer: a metric with that ``rule`` gets its value in place of an answer.
    """

    answer: Any
    why: Mapping[str, Any] = field(default_factory=dict)
    others: Mapping[str, Any] = field(default_factory=dict)
    tied: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Repeats:
    """The answers of a sample that was asked several times, and the failures of its other repeats."""

    answers: tuple[Any, ...]
    failures: tuple[Failed, ...] = ()

    @property
    def majority(self) -> Any:
        """The most frequent answer; the first one given on a tie."""
        return self._first[0]

    @property
    def tied(self) -> bool:
        """Whether several answers are the most frequent ones."""
        return any(each != self._first[0] for each in self._first)

    @property
    def _first(self) -> list[Any]:
        """The most frequent answers, in the order given. Replies without an answer have no vote beside others."""
        votes = [each for each in self.answers if each != UNANSWERED] or list(self.answers)
        most = max(map(votes.count, votes))
        return [each for each in votes if votes.count(each) == most]


def bare(answer: Any) -> Any:
    """Return an answer, or each of several, without what led to it."""
    if isinstance(answer, Explained):
        return answer.answer
    return replace(answer, answers=tuple(map(bare, answer.answers))) if isinstance(answer, Repeats) else answer


@dataclass(frozen=True, slots=True)
class TextLikelihood:
    """How likely a text is: its negative log-likelihood in nats, and the tokens, words and bytes that it sums over.

    ``greedy``: whether the model would write it; None if that is not known. It unpacks as a pair: ``nll, tokens``.
    """

    nll: float
    tokens: int
    words: int
    bytes: int
    greedy: bool | None = None

    def __iter__(self) -> Iterator[float]:
        """Yield the negative log-likelihood and the number of tokens."""
        return iter((self.nll, self.tokens))
