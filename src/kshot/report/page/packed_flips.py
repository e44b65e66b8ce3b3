"""The samples that runs of a report share: which of them flipped, and the files that pair them for its script."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kshot.report.page.packed_samples import pack
from kshot.report.page.samples_read import SamplesRead

if TYPE_CHECKING:
    from kshot.runs.comparing import Comparison

_FLIPPED = frozenset("wl")


@dataclass(frozen=True)
class SamplePairs:
    """The pairs of samples of a run with its baseline, by their numbers, with a letter for who is right."""

    baseline: str
    run: str
    pairs: list[tuple[int, int]] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)

    def file(self, here: Mapping[str, Collection[int]]) -> tuple[str, bytes]:
        """Return the name and the content of the file that pairs the samples that are in the report."""
        own, other = here[self.baseline], here[self.run]
        kept = [at for at, (one, two) in enumerate(self.pairs) if one in own and two in other]
        value: dict[str, Any] = {
            "state": "ready",
            "pairs": [self.pairs[at] for at in kept],
            "flips": "".join(self.outcomes[at] for at in kept),
        }
        return f"data/compare/{self.baseline}/{self.run}.json", pack(value)


def sample_pairs(comparison: Comparison | None, read: Sequence[SamplesRead]) -> list[SamplePairs]:
    """Pair the samples of runs with those of their baseline, by the headline of each task."""
    if comparison is None:
        return []
    from kshot.runs.sample_flips import paired_places

    by_name = {each.run.name: each for each in read}
    found: dict[tuple[str, str], SamplePairs] = {}
    for paired in paired_places(comparison):
        one, other = by_name.get(paired.match.baseline.run.label), by_name.get(paired.match.other.run.label)
        if one is None or other is None or one is other:
            continue
        keys = one.run.key, other.run.key
        pairs = found.setdefault(keys, SamplePairs(*keys))
        numbers = zip(one.numbers_at(paired.baseline), other.numbers_at(paired.run), strict=True)
        pairs.pairs.extend(numbers)
        pairs.outcomes.extend(paired.outcomes)
    return list(found.values())


def flipped_numbers(pairs: Sequence[SamplePairs]) -> dict[str, set[int]]:
    """Return by run the numbers of the samples that flipped against another run of the report."""
    found: dict[str, set[int]] = {}
    for each in pairs:
        for (one, other), outcome in zip(each.pairs, each.outcomes, strict=True):
            if outcome in _FLIPPED:
                found.setdefault(each.baseline, set()).add(one)
                found.setdefault(each.run, set()).add(other)
    return found
