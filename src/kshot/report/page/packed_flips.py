"""The samples that runs of a report share: which of them flipped, and the files that pair them for its script."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kshot.report.comparison import headline_rows
from kshot.report.page.packed_samples import pack
from kshot.report.page.samples_read import SamplesRead
from kshot.runs.sample_verdicts import metric_scales

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
    """Pair the samples of runs with those of their baseline, by the metric that stands for each task."""
    if comparison is None:
        return []
    from kshot.runs.paired_places import paired_places

    by_name = {each.run.name: each for each in read}
    found: dict[tuple[str, str], SamplePairs] = {}
    for row in headline_rows(comparison.rows):
        one, other = by_name.get(row["baseline_run"]), by_name.get(row["run_run"])
        matched = comparison.match_of(row)
        if one is None or other is None or matched is None:
            continue
        scale = metric_scales(one.run.record.results).get((row["task"], row["baseline_model"]))
        if scale is None or scale.metric != row["metric"]:
            continue
        keys = one.run.key, other.run.key
        pairs = found.setdefault(keys, SamplePairs(*keys))
        for place in paired_places(matched, scale):
            numbers = one.number_at(place.baseline), other.number_at(place.run)
            if numbers[0] is not None and numbers[1] is not None:
                pairs.pairs.append((numbers[0], numbers[1]))
                pairs.outcomes.append(place.outcome)
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
