"""What a judge's replies come to where each rates an answer: means in all and by what the reference tells of the row.

The answer that these metrics score is the judge's reply. A reply without a rating is left out of the means.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from kshot.configs.corpus_metrics import CorpusMetric, ScoredPair
from kshot.configs.evaluators.judge_grades import Reading
from kshot.configs.evaluators.scores import SeesRows
from kshot.configs.evaluators.tallies import Counts, Tally, gold_of, ratio
from kshot.core.errors import DataError
from kshot.core.records import Sample


def told(gold: Any, key: str) -> Any:
    """Return what the reference of a judged sample tells; it is a dict."""
    if not isinstance(gold, Mapping) or key not in gold:
        raise DataError(
            f"the judge's reference has no {key!r}: {gold!r:.80}",
            hint="reader_cfg's output_column must name the column 'judge', a dict of what the figures are grouped by.",
        )
    return gold[key]


class Ratings(Tally):
    """Means of ratings, in all and by groups; ``pattern`` finds the rating as its first group.

    ``groups`` gives the names of the figures that a rating counts for; the first one is that of all samples.
    """

    def __init__(
        self,
        pattern: str,
        groups: Callable[[Any], Sequence[str]],
        *,
        scale: float = 1.0,
        digits: int | None = None,
    ) -> None:
        self.pattern, self.scale, self.digits = pattern, scale, digits
        self._groups = groups
        self._names: dict[str, None] = {}

    def __repr__(self) -> str:
        """Show the settings alone: the groups are the rows'."""
        return f"{type(self).__name__}({self.pattern!r}, scale={self.scale:g}, digits={self.digits})"

    @property
    def names(self) -> tuple[str, ...]:
        """The figure of all, then those of the groups."""
        return tuple(self._names)

    def see(self, samples: Iterable[Sample]) -> None:
        """Find the groups that there are."""
        for sample in samples:
            self._names |= dict.fromkeys(self._groups(gold_of(sample)))
        self.name = next(iter(self._names), "")

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Add the rating and 1 in each of the row's groups."""
        held, rating = self._groups(gold_of(sample)), self.rating(str(answer))
        return tuple(
            each
            for name in self._names
            for each in ((0.0, 0.0) if rating is None else (rating * held.count(name), float(held.count(name))))
        )

    def rating(self, reply: str) -> float | None:
        """Return the rating in a reply; None where there is none."""
        found = re.search(self.pattern, reply)
        try:
            return float(found[1]) if found else None
        except ValueError:  # such as 7.5.1
            raise DataError(f"the judge's rating {found[1] if found else ''!r} is not a number") from None

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return the means of the groups that have a rating."""
        means = zip(self._names, sums[::2], sums[1::2], strict=True)
        return {name: self._rounded(self.scale * total / count) for name, total, count in means if count}

    def _rounded(self, value: float) -> float:
        return value if self.digits is None else round(value, self.digits)


def _by_capability(gold: Any) -> list[str]:
    return ["total", str(told(gold, "capability"))]


def _by_format(gold: Any) -> list[str]:
    formats = [str(told(gold, "format"))] if told(gold, "format_type") == "general" else []
    return ["overall", str(told(gold, "domain")), *formats]


def _by_domain(gold: Any) -> list[str]:
    return ["overall", str(told(gold, "domain1"))]


def _by_difficulty(gold: Any) -> list[str]:
    return ["Average_score", f"{told(gold, 'category')}_{told(gold, 'difficulty')}"]


class LowestOfTurns(SeesRows, CorpusMetric):
    """MT-Bench-101: the lowest rating of each conversation's turns, their means by task, and the mean of these."""

    name = "avg"

    def __init__(self) -> None:
        self._tasks: dict[str, None] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The mean of all tasks, then the tasks."""
        return ("avg", *self._tasks)

    @property
    def details(self) -> tuple[str, ...]:
        """The tasks."""
        return tuple(self._tasks)

    def see(self, samples: Iterable[Sample]) -> None:
        """Find the tasks that there are."""
        self._tasks |= dict.fromkeys(str(told(gold_of(sample), "task")) for sample in samples)

    def figures(self, pairs: Sequence[ScoredPair]) -> Mapping[str, float | None]:
        """Take the lowest rating of each conversation; where no reply has a rating, there is no figure."""
        lowest: dict[tuple[str, str], int] = {}
        for reply, gold, _ in pairs:
            if found := re.search(r"\[([0-9]+)\]", str(reply)):
                key = str(told(gold, "task")), str(told(gold, "multi_id"))
                lowest[key] = min(int(found[1]), lowest.get(key, int(found[1])))
        by_task: dict[str, list[int]] = {}
        for (task, _), rating in lowest.items():
            by_task.setdefault(task, []).append(rating)
        means = {task: sum(ratings) / len(ratings) for task, ratings in by_task.items()}
        return {**means, "avg": round(sum(means.values()) / len(means), 3)} if means else {}


_LEVELS = 5


class FollowedLevels(Tally):
    """FollowBench: how many instructions are followed, wholly (HSR) and in part (SSR), by the number of constraints."""

    name = "HSR_AVG"

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def __repr__(self) -> str:
        """Show the class alone: the levels are the rows'."""
        return "FollowedLevels()"

    @property
    def names(self) -> tuple[str, ...]:
        """The means, then the levels."""
        levels = [f"{kind}_L{level}" for kind in ("HSR", "SSR") for level in range(1, _LEVELS + 1)]
        return ("HSR_AVG", "SSR_AVG", *levels)

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Count samples; of the row's level what was followed wholly and in part, unreadable replies, and samples."""
        level = int(told(gold_of(sample), "level"))
        wholly, partly = followed(str(answer), level)
        mine = (0.0, 0.0, 1.0, 1.0) if wholly < 0 else (wholly, partly, 0.0, 1.0)
        return (1.0, *(each for at in range(1, _LEVELS + 1) for each in (mine if at == level else (0.0,) * 4)))

    def see(self, samples: Iterable[Sample]) -> None:
        """Find the levels that there are."""
        self._seen |= {int(told(gold_of(sample), "level")) for sample in samples}

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Divide by a fifth of the samples, less those of the level that could not be read.

        A level of which no reply can be read counts as 0; one whose samples all failed has no figure.
        """
        group = sums[0] // _LEVELS
        found: dict[str, float] = {}
        for kind, name in enumerate(("HSR", "SSR")):
            levels = {}
            for at in range(_LEVELS):
                *followed_ones, unread, samples = sums[1 + 4 * at : 5 + 4 * at]
                if samples or at + 1 not in self._seen:
                    levels[f"{name}_L{at + 1}"] = ratio(followed_ones[kind], group - unread)
            average = {f"{name}_AVG": sum(levels.values()) / _LEVELS} if len(levels) == _LEVELS else {}
            found |= average | levels
        return found


def followed(reply: str, level: int) -> tuple[float, float]:
    """Return whether all constraints are followed and which share of them; -1 for a reply that cannot be read.

    The last line says YES or NO for one constraint, and has a list of such words for several.
    """
    last = reply.strip("`").strip().split("\n")[-1]
    if level == 1:
        return (1.0, 1.0) if "YES" in last else (0.0, 0.0) if "NO" in last else (-1.0, -1.0)
    listed = re.search(r"\[.*\]", last)
    try:
        words = ast.literal_eval(listed[0]) if listed else None
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        words = None
    known = ("YES", "True", "NO", "False", "PARTIAL", "MAYBE", "UNKNOWN", "N/A")
    if not isinstance(words, list) or len(words) != level or not all(word in known for word in words):
        return (-1.0, -1.0)
    yes = sum(word in ("YES", "True") for word in words)
    return float(yes == level), yes / level


class FirstNumbers(Tally):
    """EESE: the first whole number of each reply, out of 10; 0 where there is none."""

    name = mean = "overall_score"

    def counts(self, sample: Sample, answer: Any) -> Counts:  # noqa: ARG002 - the reply tells all
        """Read the number; a reply that is nothing but a number may have a sign."""
        try:
            return (float(int(str(answer))),)
        except ValueError:
            found = re.search(r"(?<!\d)\d+(?!\d)", str(answer))
            return (float(found[0]) if found else 0.0,)

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return the number in percent of 10."""
        return {self.name: 10 * sums[0]}


_NUMBER = re.compile(r"(?:<NUMBER>|\\boxed\{)\s*(-?\d*\.?\d+)\s*(?:</NUMBER>|\})")


class LastNumbers(Tally):
    """ChemExam: the last number between ``<NUMBER>`` marks or in a box, from 0 to 1; 0 where there is none."""

    name = "final_score"

    def counts(self, sample: Sample, answer: Any) -> Counts:  # noqa: ARG002 - the reply tells all
        """Read the number."""
        found = _NUMBER.findall(str(answer))
        return (float(found[-1]) if found else 0.0, 1.0)

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return the mean in percent."""
        return {self.name: round(100 * ratio(*sums), 2)}


_KEYED = r"[\"']{}[\"']:\s*({})"

READINGS: dict[str, Reading] = {
    **dict.fromkeys(
        ("mtbench_postprocess", "mtbench"),
        partial(Ratings, r"Rating:\s*\[\[([\d.]+)\]\]", _by_capability, digits=2),
    ),
    **dict.fromkeys(
        ("commonbench_postprocess", "commenbench"),
        partial(Ratings, r"\[\[([\d.]+)\]\]", _by_capability, digits=2),
    ),
    **dict.fromkeys(
        ("fofo_postprocess", "fofo"), partial(Ratings, _KEYED.format("format_correctness", "[0-1]+"), _by_format)
    ),
    **dict.fromkeys(
        ("writingbench_postprocess", "writingbench"), partial(Ratings, _KEYED.format("score", "[0-9]+"), _by_domain)
    ),
    **dict.fromkeys(
        ("compassarena_subjectiveeval_pointwise_postprocess", "compassarena_subjectiveeval_pointwise"),
        partial(Ratings, r"\[\[(\d+)分\]\]", _by_difficulty, scale=20.0, digits=3),
    ),
    **dict.fromkeys(("mtbench101_postprocess", "mtbench101"), LowestOfTurns),
    **dict.fromkeys(("followbench_postprocess", "followbench"), FollowedLevels),
    "eese_score_postprocess_dict": FirstNumbers,
    "chem_exam_score_llmjudge_postprocess": LastNumbers,
}
